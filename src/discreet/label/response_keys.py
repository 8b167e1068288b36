r"""What a site keeps as long as its labels, and how it answers with it.

**Responses that are kept.** Where every example has an id of its own, its flip f is a function of a
secret key, the population, epsilon and that id, and of nothing else: the report of a
label y is y xor f, the same for every model and in every order of the rows. All
reports of one label ever made follow from its first one and from when it changed. So

- the value of a label costs epsilon *once*, however often it is asked for: two labels
  that never change, or change at the same times, are told apart within e^epsilon;
- a label that was changed between two evaluations reports the opposite, for certain:
  *that* it changed is not protected, and no other example's report moves with it.

The charge is one for a set of ids, a key and an epsilon. It does not look at a label:
a charge or a refusal that did would announce a change by itself.

**Fresh responses.** Without ids nothing says that two rows are one example, and one flip
on the labels of two examples would show whether they agree. Then the session is part
of the key: every session has flips of its own, and is charged. Nothing tells a changed
label from another flip.

The key is used by HMAC-SHA256: that flips are independent is a computational claim.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy, child
from discreet.errors import InputError, PlanError
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import (
    MemoryAccount,
    SiteAccount,
    Use,
    answer_once,
)
from discreet.statistic.histogram import ClassHistogram, class_cells
from discreet.statistic.protocol import check_binary

_FLIP_DOMAIN: Final = b"discreet/2/label-flips"
_CHARGE_DOMAIN: Final = b"discreet/2/label-charge"


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The labels of a site's examples in one session, and who the examples are.

    Args:
        labels: 0 or 1, in the order of the rows.
        ids: an id for each example, the same wherever the example appears; None where
            examples have none.
        population: what the ids are ids of.
        session: the session that fresh flips belong to.
    """

    labels: CodeVector = field(repr=False)
    ids: tuple[bytes, ...] | None = field(repr=False)
    population: str
    session: bytes
    scores: FloatVector | None = field(default=None, repr=False)
    """Read in the same pass, for whoever counts over them."""

    def __post_init__(self) -> None:
        if self.ids is None:
            return
        if len(self.ids) != self.labels.size:
            raise InputError(
                f"{self.labels.size} labels need as many ids, got {len(self.ids)}"
            )
        if len(set(self.ids)) != len(self.ids):
            raise InputError("the ids of the examples must differ")

    @classmethod
    def of(cls, examples: Examples, *, population: str, session: bytes) -> LabelSet:
        """Take the labels; the ids are the subjects where each has one example."""
        check_binary(examples)
        ids: list[bytes] = []
        labels = [np.zeros(0, dtype=np.int64)]
        scores = [np.zeros(0)]
        for batch in examples.batches():
            labels.append(batch.labels.astype(np.int64))
            scores.append(batch.scores[0])
            if batch.subjects is not None:
                ids.extend(f"subject {s}".encode() for s in batch.subjects.tolist())
        every = np.concatenate(labels)
        named = len(set(ids)) == every.size
        return cls(
            every,
            tuple(ids) if named else None,
            population,
            session,
            np.concatenate(scores),
        )

    def flipped(self, response: RandomizedResponse, key: ResponseKey) -> IntVector:
        """Return the labels to use instead of the true ones."""
        if self.ids is None:
            rows = tuple(b"row %d" % i for i in range(self.labels.size))
            return response.flip(
                self.labels, rows, key=self._own(key, b"session", self.session)
            )
        return response.flip(self.labels, self.ids, key=self._own(key, b"ids"))

    def charge(self, response: RandomizedResponse, key: ResponseKey) -> bytes | None:
        """Return what two uses of the same flips have in common; None if none have."""
        if self.ids is None:
            return None
        listed = hashlib.sha256(_joined(*sorted(self.ids))).digest()
        told = _joined(_CHARGE_DOMAIN, str(response.loss()).encode(), listed)
        return hmac.digest(self._own(key, b"ids").secret, told, "sha256")

    def _own(self, key: ResponseKey, *scope: bytes) -> ResponseKey:
        """Derive the key of this population's flips, or of this session's."""
        told = _joined(_FLIP_DOMAIN, self.population.encode(), *scope)
        return ResponseKey(hmac.digest(key.secret, told, "sha256"))


def _joined(*parts: bytes) -> bytes:
    """Join parts, each with its length, so that no two lists have one text."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


@dataclass(frozen=True)
class ResponseKeys:
    """What a site keeps as long as its labels: the key of its flips, its account.

    While both are kept, a further model on the same examples costs nothing under
    randomized response, where they have ids; a new key, or a new account, would not
    know of the earlier responses.
    """

    key: ResponseKey
    account: SiteAccount = field(default_factory=MemoryAccount)

    @classmethod
    def fresh(cls, entropy: Entropy) -> ResponseKeys:
        """Draw a key and open an account that lives as long as its process."""
        return cls(ResponseKey(entropy(32)))

    @classmethod
    def of_sites(cls, sites: int, entropy: Entropy) -> list[ResponseKeys]:
        """Draw a key for each of so many simulated sites."""
        return [cls.fresh(child(entropy, f"flips {k + 1}")) for k in range(sites)]


def answer(
    examples: Examples,
    response_keys: ResponseKeys,
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    entropy: Entropy,
) -> IntVector:
    """Charge, count, protect, store, and only then return what is sent.

    The account is charged before a label is looked at, and the answer is stored before
    it is sent, so that a retry gets the same bytes. Kept responses are charged once
    for their ids, key and epsilon; fresh ones, and noise on binned positives, every time.
    """
    statistic = this.statistic
    if not isinstance(statistic, ClassHistogram):
        raise PlanError("label privacy counts two classes and no groups")
    mechanism = plan.privacy.mechanism_for(this, plan.cohort)
    reusable: bytes | None = None
    protect: Callable[[], IntVector]
    match mechanism:
        case RandomizedResponse():
            labels = LabelSet.of(examples, population=population, session=session)
            reusable = labels.charge(mechanism, response_keys.key)

            def protect() -> IntVector:
                flipped = labels.flipped(mechanism, response_keys.key)
                scores = np.zeros(0) if labels.scores is None else labels.scores
                cells = class_cells(statistic.edges, scores, flipped)
                return np.bincount(cells, minlength=statistic.size)

        case BinnedPositives():

            def protect() -> IntVector:
                return mechanism.protect(statistic.count(examples), entropy=entropy)

        case _:
            raise PlanError("only a plan under label privacy is answered so")
    use = Use(
        population,
        session,
        this.index,
        mechanism.loss(),
        plan=plan.digest(),
        reusable=reusable,
        unit=plan.privacy.protects,
        asked=plan.asked(),
        purpose=plan.purpose,
        coordinator="" if plan.roster is None else plan.roster.coordinator_text,
    )
    sent = answer_once(
        response_keys.account, use, lambda: protect().astype("<i8").tobytes()
    )
    return np.frombuffer(sent, dtype="<i8").astype(np.int64)
