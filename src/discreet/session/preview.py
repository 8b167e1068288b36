r"""What a site's operator is shown before joining: the message, the cost, the own rows.

``preview`` shows what would leave this site under a plan: shapes, sizes, the claim and
the charge. The data are counted as on admission and the counts are thrown away: no noise
is drawn, nothing is charged, nothing is shown that a count would tell.

``own_rows`` is for the operator's screen alone. An inverted label, a wrong column or
other people pass every check of types and ranges, and spend the budget on a wrong
result. So the operator is shown how many examples and positives were read and their AUC,
and is asked to confirm what is odd:

- *the share of positives* (of follow-up: of events by the last horizon), with odds that differ by more than a factor of 4 from those
  that the plan declares, by more than two standard errors beyond that factor;
- *the AUC*, below one half by more than two standard errors of an AUC without
  information, :math:`\sqrt{(n + m + 1) / (12 n m)}` for n negatives and m positives. Of
  follow-up it is the AUC of events by the last horizon against those followed past it.

No message, no refusal and no waiting inside a session depends on either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from discreet.arrays import IntVector
from discreet.codec.parsing import decimal_text
from discreet.data.edges import Cuts, Edges
from discreet.data.examples import Batch, Examples
from discreet.data.pushdown import UNBOUNDED, RowLimit
from discreet.data.times import Rounding
from discreet.errors import DiscreetError, InputError
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.revocation import RevokedKeys
from discreet.privacy.claim import Claim
from discreet.privacy.composition import Spent, compose
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import Loss, fraction_of
from discreet.session.policy import Policy
from discreet.session.protocols import sent_numbers
from discreet.session.respond import admit, check_data
from discreet.statistic.multilabel import MultiLabel
from discreet.statistic.protocol import BinCounts, Statistic
from discreet.statistic.site_sums import auc_and_variance

_WORD: Final = 8
"""Bytes of a number on the wire."""
FAR_ODDS: Final = 4.0
"""Sites differ in prevalence; inverted labels of prevalence 1/3 change the odds by 4."""
ERRORS: Final = 2.0
"""Standard errors beyond which chance is no explanation."""
CONFIRM: Final = "mend the rows, or say --confirmed if they are what you mean"
_BINS: Final = 4096
_ABOUT_PREVALENCE: Final = (
    "the share of positives is far from the one that the plan declares; likely causes: "
    "inverted labels, another label column, another --positive, or other people"
)
_ABOUT_AUC: Final = (
    "is below one half; likely causes: inverted labels or scores, another column, or "
    "percents among probabilities"
)


@dataclass(frozen=True, slots=True)
class PreviewedRound:
    """One message of numbers: how many, in which bins, at which loss."""

    statistic: str
    numbers: int
    loss: Loss

    @property
    def size(self) -> int:
        """Bytes of the numbers; keys and shares of secure aggregation come on top."""
        return _WORD * self.numbers


@dataclass(frozen=True, slots=True)
class Preview:
    """What a site would send and promise, and what it would be charged."""

    plan: Plan
    examples: int
    query: str | None
    """The query to the site's engine; None where the rows are read."""
    rounds: tuple[PreviewedRound, ...]
    claim: Claim
    refusal: str | None
    """Why the site would decline, None when it would take part."""
    checked: str
    """What the plan was compared with."""
    unchecked: str
    """How far the verdict goes where something was not given; empty if all was."""
    spent: Spent | None
    """What the population was charged so far, when a ledger was given."""

    @property
    def sent(self) -> str:
        """Who can read the numbers, in a word."""
        return "masked" if self.plan.protocol.masked else "in the clear"

    def charged(self) -> Spent:
        """Return what all rounds would cost."""
        return compose(r.loss for r in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "plan_digest": self.plan.digest().hex(),
            "model": self.plan.model.name,
            "purpose": self.plan.purpose,
            "examples": self.examples,
            "query": self.query,
            "rounds": [
                {
                    "statistic": r.statistic,
                    "numbers": r.numbers,
                    "bytes": r.size,
                    "loss": str(r.loss),
                }
                for r in self.rounds
            ],
            "sent": self.sent,
            "claim": self.claim.to_dict(),
            "charged": spent_dict(self.charged()),
            "spent": None if self.spent is None else spent_dict(self.spent),
            "checked": self.checked,
            "unchecked": self.unchecked,
            "refusal": self.refusal,
        }


def spent_dict(spent: Spent) -> dict[str, str | int]:
    """Return a total as plain values, amounts as exact texts."""
    return {
        "epsilon": decimal_text(spent.epsilon),
        "delta": decimal_text(spent.delta),
        "exact_sums": spent.exact_sums,
    }


def preview(
    plan: Plan,
    examples: Examples,
    *,
    policy: Policy | None = None,
    ledger: Ledger | None = None,
    revoked: RevokedKeys | None = None,
) -> Preview:
    """Return what this site would send under a plan. Takes no entropy: draws none.

    Rows that are not valid raise ``InputError``. The ledger is opened with the policy's
    limits; ``revoked`` are the keys that count no longer here.
    """
    sites = len(plan.roster.sites) if plan.roster else plan.cohort.min_survivors
    rounds = [
        PreviewedRound(
            counted_in(r.statistic),
            r.statistic.size if i else sent_numbers(plan, plan.resolve(0, [])),
            fraction_of(plan.privacy.loss, r.budget),
        )
        for i, r in enumerate(plan.rounds)
    ]
    return Preview(
        plan,
        len(examples),
        _query(plan, examples),
        tuple(rounds),
        plan.claim("deployed", sites=sites),
        _refusal(plan, examples, policy, ledger, revoked or RevokedKeys()),
        *_compared(policy, ledger),
        ledger.spent(policy.population) if policy and ledger else None,
    )


def counted_in(statistic: Statistic) -> str:
    """Say in which bins, and which intervals of time, a statistic counts."""
    rules = [str(e.rule) for e in statistic.binnings]
    if statistic.time_cuts is not None:
        rules.append(f"{len(statistic.time_cuts)} time intervals")
    return ", ".join(rules)


def plan_cuts(plan: Plan, columns: int) -> tuple[Rounding, ...]:
    """Return where all of a plan's rounds tell a site's scores, and its times, apart.

    A second round's edges are some of the first one's, and the thresholds: so one
    scan gives what every round counts.
    """
    scores, times = plan.facts.scores, plan.statistic.time_cuts
    cuts: list[Rounding] = []
    for k in range(columns):
        every = [r.statistic.binnings for r in plan.rounds]
        edges = [e[k] if len(e) == columns else e[0] for e in every if e]
        cuts.append(Cuts.within(scores, *edges, thresholds=plan.thresholds))
    return tuple(cuts if times is None else [*cuts, times])


def plan_bound(plan: Plan, subject: str | None) -> RowLimit:
    """Return of whom a plan counts how many rows, and which column names people."""
    unit = plan.privacy.protects
    if unit is None:
        return UNBOUNDED
    alone = unit.kind == "subject"
    if alone and subject is None:
        raise InputError("the plan protects subjects: name their column with --subject")
    bound = RowLimit(unit.kind, unit.relation, unit.max_examples)
    return replace(bound, subject=subject) if alone else bound


def _query(plan: Plan, examples: Examples) -> str | None:
    unit = plan.privacy.protects
    counted: Examples | None = examples
    if unit is not None and unit.max_examples is not None:
        counted = examples.bounded_in_place(
            unit.max_examples, alone=unit.kind == "subject"
        )
    if counted is None or not plan.protocol.counts_alone:
        return None
    return counted.query(plan_cuts(plan, examples.columns))


def _compared(policy: Policy | None, ledger: Ledger | None) -> tuple[str, str]:
    """Return what the plan is compared with, and how far that goes."""
    match policy, ledger:
        case None, _:
            return "the data alone: no policy was given", (
                "as far as the data alone tell; policy and caps were not checked: give "
                "--policy and --ledger"
            )
        case _, None:
            return "the policy and the data", (
                "as far as the policy alone tells; caps were not checked: give --ledger"
            )
        case _:
            return "the policy, the data and the ledger", ""


def _refusal(
    plan: Plan,
    examples: Examples,
    policy: Policy | None,
    ledger: Ledger | None,
    revoked: RevokedKeys,
) -> str | None:
    try:
        revoked.check(plan)
        if policy is not None and ledger is not None:
            admit(plan, policy, ledger)
        elif policy is not None:
            policy.check(plan)
        check_data(plan, policy, examples)
    except DiscreetError as err:
        return str(err)
    return None


@dataclass(frozen=True, slots=True)
class OwnAuc:
    """One score column's own AUC, and its standard error without information."""

    column: str
    value: float
    error: float

    @property
    def inverted(self) -> bool:
        """Whether it is below one half by more than chance; not where it is undefined."""
        return self.value < 0.5 - ERRORS * self.error


@dataclass(frozen=True, slots=True)
class OwnRows:
    """What one site's rows are, beside what the plan declares of all."""

    examples: int
    positives: int | None
    """None where there are several classes or labels."""
    areas: tuple[OwnAuc, ...]
    """Of each score column, or of each class against the rest, or of each label."""
    prevalence: float | None = None
    """What the plan declares, None if nothing."""
    a_site: int | None = None
    """How many examples the plan declares for a site, on average."""
    horizon: float | None = None
    """Of follow-up: positives are those with an event by then."""

    def concerns(self) -> tuple[str, ...]:
        """Return what the operator has to confirm, a sentence each, without a number."""
        concerns = [_ABOUT_PREVALENCE] if self.far_prevalence else []
        concerns += [
            f"the AUC{a.column} {_ABOUT_AUC}" for a in self.areas if a.inverted
        ]
        return tuple(concerns)

    @property
    def far_prevalence(self) -> bool:
        """Whether the odds are more than four times off, by more than chance."""
        if self.positives is None or self.prevalence is None or not self.examples:
            return False
        odds = self.prevalence / (1 - self.prevalence)
        for factor, side in ((FAR_ODDS, 1), (1 / FAR_ODDS, -1)):
            limit = factor * odds / (1 + factor * odds)
            excess = side * (self.positives - self.examples * limit)
            if excess > ERRORS * math.sqrt(self.examples * limit * (1 - limit)):
                return True
        return False

    def __str__(self) -> str:
        expected = "" if self.a_site is None else f" (the plan: {self.a_site:,} a site)"
        parts = [f"{self.examples:,} examples{expected}"]
        if self.positives is not None and self.examples:
            declared = "none" if self.prevalence is None else f"{self.prevalence:.3g}"
            share = f"{self.positives / self.examples:.3g} (the plan: {declared})"
            if self.horizon is None:
                parts += [f"{self.positives:,} positive", f"prevalence {share}"]
            else:
                events = f"{self.positives:,} with an event by {self.horizon:g}"
                parts += [events, f"a share of {share}"]
        for area in self.areas:
            value = "undefined" if math.isnan(area.value) else f"{area.value:.3f}"
            parts.append(f"AUC{area.column} {value}")
        return ", ".join(parts)


def own_rows(plan: Plan, examples: Examples) -> OwnRows:
    """Read the rows once, or ask the engine for the plan's counts, and add them up.

    Scores are compared to a 4,096th part of their range; of an engine's counts, and of
    a file of counts, up to the plan's bins. Every row counts as one, whatever its weight.
    """
    rule = spread_over(_BINS, PublicFacts(scores=examples.scores))
    edges = Edges.realise(rule, examples.scores)
    bins, classes = len(edges), examples.label_code.classes
    several = classes is not None and len(classes) > 2 and not examples.timed
    horizon = plan.horizons[-1] if plan.horizons else None
    rows = 0

    def counted(batches: Iterator[Batch]) -> IntVector:
        nonlocal rows
        total = np.zeros((examples.columns, 2 * bins), dtype=np.int64)
        for batch in batches:
            rows += 0 if batch.which else batch.rows
            known = batch
            positive = batch.labels == 1
            if horizon is not None and batch.times is not None:
                past = batch.times > horizon
                positive &= ~past
                known, positive = batch.some(past | positive), positive[past | positive]
            for k, scores in enumerate(known.scores, batch.which):
                if several:
                    positive = known.labels == k
                cells = edges.bins_of(scores) + bins * positive
                total[k] += known.tally(cells, 2 * bins)
        return total

    told_apart = any(r.statistic.binnings for r in plan.rounds)
    cuts = plan_cuts(plan, examples.columns) if told_apart else ()
    total = sum(
        examples.scan(counted, cuts),
        np.zeros((examples.columns, 2 * bins), dtype=np.int64),
    )
    titles, labels = [""], examples.label_columns > 1
    if labels and isinstance(plan.statistic, MultiLabel):
        titles = [f" of label {name}" for name in plan.statistic.labels]
    elif several and classes is not None:
        titles = [f" of class {name}" for name in classes]
    elif examples.columns > 1:
        titles = [f" of score {k + 1}" for k in range(examples.columns)]
    sites = len(plan.roster.sites) if plan.roster else plan.cohort.least_sites
    declared = plan.facts.examples
    return OwnRows(
        rows,
        None if several or labels else int(total[0, bins:].sum()),
        tuple(_area(title, row) for title, row in zip(titles, total, strict=True)),
        None if several or labels else plan.facts.prevalence,
        None if declared is None else round(declared / sites),
        horizon,
    )


def _area(title: str, row: IntVector) -> OwnAuc:
    negatives, positives = np.split(row.astype(np.float64), 2)
    n, m = float(negatives.sum()), float(positives.sum())
    if not (n and m):
        return OwnAuc(title, math.nan, math.nan)
    area, _ = auc_and_variance(BinCounts(negatives, positives))
    return OwnAuc(title, area, math.sqrt((n + m + 1) / (12 * n * m)))
