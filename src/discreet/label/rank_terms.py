"""What the sites and the coordinator agree on before a score is sent, and its claim."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NoReturn

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.label.released_sums import Budget
from discreet.privacy.claim import Claim, Setting, Trust
from discreet.privacy.loss import (
    Amount,
    ApproxDP,
    Loss,
    PureDP,
    decimal_text,
    exact,
    loss_of,
)
from discreet.privacy.unit import LABEL
from discreet.statistic.protocol import Statistic
from discreet.statistic.rank_sums import Aggregation, MechanismName, RankSums

VERSION: Final = 1
MIN_EPSILON: Final = Fraction(1, 100)
WITH_DELTA: Final[frozenset[MechanismName]] = frozenset(
    ("endpoint", "adaptive", "orthogonal", "local-laplace", "global-laplace")
)
"""Mechanisms that can have Gaussian noise."""
AGAIN: Final = ("a further model on the same labels is charged again",)
KEPT_FLIPS: Final = (
    "a further model is charged again unless the examples have ids",
    "where they have, that a label was changed since an earlier evaluation",
)


@dataclass(frozen=True, slots=True)
class RankSumTerms:
    """An evaluation of the AUC by rank sums, under label privacy.

    Args:
        epsilon: the loss for one flipped label; a decimal is taken as written.
        delta: above 0 for Gaussian noise.
        mechanism: what each site releases; see ``RankSums``.
        share: alpha or beta of the mechanisms that split their budget by hand.
        aggregation: ``plain``, each site's sums on their own; or ``secagg``, only the
            sum of all sites' endpoint sums is opened, with noise added once.
        colluders: under ``secagg``, how many sites may tell the coordinator their
            noise.
    """

    epsilon: Amount
    delta: Amount = 0
    mechanism: MechanismName = "choice"
    share: Amount = Fraction(1, 2)
    aggregation: Aggregation = "plain"
    colluders: int = 0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "share"):
            object.__setattr__(self, name, exact(getattr(self, name), name=name))
        if self.budget.epsilon < MIN_EPSILON:
            raise PlanError(
                f"rank sums need an epsilon of at least {decimal_text(MIN_EPSILON)}: "
                "below it no AUC is left, and the noise is too large to be drawn"
            )
        RankSums(self.mechanism, self.share, self.aggregation)  # checks these three
        if self.delta and self.mechanism not in WITH_DELTA:
            raise PlanError(
                f"delta is for Gaussian noise: {', '.join(sorted(WITH_DELTA))}; "
                f"omit it for {self.mechanism}"
            )
        if self.colluders < 0 or (self.colluders and self.aggregation == "plain"):
            raise PlanError(
                "colluders are for secure aggregation, and not negative: plain "
                "messages are private on their own"
            )
        if self.aggregation == "secagg" and self.delta:
            raise PlanError("secure aggregation adds Laplace noise: omit delta")

    @classmethod
    def of(cls, sums: Statistic, loss: Loss, *, colluders: int = 0) -> RankSumTerms:
        """Take the terms out of a plan: its statistic, what it may cost, its cohort."""
        if not isinstance(sums, RankSums) or not isinstance(loss, PureDP | ApproxDP):
            raise PlanError("this plan takes no rank sums at a finite loss")
        delta = loss.delta if isinstance(loss, ApproxDP) else 0
        told = colluders if sums.aggregation == "secagg" else 0
        return cls(
            loss.epsilon, delta, sums.mechanism, sums.share, sums.aggregation, told
        )

    @property
    def budget(self) -> Budget:
        """The loss for one flipped label."""
        return loss_of(self.epsilon, self.delta)

    @property
    def pure(self) -> PureDP:
        """The loss where there is no delta."""
        return PureDP(exact(self.epsilon))

    @property
    def rank_share(self) -> Fraction:
        """Alpha or beta, exactly."""
        return exact(self.share)

    @property
    def keeps_flips(self) -> bool:
        """Whether labels are flipped once, for any number of models."""
        return self.mechanism in ("response", "response-labels")

    def canonical(self) -> bytes:
        """Return the terms as sorted JSON with exact decimals: one text for one."""
        fields = {
            "aggregation": self.aggregation,
            "colluders": self.colluders,
            "delta": decimal_text(exact(self.delta)),
            "epsilon": decimal_text(exact(self.epsilon)),
            "mechanism": self.mechanism,
            "share": decimal_text(exact(self.share)),
            "statistic": "rank sums",
            "version": VERSION,
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    def digest(self) -> bytes:
        """Return the hash that names the terms."""
        return hashlib.sha256(self.canonical()).digest()

    @property
    def discloses(self) -> tuple[str, str]:
        """What the coordinator sees."""
        if self.aggregation == "secagg":
            sent = "two noisy sums over all sites"
        elif self.mechanism == "response-labels":
            sent = "each site's flipped labels"
        else:
            sent = "two noisy sums of each site, or one"
        return "every score, in no telling order, and each site's size", sent

    def claim(self, setting: Setting) -> Claim:
        """Return what an evaluation under these terms promises."""
        summed = self.aggregation == "secagg"
        told = f"at most {self.colluders} sites tell the coordinator their noise"
        return Claim(
            LABEL,
            self.budget,
            Trust.SUM_ONLY if summed else Trust.LABELS_ONLY,
            computational=summed or self.keeps_flips,
            setting=setting,
            discloses=self.discloses,
            not_protected=(
                "what a good score says about a label by itself",
                "lying sites",
                *(KEPT_FLIPS if self.keeps_flips else AGAIN),
            ),
            assumes=(told,) if summed else (),
        )


@dataclass(frozen=True, slots=True)
class RankedNoise:
    """The mechanism of a round of rank sums, as far as a plan knows it.

    What is added to which sum follows from the ranks, in the ranks conversation.
    """

    terms: RankSumTerms

    def sent(self, cells: int) -> int:
        """The sums alone, beside the public option."""
        return cells

    def loss(self) -> Loss:
        """The whole budget."""
        return self.terms.budget

    def protect(self, exact: IntVector, *, entropy: Entropy) -> NoReturn:
        """Refuse: nothing can be protected before it is ranked."""
        del exact, entropy
        raise PlanError("rank sums are protected in the ranks conversation")

    def open(self, total: IntVector, contributors: int) -> NoReturn:
        """Refuse: what was opened are not counts."""
        del total, contributors
        raise PlanError("rank sums are no counts; see discreet.label.opened_sums")
