"""What a site keeps as long as its labels, and how it answers with it.

A site's labels are flipped once: the same flips for every model, one charge. A flip is
a function of a secret key, the set of labels and the example's id. The set is part of
it because one flip on two different labels of the same example would show whether they
agree: a corrected label, an added example or a new order of rows without ids is another
set, with fresh flips for all and a charge of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import CodeVector, IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.choose import decoder_for
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.plan.plan import Plan, ResolvedRound
from discreet.privacy.account import Account, MemoryAccount, Use, answer_once
from discreet.statistic.histogram import ClassHistogram, class_cells
from discreet.statistic.protocol import check_binary

_SET_DOMAIN: Final = b"discreet/1/label-set"
_CHARGE_DOMAIN: Final = b"discreet/1/label-charge"


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The labels of a site's examples by their ids, in the order of the rows."""

    labels: CodeVector
    ids: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.ids) != self.labels.size:
            raise InputError(
                f"{self.labels.size} labels need as many ids, got {len(self.ids)}"
            )
        if len(set(self.ids)) != len(self.ids):
            raise InputError("the ids of the examples must differ")

    @classmethod
    def of(cls, examples: Examples) -> LabelSet:
        """Take the labels; the ids are the subjects where each has one example.

        Otherwise an example's id is the number of its row: then another order of
        the same rows is another label set.
        """
        check_binary(examples)
        subjects: list[object] = []
        named = True
        labels = []
        for batch in examples.batches():
            labels.append(batch.labels)
            named = named and batch.subjects is not None
            if batch.subjects is not None:
                subjects.extend(batch.subjects.tolist())
        every = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int64)
        if named and len(set(subjects)) == every.size:
            return cls(every, tuple(f"subject {s}".encode() for s in subjects))
        return cls(every, tuple(b"row %d" % i for i in range(every.size)))

    @cached_property
    def digest(self) -> bytes:
        """One hash of which example has which label, whatever their order."""
        rows = sorted(zip(self.ids, self.labels.tolist(), strict=True))
        parts = [b"%d %d %b" % (label, len(i), i) for i, label in rows]
        return hashlib.sha256(b"".join(parts)).digest()

    def flipped(self, response: RandomizedResponse, key: ResponseKey) -> IntVector:
        """Return the labels to use instead: the same whenever they are asked for."""
        return response.flip(self.labels, self.ids, key=self._own(key))

    def charge(self, response: RandomizedResponse, key: ResponseKey) -> bytes:
        """Return what two uses of the same flips have in common."""
        loss = str(response.loss()).encode()
        return hmac.digest(self._own(key).secret, _CHARGE_DOMAIN + loss, "sha256")

    def _own(self, key: ResponseKey) -> ResponseKey:
        return ResponseKey(hmac.digest(key.secret, _SET_DOMAIN + self.digest, "sha256"))


@dataclass(frozen=True)
class LabelCustody:
    """What a site keeps as long as its labels: the key of its flips, its account.

    The same custody makes a further model on the same labels free under randomized
    response; a new key, or a new account, would not know of the earlier flips.
    """

    key: ResponseKey
    account: Account = field(default_factory=MemoryAccount)

    @classmethod
    def fresh(cls, entropy: Entropy) -> LabelCustody:
        """Draw a key and open an account that lives as long as its process."""
        return cls(ResponseKey(entropy(32)))


def answer(
    examples: Examples,
    custody: LabelCustody,
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    entropy: Entropy,
) -> IntVector:
    """Count, charge, protect, store, and only then return what is sent.

    The account is charged before anything is drawn, and the answer is stored before
    it is sent, so that a retry gets the same bytes. Flipped labels are charged once
    for their label set, key and epsilon; noise on binned positives every time.
    """
    statistic = this.statistic
    if not isinstance(statistic, ClassHistogram):
        raise PlanError("label privacy counts two classes and no groups")
    exact = statistic.count(examples)
    mechanism = decoder_for(plan, this)
    reusable: bytes | None = None
    protect: Callable[[], IntVector]
    match mechanism:
        case RandomizedResponse():
            labels = LabelSet.of(examples)
            reusable = labels.charge(mechanism, custody.key)

            def protect() -> IntVector:
                flipped = labels.flipped(mechanism, custody.key)
                cells = class_cells(statistic.edges, examples.to_arrays()[0], flipped)
                return np.bincount(cells, minlength=statistic.size)

        case BinnedPositives():

            def protect() -> IntVector:
                return mechanism.protect(exact, entropy=entropy)

        case _:
            raise PlanError("only a plan under label privacy is answered so")
    intent = hashlib.sha256(plan.digest() + exact.astype("<i8").tobytes()).digest()
    use = Use(
        population,
        session,
        this.index,
        mechanism.loss(),
        intent,
        plan=plan.digest(),
        reusable=reusable,
    )
    sent = answer_once(custody.account, use, lambda: protect().astype("<i8").tobytes())
    return np.frombuffer(sent, dtype="<i8").astype(np.int64)
