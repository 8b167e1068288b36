"""The same metric in random groups of sites: what one liar cannot do everywhere.

Each group's sum was opened on its own. A lying site moves its own group and no other:
the groups' spread shows it, the pooled value without that group is free of it, and the
median over g groups stays among honest values while fewer than g/2 groups hold a liar.

Groups of honest sites differ too: by sampling, by noise, and because hospitals do. So
a group stands out only when the median lies outside its own interval by more than
the groups usually differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.errors import ReleaseError
from discreet.estimate.estimate import Interval
from discreet.metrics.table import METRICS
from discreet.plan.rounds import Release
from discreet.secagg.graph import SiteGroups

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation

_LEVEL: Final = 0.9999
_SDS: Final = 4.0
_MAD_TO_SD: Final = 1.4826
"""Of a normal law, the standard deviation over the median absolute deviation."""


@dataclass(frozen=True, eq=False)
class RandomGroups:
    """An evaluation a group, and one of all sites without that group.

    Args:
        members: which sites are in each group, by number.
        alone: each group's own evaluation.
        without: the evaluation of all the other groups.
    """

    members: SiteGroups
    alone: tuple[Evaluation, ...]
    without: tuple[Evaluation, ...]

    def values(self, metric: str) -> tuple[float, ...]:
        """Return each group's value; NaN where a group does not define it."""
        return tuple(found.metrics[metric].value for found in self.alone)

    def median(self, metric: str) -> float:
        """Return the median over the groups, which one lying site cannot move far."""
        known = [v for v in self.values(metric) if not math.isnan(v)]
        return float(np.median(known)) if known else math.nan

    def spread(self, metric: str) -> Interval:
        """Return the least and the greatest value of a group."""
        return _ends(self.values(metric))

    def without_one(self, metric: str) -> Interval:
        """Return the least and the greatest value when one group is left out."""
        return _ends([found.metrics[metric].value for found in self.without])

    def stands_out(self, metric: str) -> tuple[int, ...]:
        """Return the places of groups that differ by more than chance allows."""
        middle = self.median(metric)
        away = [abs(v - middle) for v in self.values(metric) if not math.isnan(v)]
        usual = _SDS * _MAD_TO_SD * float(np.median(away)) if away else 0.0
        found = []
        for place, group in enumerate(self.alone):
            low, high = group.metrics[metric].interval(_LEVEL)
            if middle < low - usual or middle > high + usual:
                found.append(place)
        return tuple(found)

    def sentences(self, metrics: Iterable[str]) -> list[str]:
        """Return what stands below the tables, for these metrics."""
        lines = []
        outside: dict[int, list[str]] = {}
        for metric in metrics:
            title = METRICS[metric].title
            low, high = self.spread(metric)
            least, most = self.without_one(metric)
            lines.append(
                f"{title} in {len(self.members)} random groups of sites: {low:.4f} to "
                f"{high:.4f}, median {self.median(metric):.4f}; without one group "
                f"{least:.4f} to {most:.4f}."
            )
            for place in self.stands_out(metric):
                outside.setdefault(place, []).append(title)
        for place, titles in sorted(outside.items()):
            sites = ", ".join(map(str, self.members[place]))
            lines.append(
                f"Note: group {place + 1} (sites {sites}) stands out in "
                f"{', '.join(titles)}: check its sites before you use the pooled value."
            )
        return lines

    def to_dict(self, metrics: Sequence[str]) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "members": [list(group) for group in self.members],
            "metrics": {
                metric: {
                    "values": [_plain(v) for v in self.values(metric)],
                    "median": _plain(self.median(metric)),
                    "without_one": [_plain(v) for v in self.without_one(metric)],
                    "stands_out": [place + 1 for place in self.stands_out(metric)],
                }
                for metric in metrics
            },
        }


def grouped(
    releases: Sequence[Release],
    together: Mapping[str, Evaluation],
    evaluations: Callable[[Release], Mapping[str, Evaluation]],
) -> dict[str, Evaluation]:
    """Add each group's own evaluation, and those without one group, to all together.

    ``evaluations`` makes the evaluations of one sum, by name.
    """
    members = tuple(r.members for r in releases)
    alone = [evaluations(r) for r in releases]
    without = [evaluations(pooled(releases, leave_out=k)) for k in range(len(releases))]
    parts = {}
    for name, part in together.items():
        groups = RandomGroups(
            members,
            tuple(_of_group(a[name], k) for k, a in enumerate(alone, 1)),
            tuple(w[name] for w in without),
        )
        differ = replace(part.heterogeneity, random_groups=groups)
        parts[name] = replace(part, heterogeneity=differ)
    return parts


def _of_group(part: Evaluation, number: int) -> Evaluation:
    return replace(part, source=replace(part.source, part=f"group {number}"))


def pooled(releases: Sequence[Release], *, leave_out: int | None = None) -> Release:
    """Add up the groups' sums of one round, all or all but one."""
    taken = [r for place, r in enumerate(releases) if place != leave_out]
    if len({(r.plan_digest, r.round) for r in taken}) != 1:
        raise ReleaseError("the groups' sums are of different plans or rounds")
    first = taken[0]
    total = first.total.copy()
    for release in taken[1:]:
        total += release.total
    return Release(
        first.plan_digest,
        first.session,
        first.round,
        total,
        sum(r.contributors for r in taken),
        sum(r.expected for r in taken),
        first.loss,
    )


def _ends(values: Sequence[float]) -> Interval:
    known = [v for v in values if not math.isnan(v)]
    return Interval(min(known), max(known)) if known else Interval(math.nan, math.nan)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
