"""The site's policy: what its operator lets any plan ask for.

A site never trusts the parameters that a coordinator sends: it compares the plan
with this policy, and what the ledger has recorded with its caps. A refusal is one
sentence for the operator; the coordinator learns only the word ``declined``, and the
words that the operator wrote down for all refusals beforehand.

The policy is a small TOML file that the operator writes and signs. Every key is known or
refused: a misspelt cap must not pass for no cap. ``Starter`` writes the first one, a
comment above every key: noisy privacy models only and no exact sum, for one coordinator,
about the models that were named, with a roster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

import tomli_w

from discreet.codec.documents import Text, from_table, refuse_unknown, to_table, written
from discreet.codec.parsing import (
    MOST,
    amount_from_text,
    decimal_text,
    exact,
    name,
    read_text,
    read_toml,
    whole,
)
from discreet.errors import DiscreetError, InputError
from discreet.plan.bins import expected_in_cell
from discreet.plan.cohort import key_from_text, key_text
from discreet.plan.plan import Plan
from discreet.plan.privacy_model import MODELS
from discreet.privacy.account import RETENTION_DAYS, Cap, Limits
from discreet.privacy.composition import compose

DECLINED: Final = "declined"
"""All that a coordinator ever sees of a refusal, but for the policy's own words."""
LONGEST_WORDS: Final = 80
ANY: Final = "*"
"""A coordinator's entry that allows anybody; in ``models`` it is a pattern."""
MOST_BINS: Final = 4096
"""Bins of a histogram unless a policy says otherwise: a pilot round under noise has as
many where nothing is known about the scores."""
_FEWEST_BINS: Final = 3
"""Fewer are no histogram to plan with."""
MOST_DAYS: Final = 3650
_SHA256: Final = "sha256:"
"""How an entry of ``models`` begins that is the digest of a file."""
FEWEST_SITES: Final = 3
FEWEST_EXAMPLES: Final = 100
_STARTER: Final = """\
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
# Models that may be measured here: digests of their files ("sha256:..."), which are
# checked, or names and patterns such as "sepsis-*", which a coordinator writes.{fill_in}
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
# Stored answers are erased when a session ends; of an interrupted one, after so many days.
retention_days = {retention_days}

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

_TABLES: Final = {
    "allow": ("privacy", "units", "coordinators", "models", "groups"),
    "caps": (
        *("epsilon_per_plan", "epsilon_total", "delta_total"),
        *("exact_sums", "sessions_per_plan", "refusals_per_day", "max_bins"),
        "retention_days",
    ),
    "floors": ("sites", "examples", "colluders", "smallest_cell", "require_roster"),
}
"""The tables of a policy's file."""
_TEXTS: Final = ("population", "when_declining")
"""The texts before them."""
_NUMBERS: Final = (*_TABLES["caps"][3:], *_TABLES["floors"][:-1])
UNIT_NAMES: Final = ("example", "subject", "client", "label", "row")


def legible(words: str) -> str:
    """Return what may be shown of words that others wrote: one short line, no controls."""
    return "".join(c for c in words if c.isprintable())[:LONGEST_WORDS]


def _cap(value: object) -> Fraction:
    """Read an amount; operators may write it as a text or as a number."""
    if isinstance(value, int | float):
        return exact(value, name="it")  # which refuses a truth value
    return amount_from_text(value, name="it")


_Amount: TypeAlias = Annotated[Fraction, Text(decimal_text, _cap)]


class PolicyError(DiscreetError):
    """The policy does not allow it, or is malformed. For the operator, never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one site allows. What is not said is not allowed, or not spent.

    ``docs/policy.md`` explains each key of the file, which are the fields:

    - budgets belong to the *population*: a new model's scores of the same people are
      charged to the same one;
    - the *units* ``label`` and ``row`` protect less than the others and must be named;
    - *coordinators* are texts of keys, or ``"*"`` for anybody, also for plans that name
      none; *models* are digests of files that score here, or patterns of names, which
      whoever writes the plan chooses; *groups* are patterns of names;
    - *sites* is the fewest that a plan may ask to be in a sum, and the fewest that exact
      sums may show together; with fewer *examples* this site stays out;
    - plans whose messages are private on their own need no *colluders*;
    - *smallest_cell* is for plans without noise, by their own public facts
      (:func:`~discreet.plan.bins.expected_in_cell`); 0 allows any number;
    - *when_declining* are always the same words: they tell nothing about the reason.
    """

    population: str
    privacy: tuple[str, ...]
    units: tuple[str, ...] = ("example", "subject", "client")
    coordinators: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    epsilon_per_plan: _Amount = Fraction(0)
    epsilon_total: _Amount = Fraction(0)
    delta_total: _Amount = Fraction(0)
    exact_sums: int = 0
    sessions_per_plan: int = 1
    refusals_per_day: int = 20
    max_bins: int = MOST_BINS
    retention_days: int = RETENTION_DAYS
    sites: int = 3
    examples: int = 1
    colluders: int = 0
    smallest_cell: int = 0
    require_roster: bool = True
    when_declining: str = field(default="", metadata=written(left_out=True))

    def __post_init__(self) -> None:
        name(self.population, "the population of a policy", error=PolicyError)
        if not self.population.strip():
            raise PolicyError("a policy names the population that the data is about")
        _check_names("privacy", self.privacy, tuple(MODELS))
        _check_names("units", self.units, UNIT_NAMES)
        self._check_numbers()
        if type(self.require_roster) is not bool:
            raise PolicyError("require_roster in the policy is true or false")
        for key in self.coordinators:
            if key != ANY:
                key_from_text(key)
        if self.when_declining != legible(self.when_declining):
            raise PolicyError(
                f"when_declining is one line of at most {LONGEST_WORDS} printed "
                "characters"
            )

    def _check_numbers(self) -> None:
        for key in _NUMBERS:
            what = f"{key} in the policy"
            whole(getattr(self, key), what, least=-MOST, error=PolicyError)
        if min(self.epsilon_per_plan, self.epsilon_total) < 0:
            raise PolicyError("a cap on epsilon is not negative")
        if not 0 <= self.delta_total < 1:
            raise PolicyError("delta_total lies in [0, 1)")
        if min(self.exact_sums, self.sessions_per_plan, self.refusals_per_day) < 0:
            raise PolicyError(
                "a cap on exact sums, sessions or refusals is not negative"
            )
        if self.max_bins < 1:
            raise PolicyError("max_bins in the policy is at least 1")
        if not 0 <= self.retention_days <= MOST_DAYS:
            raise PolicyError(
                f"retention_days in the policy is between 0 and {MOST_DAYS}"
            )
        if self.sites < 1 or min(self.examples, self.colluders, self.smallest_cell) < 0:
            raise PolicyError("floors: at least 1 site, and no negative number")

    def check(self, plan: Plan) -> None:
        """Raise ``PolicyError`` if this plan is not allowed, whatever the data is."""
        for reason in self.reasons(plan):
            raise PolicyError(reason)

    def reasons(self, plan: Plan) -> Iterator[str]:
        """Yield why this plan is not allowed, a sentence each; nothing if it is."""
        for check in (
            self._check_promise,
            self._check_cohort,
            self._check_coordinator,
            self._check_questions,
            self._check_cells,
        ):
            try:
                check(plan)
            except PolicyError as error:
                yield str(error)

    def _check_promise(self, plan: Plan) -> None:
        name, unit = plan.privacy.name, plan.privacy.protects
        if name not in self.privacy:
            raise PolicyError(
                f"the plan's privacy model is {name!r}, and the policy allows "
                f"{_listed(self.privacy)}"
            )
        if unit is not None and unit.kind not in self.units:
            raise PolicyError(
                f"the plan protects one {unit.kind}, and the policy allows the units "
                f"{_listed(self.units)}"
            )
        cost = compose([plan.privacy.loss])
        if cost.epsilon > self.epsilon_per_plan:
            raise PolicyError(
                f"the plan costs {plan.privacy.loss}, and the policy allows epsilon "
                f"{decimal_text(self.epsilon_per_plan)} a plan"
            )
        if cost.delta > self.delta_total:
            raise PolicyError(
                f"the plan costs {plan.privacy.loss}, and the policy allows delta "
                f"{decimal_text(self.delta_total)} in all"
            )
        if cost.exact_sums and not self.exact_sums:
            raise PolicyError(
                "the plan asks for exact sums, and the policy allows none"
            )

    def _check_cohort(self, plan: Plan) -> None:
        least = plan.cohort.min_survivors
        if least < self.sites:
            raise PolicyError(
                f"the plan lets a sum of {least} sites be revealed, and the policy asks "
                f"for at least {self.sites}"
            )
        told = plan.privacy.colluders_in(plan.cohort)
        if plan.protocol.masked and told < self.colluders:
            raise PolicyError(
                f"the plan counts on {told} colluding sites, and the policy asks for at "
                f"least {self.colluders}: plan with --colluders {self.colluders}"
            )
        if self.require_roster and plan.roster is None:
            raise PolicyError(
                "the plan has no roster, and the policy requires one: ask for a plan "
                "that `discreet roster` has put the sites' keys into"
            )

    def _check_coordinator(self, plan: Plan) -> None:
        if ANY in self.coordinators:
            return
        if not self.coordinators:
            raise PolicyError(
                "the policy allows no coordinator: put its key into allow.coordinators, "
                "which `discreet roster` prints"
            )
        key = None if plan.roster is None else plan.roster.coordinator
        if key is None:
            raise PolicyError(
                "the policy lists its coordinators, and the plan names none; ask for a "
                "plan with a roster"
            )
        if key not in {key_from_text(text) for text in self.coordinators}:
            raise PolicyError("the plan's coordinator is not one that the policy lists")

    def _check_questions(self, plan: Plan) -> None:
        digests = [text for text in self.models if text.startswith(_SHA256)]
        names = [text for text in self.models if not text.startswith(_SHA256)]
        # A digest that nobody holds against a file is only another name.
        by_file = plan.model.scoring is not None and plan.model.digest in digests
        if not by_file and not _matches(plan.model.name, names):
            if not (plan.model.name or plan.model.digest):
                raise PolicyError(
                    f"the plan names no model, and the policy allows "
                    f"{_listed(self.models)}: ask for a plan made with --name"
                )
            measured = f"{plan.model.name!r} {plan.model.digest}".strip()
            raise PolicyError(
                f"the plan measures the model {measured}, and the policy "
                f"allows {_listed(self.models)}: allow.models lists digests of files, "
                "names or patterns"
            )
        for r in plan.rounds:
            strange = [
                g for g in r.statistic.told_apart if not _matches(g, self.groups)
            ]
            if strange:
                raise PolicyError(
                    f"the plan tells {len(strange)} groups apart that the policy does "
                    f"not allow, {strange[0]!r} for one"
                )

    def _check_cells(self, plan: Plan) -> None:
        """Compare the fineness of the histograms with the plan's own public facts."""
        bins = max(
            (len(e) for r in plan.rounds for e in r.statistic.binnings), default=0
        )
        if bins > self.max_bins:
            raise PolicyError(
                f"the plan asks for {bins:,} bins, and the policy allows "
                f"{self.max_bins:,}: plan with --bins"
            )
        if plan.privacy.protects is not None or not self.smallest_cell or not bins:
            return
        expected = expected_in_cell(
            plan.statistic, plan.facts, plan.cohort.random_groups
        )
        if expected is None:
            raise PolicyError(
                "the plan has no noise and does not declare its examples and prevalence, "
                "and the policy asks for a smallest cell: plan with --examples and "
                "--prevalence"
            )
        if expected < self.smallest_cell:
            # Thresholds add edges to the bins that are asked for.
            fewer = int(bins * expected / self.smallest_cell) - len(plan.thresholds)
            remedy = f"--bins {fewer}" if fewer >= _FEWEST_BINS else "noise"
            raise PolicyError(
                f"the plan has no noise and expects {expected:.3g} examples of the "
                f"smaller class in a cell, and the policy asks for "
                f"{self.smallest_cell}: plan with {remedy}"
            )

    def limits(self) -> Limits:
        """Return what the ledger has to enforce, charge by charge."""
        return Limits(
            Cap(
                epsilon=self.epsilon_total,
                delta=self.delta_total,
                exact_sums=self.exact_sums,
            ),
            self.sessions_per_plan,
            self.sites,
            self.refusals_per_day,
            self.retention_days,
        )


@dataclass(frozen=True)
class AllowAll(Policy):
    """The policy of simulated sites and of made-up data: nobody is to be protected."""

    def __post_init__(self) -> None:
        """Check nothing: nobody wrote this policy."""

    def reasons(self, plan: Plan) -> Iterator[str]:
        """Allow every plan."""
        del plan
        return iter(())

    def limits(self) -> Limits:
        """Refuse no charge."""
        return Limits(refusals_per_day=MOST)


def _check_names(key: str, given: Sequence[str], known: Sequence[str]) -> None:
    strange = sorted(set(given) - set(known))
    if strange:
        raise PolicyError(
            f"{key} in the policy holds {_listed(strange)}; known are {_listed(known)}"
        )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def load(path: str | Path) -> Policy:
    """Read a policy from a file."""
    file = Path(path)
    try:
        text = read_text(file, "a policy")
    except (OSError, InputError):
        raise PolicyError(f"{file.name}: no readable policy file") from None
    return loads(text)


def loads(text: str) -> Policy:
    """Read a policy from TOML.

    >>> policy = loads('''
    ... population = "icu-2025-test"
    ... [allow]
    ... privacy = ["distributed"]
    ... [caps]
    ... epsilon_per_plan = "1"
    ... epsilon_total = "3"
    ... ''')
    >>> policy.epsilon_total, policy.exact_sums
    (Fraction(3, 1), 0)
    """
    what = "the policy"
    document = read_toml(text, what, error=PolicyError)
    refuse_unknown(document, (*_TEXTS, *_TABLES), what, PolicyError)
    given = {key: document[key] for key in _TEXTS if key in document}
    for title, keys in _TABLES.items():
        table = document.get(title, {})
        if not isinstance(table, dict):
            raise PolicyError(f"[{title}] in the policy is a table")
        refuse_unknown(table, keys, f"[{title}] in the policy", PolicyError)
        given |= table
    if "privacy" not in given:
        raise PolicyError("the policy lacks allow.privacy, the allowed privacy models")
    return from_table(Policy, given, what, error=PolicyError, defaults=True)


def dumps(policy: Policy) -> str:
    """Write a policy as TOML, every key with its value."""
    values = to_table(policy)
    document: dict[str, Any] = {key: values[key] for key in _TEXTS if key in values}
    for title, keys in _TABLES.items():
        document[title] = {key: values[key] for key in keys}
    return tomli_w.dumps(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A starter policy of one site, after which its population is called.

    ``coordinator`` is the identity of the only one that is allowed, ``models`` are
    names or patterns (none allows no plan yet), ``sites`` the fewest in a sum.
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
            own = _literal(plan.model.name)
            if plan.model.scoring is not None and plan.model.digest:
                own = plan.model.digest
            if own and own not in named:
                named = (own, *named)
        return cls(site=site, coordinator=coordinator, models=named, sites=sites)

    def text(self) -> str:
        """Return the file, a comment above every key."""
        return _STARTER.format(
            population=_quoted(f"{self.site}-test"),
            coordinator=_quoted(key_text(self.coordinator)),
            models=", ".join(_quoted(name) for name in self.models),
            fill_in=""
            if self.models
            else "\n# None yet: no plan is answered before one is named here.",
            max_bins=MOST_BINS,
            retention_days=RETENTION_DAYS,
            sites=self.sites,
            examples=FEWEST_EXAMPLES,
        )


def _literal(name: str) -> str:
    """Return a pattern that matches this name and no other."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _quoted(text: str) -> str:
    """Return a TOML string: JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)
