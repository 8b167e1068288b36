"""A site's answer under label privacy: flips that stay, or noise that is fresh."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account, MemoryAccount, Use, answer_once
from discreet.ranks.flipped_labels import LabelSet
from discreet.statistic.histogram import ClassHistogram, class_cells


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
    mechanism = plan.privacy.noise(this, plan.cohort)
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
    asked = plan.asked()
    intent = hashlib.sha256(asked + exact.astype("<i8").tobytes()).digest()
    use = Use(
        population,
        session,
        this.index,
        mechanism.loss(),
        intent,
        plan=plan.digest(),
        reusable=reusable,
        unit=plan.privacy.protects,
        asked=asked,
    )
    sent = answer_once(custody.account, use, lambda: protect().astype("<i8").tobytes())
    return np.frombuffer(sent, dtype="<i8").astype(np.int64)
