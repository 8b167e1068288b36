r"""Sums of public ranks over the positives: what gives the AUC under label privacy.

The ranks are among all sites' examples, so no site can count alone: the coordinator
ranks the public scores first (``discreet.session.protocols.ranks``). A plan holds which sums are
taken, and how they are protected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from discreet.codec.parsing import Amount, exact
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import PlanError
from discreet.privacy.unit import LABEL, Sensitivity, Unit
from discreet.registry import Registry
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic

RankAggregation: TypeAlias = Literal["plain", "secagg"]
RANK_MECHANISMS: Final = Registry[object](
    "rank mechanism",
    {
        "choice": "discreet.label.mechanisms:CHOICE",
        "endpoint": "discreet.label.mechanisms:ENDPOINT",
        "slack": "discreet.label.mechanisms:SLACK",
        "staircase": "discreet.label.mechanisms:STAIRCASE",
        "global-laplace": "discreet.published.sun2022:GLOBAL",
        "local-laplace": "discreet.published.sun2022:LOCAL",
        "orthogonal": "discreet.published.sun2022:ORTHOGONAL",
        "adaptive": "discreet.published.sun2022:ADAPTIVE",
    },
)
"""Label mechanisms that release sums of ranks: the AUC alone, more precisely.

Each is a ``discreet.label.mechanisms.RankMechanism``. ``choice`` is the default,
endpoint, slack and staircase its parts; the others are a paper's."""
RESPONSES: Final = ("response", "response-labels")
"""Randomized response in its two protocols: sums of flipped labels, or the labels."""
SHARE_STEPS: Final = 10_000
"""Shares of a budget are multiples of one in that many."""


@dataclass(frozen=True, slots=True)
class RankSums(Statistic):
    """Two sums a site: the positives' ranks, weighted in one of several ways.

    Args:
        mechanism: what each site releases; see ``RANK_MECHANISMS``.
        share: alpha or beta of the mechanisms that split their budget by hand.
        aggregation: ``plain``, each site's sums on their own; or ``secagg``, only the
            sum of all sites' endpoint sums is revealed, with noise added once.
    """

    mechanism: str = "choice"
    share: Amount = Fraction(1, 2)
    aggregation: RankAggregation = "plain"

    name: ClassVar[str] = "rank-sums"
    only_for: ClassVar[str | None] = "label"

    def __post_init__(self) -> None:
        share = exact(self.share, name="share")
        object.__setattr__(self, "share", share)
        known = (*RANK_MECHANISMS, *RESPONSES)
        if self.mechanism not in known:
            raise PlanError(f"a mechanism is one of {', '.join(known)}")
        if not 0 < share < 1 or (share * SHARE_STEPS) % 1:
            raise PlanError(
                f"share is a multiple of 1/{SHARE_STEPS} strictly between 0 and 1"
            )
        if self.aggregation not in ("plain", "secagg"):
            raise PlanError("aggregation is 'plain' or 'secagg'")
        summable = self.mechanism in ("choice", "endpoint")
        if self.aggregation == "secagg" and not summable:
            raise PlanError(
                "secure aggregation reveals the sites' endpoint sums with Laplace "
                "noise: use the mechanism choice or endpoint"
            )

    @property
    def size(self) -> int:
        """How many integers a site releases: S and P, in some mixture."""
        return 2

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """None: ranks need no bins."""
        return ()

    def count(self, examples: Examples) -> NoReturn:
        """Refuse: the weights are ranks among all sites' examples."""
        del examples
        raise PlanError("rank sums need every site's scores first, to be ranked")

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Every score can be ranked."""
        return np.ones(len(batch), dtype=np.bool_)

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Return nothing: there is no histogram in rank sums."""
        del counts, noise
        return {}

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """How far one flipped label moves the sums, over the range of the weights.

        The weights are put on an integer grid by each site's public ranks, which a
        plan does not know. With the range of a site's ranks as 1, the two endpoint
        sums move by exactly 1 together. What the integers of each mechanism really
        move is worked out from the ranks, and held to the budget when the mechanism
        is made (``discreet.label.released_sums.LinearSums``).
        """
        if unit != LABEL:
            raise PlanError("rank sums protect one flipped label and no other unit")
        return Sensitivity(1, 1, 1, LABEL)
