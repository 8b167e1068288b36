"""Plans as TOML: a small file that people read, agree on and sign.

The file holds rules, not realised numbers ("1024 warped bins"). The digest is computed
from the realised edges, written beside them and checked on reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import tomli_w

from discreet.codec.documents import Text, from_table, to_table, written
from discreet.codec.parsing import amount_from_text, decimal_text, read_toml
from discreet.data.edges import EdgeRule, Edges
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.errors import PlanError
from discreet.plan.cohort import (
    Cohort,
    Member,
    PublicFacts,
    Roster,
    key_from_text,
    key_text,
)
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Round
from discreet.statistic.protocol import STATISTICS, Statistic

_Key = Annotated[bytes, Text(key_text, key_from_text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    scores: ScoreKind
    low: float | None = None
    high: float | None = None
    examples: int | None = None
    prevalence: float | None = None
    censoring: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roster:
    coordinator: _Key | None = None
    sites: Mapping[str, _Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanFile:
    """The keys of a plan's file, in their order."""

    version: int
    digest: str | None = None
    purpose: str = field(default="", metadata=written(left_out=True))
    thresholds: tuple[float, ...]
    metrics: frozenset[str]
    model: ModelRef
    facts: _Facts
    privacy: PrivacyModel
    cohort: Cohort
    round: tuple[Mapping[str, Any], ...]
    roster: _Roster | None = None
    rehearsal: bool = field(default=False, metadata=written(left_out=True))
    horizons: tuple[float, ...] = field(default=(), metadata=written(left_out=True))


def dumps(plan: Plan) -> str:
    """Write a plan as TOML."""
    facts, scores, roster = plan.facts, plan.facts.scores, plan.roster
    other = scores.kind == "other"
    document = _PlanFile(
        version=plan.version,
        digest=_digest_text(plan),
        purpose=plan.purpose,
        thresholds=plan.thresholds,
        metrics=plan.metrics,
        model=plan.model,
        facts=_Facts(
            scores=scores.kind,
            low=scores.low if other else None,
            high=scores.high if other else None,
            examples=facts.examples,
            prevalence=facts.prevalence,
            censoring=facts.censoring,
        ),
        privacy=plan.privacy,
        cohort=plan.cohort,
        round=tuple(_round_table(r) for r in plan.rounds),
        roster=None
        if roster is None
        else _Roster(
            coordinator=roster.coordinator,
            sites={site.name: site.key for site in roster.sites},
        ),
        rehearsal=plan.rehearsal,
        horizons=plan.horizons,
    )
    return tomli_w.dumps(to_table(document))


def loads(text: str) -> Plan:
    """Read a plan from TOML; refuse it when the digest beside it does not fit."""
    what = "the plan"
    document = from_table(_PlanFile, read_toml(text, what), what, defaults=True)
    plan = _plan(document)
    if document.digest not in (None, _digest_text(plan)):
        raise PlanError(
            "the plan's digest does not fit its contents: it was edited after it "
            "was written; agree on it again, or remove the digest"
        )
    return plan


def _digest_text(plan: Plan) -> str:
    return f"sha256:{plan.digest().hex()}"


def _plan(document: _PlanFile) -> Plan:
    facts, roster = document.facts, document.roster
    try:
        scores = ScoreRange.declare(facts.scores, facts.low, facts.high)
        return Plan(
            privacy=document.privacy,
            rounds=_rounds(document.round, scores, document.thresholds),
            thresholds=document.thresholds,
            metrics=document.metrics,
            facts=PublicFacts(
                facts.examples, facts.prevalence, scores, facts.censoring
            ),
            cohort=document.cohort,
            model=document.model,
            version=document.version,
            roster=None
            if roster is None
            else Roster(
                tuple(Member(name, key) for name, key in roster.sites.items()),
                roster.coordinator,
            ),
            rehearsal=document.rehearsal,
            purpose=document.purpose,
            horizons=document.horizons,
        )
    except PlanError:
        raise
    except ValueError as err:  # data refused, as edges do
        raise PlanError(f"the plan holds a value of the wrong kind: {err}") from None


def _round_table(r: Round) -> dict[str, Any]:
    table = {
        "budget": decimal_text(r.budget),
        **to_table(r.statistic, Statistic, without=(Edges,)),
    }
    if r.statistic.follows is None:  # else its edges are worked out from a release
        table["edges"] = [to_table(e.rule, EdgeRule) for e in r.statistic.binnings]
    return table


def _rounds(
    tables: Sequence[Mapping[str, Any]],
    scores: ScoreRange,
    thresholds: tuple[float, ...],
) -> tuple[Round, ...]:
    what = "a round of the plan"
    rounds: list[Round] = []
    for given in tables:
        table = dict(given)
        rules = from_table(
            tuple[EdgeRule, ...], table.pop("edges", []), what, defaults=True
        )
        budget = amount_from_text(table.pop("budget", None), name="a round's budget")
        kind = STATISTICS[table.get("statistic", "")]
        inserted = thresholds if kind.edges_hold_thresholds else ()
        edges = (Edges.realise(r, scores, thresholds=inserted) for r in rules)
        supplied: dict[object, Any] = {
            Edges: lambda left=edges: _next(left),
            "thresholds": thresholds,
            "before": rounds[-1].statistic if rounds else None,
        }
        statistic = from_table(Statistic, table, what, supplied=supplied, defaults=True)
        if next(edges, None) is not None:
            raise PlanError("a round has more rules for edges than its statistic")
        rounds.append(Round(statistic, budget))
    return tuple(rounds)


def _next(edges: Iterator[Edges]) -> Edges:
    for each in edges:
        return each
    raise PlanError("a round has fewer rules for edges than its statistic")
