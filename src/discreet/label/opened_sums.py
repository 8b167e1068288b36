"""What rank sums open, as one vector of integers, and what it says.

A result is made from a plan and its releases alone. So the vector holds, beside each
site's released integers, the public facts without which nobody could read them: its
option, and six numbers of its ranks. ``read`` gives the AUC again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.estimate.estimate import Estimate
from discreet.label.midranks import RankFacts
from discreet.label.rank_mechanisms import Kind, Option, build
from discreet.label.rank_terms import RankSumTerms
from discreet.label.rank_totals import (
    RankTotals,
    TotalsCovariance,
    add_covariances,
    add_totals,
    rank_auc,
)
from discreet.label.released_sums import SummedEndpoint

_EACH, _SUMMED = 1, 2
"""The first number: each site's sums, or the sum of all sites."""
_HEAD: Final = 3
"""Before the sums: the form, M and the number of sites."""
_ROW: Final = 11
_LIMB: Final = 62
"""Sums of squares may need more than 64 bits: they are kept in two parts."""
REMEDY: Final = (
    "use LabelDP(epsilon, mechanism='curves') for curves, thresholds and calibration"
)
"""How to get what rank sums do not give, the end of a sentence."""
_BOUND = "the sampling error is a bound that holds for any scores, often too wide"
_PLAIN_NAMES: Final[Mapping[Kind, str]] = {
    Kind.NOTHING: "no examples",
    Kind.RESPONSE: "randomized response",
    Kind.RESPONSE_LABELS: "randomized response",
    Kind.GLOBAL: "global noise",
    Kind.LOCAL: "local noise",
    Kind.ORTHOGONAL: "orthogonal noise",
    Kind.ENDPOINT: "endpoint",
    Kind.SLACK: "slack",
    Kind.STAIRCASE: "staircase",
}


@dataclass(frozen=True, slots=True, eq=False)
class SiteSums:
    """What one site released, with the public facts that it is read by."""

    option: Option
    facts: RankFacts
    released: IntVector

    def encode(self) -> list[int]:
        """Return one row of the vector; a sum that was not released is 0."""
        facts, option = self.facts, self.option
        high, low = divmod(facts.squares, 1 << _LIMB)
        public = [option.kind, option.centre, option.part, facts.size]
        public += [facts.low, facts.high, facts.total, high, low]
        return [*public, *self.released.tolist(), *[0] * (2 - self.released.size)]

    @classmethod
    def decode(cls, row: Sequence[int], examples: int, terms: RankSumTerms) -> SiteSums:
        """Read one row."""
        kind, centre, part, size, least, most, total, high, low, *sums = row
        try:
            option = Option(Kind(kind), centre, part)
            facts = RankFacts(examples, size, least, most, total, (high << _LIMB) + low)
            length = build(option, facts, terms.budget).length
        except (ValueError, InputError, PlanError) as error:
            raise ReleaseError(f"a site's sums cannot be read: {error}") from None
        return cls(option, facts, np.array(sums[:length], dtype=np.int64))


def encode_sites(sites: Sequence[SiteSums]) -> IntVector:
    """Return what sites released on their own, as one vector."""
    examples = sum(len(site.facts) for site in sites)
    rows = [number for site in sites for number in site.encode()]
    return np.array([_EACH, examples, len(sites), *rows], dtype=np.int64)


def encode_summed(examples: int, contributors: int, total: IntVector) -> IntVector:
    """Return the opened sum of all sites, with the number of examples it is of."""
    head = np.array([_SUMMED, examples, contributors], dtype=np.int64)
    return np.concatenate([head, total])


@dataclass(frozen=True, slots=True)
class RankFit:
    """One look at opened rank sums: the AUC, and how the sites answered."""

    totals: RankTotals
    covariance: TotalsCovariance
    examples: int
    sites: int
    options: Mapping[Kind, int]

    @property
    def auc(self) -> Estimate:
        """The AUC with its errors."""
        return rank_auc(self.totals, self.examples, covariance=self.covariance)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of the value."""
        used = ", ".join(
            f"{count} by {_PLAIN_NAMES[kind]}" for kind, count in self.options.items()
        )
        return (f"sites answered: {used}", _BOUND) if used else (_BOUND,)


def read(terms: RankSumTerms, total: IntVector) -> RankFit:
    """Read what was opened under these terms.

    Raises:
        ReleaseError: the vector is not one that these terms open.
    """
    if total.ndim != 1 or total.size < _HEAD:
        raise ReleaseError("opened rank sums start with three numbers")
    form, examples, sites, *rest = total.tolist()
    summed = terms.aggregation == "secagg"
    wanted = 2 if summed else _ROW * sites
    if form != (_SUMMED if summed else _EACH) or len(rest) != wanted or sites < 1:
        raise ReleaseError("the opened vector is not one of rank sums on these terms")
    if summed:
        try:
            opened = SummedEndpoint(examples, terms.pure, sites - terms.colluders)
        except PlanError as error:
            raise ReleaseError(f"the opened sum cannot be read: {error}") from None
        totals = opened.decode(total[_HEAD:])
        return RankFit(totals, opened.covariance(sites), examples, sites, {})
    found = [
        SiteSums.decode(rest[at : at + _ROW], examples, terms)
        for at in range(0, len(rest), _ROW)
    ]
    if sum(len(site.facts) for site in found) != examples:
        raise ReleaseError("the sites' examples do not add up to those that are ranked")
    used = [build(site.option, site.facts, terms.budget) for site in found]
    return RankFit(
        add_totals(m.decode(s.released) for m, s in zip(used, found, strict=True)),
        add_covariances(m.covariance for m in used),
        examples,
        sites,
        dict(sorted(Counter(site.option.kind for site in found).items())),
    )
