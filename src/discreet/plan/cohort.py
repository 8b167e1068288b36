"""What is public about a plan's people: how many, who they are, who must take part."""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.data.scores import ScoreRange
from discreet.errors import PlanError


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What is known without looking: rough size, rough prevalence, kind of scores."""

    examples: int | None = None
    prevalence: float | None = None
    scores: ScoreRange = field(default_factory=ScoreRange)

    def __post_init__(self) -> None:
        if self.examples is not None and self.examples < 1:
            raise PlanError("the expected number of examples must be positive")
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise PlanError("the expected prevalence lies strictly between 0 and 1")


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who must take part for the sum to be opened."""

    min_survivors: int = 1
    colluders: int = 0
    min_examples_per_site: int = 0

    def __post_init__(self) -> None:
        if self.min_survivors < 1:
            raise PlanError("at least one site must survive")
        if not 0 <= self.colluders < self.min_survivors:
            raise PlanError("colluders must be fewer than the surviving sites")
        if self.min_examples_per_site < 0:
            raise PlanError("the floor of examples a site cannot be negative")
