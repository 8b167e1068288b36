"""The starter policy: what a site allows before its operator has changed a line.

Noisy privacy models only and no exact sum, for one coordinator, about the models that
were named, with a roster. Every key of the file has a line that says what it does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from discreet.plan.cohort import key_text
from discreet.plan.plan import Plan
from discreet.session.policy import MOST_BINS

FEWEST_SITES: Final = 3
FEWEST_EXAMPLES: Final = 100
_TEXT: Final = """\
# What this site allows: a starter. What is not said here is not allowed.
# Read it and change it before it guards real data; docs/policy.md explains each key.

# The people whom the data is about. The budget belongs to them, not to a file.
population = {population}

[allow]
# Privacy models. All of these add noise; exact sums ("secure-aggregation") are left out.
privacy = ["distributed", "local"]
# Who is protected by the noise: one example, one person, or all that a site holds.
units = ["example", "subject", "client"]
# Keys of the coordinators whose plans are answered: the one that was trusted.
coordinators = [{coordinator}]
# Names of the models that may be measured here, or patterns such as "sepsis-*".{fill_in}
models = [{models}]
# Names of the groups of people that a plan may tell apart: none.
groups = []

[caps]
# The most epsilon that one session of a plan may cost.
epsilon_per_plan = "1"
# The most epsilon that this population may ever spend.
epsilon_total = "3"
# The most delta that it may ever spend: 0 is pure differential privacy.
delta_total = "0"
# How many sums without noise may be given, ever: none.
exact_sums = 0
# How often the same counts may be asked for, under any name.
sessions_per_plan = 3
# After so many refusals on a day this site answers nothing new until the next.
refusals_per_day = 20
# The most bins of one histogram.
max_bins = {max_bins}

[floors]
# The fewest sites in a sum.
sites = {sites}
# With fewer examples this site stays out.
examples = {examples}
# The fewest sites that a plan must expect to collude: the one that reads the result.
colluders = 1
# Without noise: the fewest examples of the smaller class expected in a cell.
smallest_cell = 5
# A plan must name its sites and their keys.
require_roster = true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A starter policy of one site.

    Args:
        site: the site's name; its population is called after it.
        coordinator: the identity of the one coordinator that is allowed.
        models: names or patterns of the allowed models; none allows no plan yet.
        sites: the fewest sites in a sum.
    """

    site: str
    coordinator: bytes
    models: tuple[str, ...] = ()
    sites: int = FEWEST_SITES

    @classmethod
    def for_plan(
        cls, site: str, coordinator: bytes, plan: Plan | None, models: Sequence[str]
    ) -> Self:
        """Return the starter that allows the model of an agreed plan, if it names one."""
        named, sites = tuple(models), FEWEST_SITES
        if plan is not None:
            sites = max(sites, plan.cohort.min_survivors)
            if plan.model.name and _literal(plan.model.name) not in named:
                named = (_literal(plan.model.name), *named)
        return cls(site=site, coordinator=coordinator, models=named, sites=sites)

    def text(self) -> str:
        """Return the file, a comment above every key."""
        return _TEXT.format(
            population=_quoted(f"{self.site}-test"),
            coordinator=_quoted(key_text(self.coordinator)),
            models=", ".join(_quoted(name) for name in self.models),
            fill_in=""
            if self.models
            else "\n# None yet: no plan is answered before one is named here.",
            max_bins=MOST_BINS,
            sites=self.sites,
            examples=FEWEST_EXAMPLES,
        )


def _literal(name: str) -> str:
    """Return a pattern that matches this name and no other."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _quoted(text: str) -> str:
    """Return a TOML string: JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)
