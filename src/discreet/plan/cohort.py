"""What is public about a plan's people: how many, who they are, who must take part."""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.parsing import whole
from discreet.secagg.graph import FEWEST_GROUPS


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What is known without looking: rough size, rough prevalence, kind of scores."""

    examples: int | None = None
    prevalence: float | None = None
    scores: ScoreRange = field(default_factory=ScoreRange)

    def __post_init__(self) -> None:
        if self.examples is not None:
            whole(self.examples, "the expected number of examples", least=1)
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise PlanError("the expected prevalence lies strictly between 0 and 1")


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who must take part for the sum to be opened, and with how much.

    Args:
        min_survivors: how many sites are in every opened sum.
        colluders: how many of them may tell their shares of the noise. None means the
            privacy model's own default, which a plan fills in
            (:meth:`~discreet.plan.privacy_model.PrivacyModel.colluders_in`).
        min_examples_per_site: sites with fewer stay out.
        max_examples_per_site: no site has more; bounds what one that lies can do.
        random_groups: split the sites at random into so many groups and open a sum of
            each; every group must keep ``min_survivors``.
    """

    min_survivors: int = 1
    colluders: int | None = None
    min_examples_per_site: int = 0
    max_examples_per_site: int | None = None
    random_groups: int = 1

    def __post_init__(self) -> None:
        whole(self.min_survivors, "the number of sites that survive", least=1)
        if self.colluders is not None:
            whole(self.colluders, "the number of colluders")
            if self.colluders >= self.min_survivors:
                raise PlanError("colluders must be fewer than the surviving sites")
        whole(self.min_examples_per_site, "the floor of examples a site")
        if self.max_examples_per_site is not None:
            whole(
                self.max_examples_per_site,
                "the most examples of a site",
                least=max(self.min_examples_per_site, 1),
            )
        whole(self.random_groups, "the number of random groups", least=1)
        if 1 < self.random_groups < FEWEST_GROUPS:
            raise PlanError(
                f"random groups are at least {FEWEST_GROUPS}: of two that differ nobody "
                "can tell which one lies"
            )

    @property
    def least_sites(self) -> int:
        """How many sites must take part in all for every group to keep its floor."""
        return self.random_groups * self.min_survivors
