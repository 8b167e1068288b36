"""The result of a plan of time to event: its released tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from discreet.plan.plan import Plan
from discreet.privacy.claim import Claim
from discreet.report.evaluation import Source
from discreet.statistic.timed import TimedCounts


@dataclass(frozen=True, eq=False)
class TimedEvaluation:
    """What one released table of follow-up says."""

    counts: TimedCounts
    claim: Claim
    source: Source
    plan: Plan | None = None

    @classmethod
    def of(
        cls, counts: TimedCounts, claim: Claim, source: Source, plan: Plan | None = None
    ) -> TimedEvaluation:
        """Evaluate a released table."""
        return cls(counts, claim, source, plan)


@dataclass(frozen=True, eq=False)
class TimedEvaluations(Mapping[str, TimedEvaluation]):
    """Tables of groups, of score columns for several horizons, or of two models."""

    parts: Mapping[str, TimedEvaluation]
    claim: Claim
    names: tuple[str, str] | None = None
    """What two models are called, where the parts are these."""

    def __getitem__(self, name: str) -> TimedEvaluation:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)
