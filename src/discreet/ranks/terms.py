"""What the sites and the coordinator agree on before a score is sent."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from discreet.errors import PlanError
from discreet.privacy.loss import Amount, ApproxDP, PureDP, decimal_text, exact
from discreet.ranks.build import MECHANISMS, WITH_DELTA, MechanismName
from discreet.ranks.fedauc import SHARE_STEPS
from discreet.ranks.linear import Budget

VERSION: Final = 1
MIN_EPSILON: Final = Fraction(1, 100)
Aggregation: TypeAlias = Literal["plain", "secagg"]


@dataclass(frozen=True, slots=True)
class RankSumTerms:
    """An evaluation of the AUC by rank sums, under label privacy.

    Args:
        epsilon: the loss for one flipped label; a decimal is taken as written.
        delta: above 0 for Gaussian noise.
        mechanism: what each site releases; see ``build.MECHANISMS``.
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
        if self.mechanism not in MECHANISMS:
            raise PlanError(f"a mechanism is one of {', '.join(MECHANISMS)}")
        if self.delta and self.mechanism not in WITH_DELTA:
            raise PlanError(
                f"delta is for Gaussian noise: {', '.join(sorted(WITH_DELTA))}; "
                f"omit it for {self.mechanism}"
            )
        if not 0 < exact(self.share) < 1 or (exact(self.share) * SHARE_STEPS) % 1:
            raise PlanError(
                f"share is a multiple of 1/{SHARE_STEPS} strictly between 0 and 1"
            )
        self._check_aggregation()

    def _check_aggregation(self) -> None:
        if self.aggregation not in ("plain", "secagg"):
            raise PlanError("aggregation is 'plain' or 'secagg'")
        if self.colluders < 0 or (self.colluders and self.aggregation == "plain"):
            raise PlanError(
                "colluders are for secure aggregation, and not negative: plain "
                "messages are private on their own"
            )
        if self.aggregation == "secagg" and (
            self.delta or self.mechanism not in ("choice", "endpoint")
        ):
            raise PlanError(
                "secure aggregation opens the sites' endpoint sums with Laplace "
                "noise: use the mechanism choice or endpoint, and no delta"
            )

    @property
    def budget(self) -> Budget:
        """The loss for one flipped label."""
        epsilon, delta = exact(self.epsilon), exact(self.delta, name="delta")
        return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)

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
        """Return the hash that every message carries."""
        return hashlib.sha256(self.canonical()).digest()
