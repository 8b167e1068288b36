"""Plans as TOML: a small file that people read, agree on and sign.

The file holds rules, not realised numbers ("1024 warped bins"); the digest,
computed from the realised edges, is written beside them and checked on reading.
"""

from __future__ import annotations

import tomllib
from fractions import Fraction
from typing import Any, Final

import tomli_w

from discreet.data.edges import EdgeRule, Edges, Listed, Support, Uniform, Warped
from discreet.data.scores import ScoreRange
from discreet.data.text_files import toml_place
from discreet.errors import PlanError
from discreet.models.privacy_models import (
    DistributedDP,
    LabelDP,
    LocalDP,
    PrivacyModel,
    SecureAggregation,
    epsilon_of,
)
from discreet.plan.plan import (
    Cohort,
    ModelRef,
    Plan,
    PlannedStatistic,
    PublicFacts,
    Round,
    edges_of,
)
from discreet.plan.roster import Member, Roster, key_from_text, key_text
from discreet.privacy.loss import amount_from_text, decimal_text, exact
from discreet.statistic import (
    ClassHistogram,
    EquiDepthFrom,
    Grouped,
    Hierarchy,
    OneVsOne,
    OneVsRest,
    Paired,
)

_KEYS: Final = {
    *("version", "digest", "thresholds", "metrics"),
    *("model", "facts", "privacy", "cohort", "round", "roster"),
}


def dumps(plan: Plan) -> str:
    """Write a plan as TOML."""
    facts: dict[str, Any] = {"scores": plan.facts.scores.kind}
    if plan.facts.scores.kind == "other":
        facts |= {"low": plan.facts.scores.low, "high": plan.facts.scores.high}
    for key in ("examples", "prevalence"):
        value = getattr(plan.facts, key)
        if value is not None:
            facts[key] = value
    document: dict[str, Any] = {
        "version": plan.version,
        "digest": f"sha256:{plan.digest().hex()}",
        "thresholds": list(plan.thresholds),
        "metrics": sorted(plan.metrics),
        "model": {"name": plan.model.name, "digest": plan.model.digest},
        "facts": facts,
        "privacy": _privacy_table(plan.privacy),
        "cohort": {
            "min_survivors": plan.cohort.min_survivors,
            "colluders": plan.cohort.colluders,
            "min_examples_per_site": plan.cohort.min_examples_per_site,
        },
        "round": [_round_table(r) for r in plan.rounds],
    }
    if plan.roster is not None:
        document["roster"] = _roster_table(plan.roster)
    return tomli_w.dumps(document)


def loads(text: str) -> Plan:
    """Read a plan from TOML; refuse it when the digest beside it does not fit."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise PlanError(f"the plan is not valid TOML at {toml_place(err)}") from None
    unknown = sorted(set(document) - _KEYS)
    if unknown:
        raise PlanError(f"the plan has unknown keys: {', '.join(unknown)}")
    try:
        plan = _plan(document)
    except KeyError as err:
        raise PlanError(f"the plan lacks the key {err}") from None
    except PlanError:
        raise
    except (TypeError, AttributeError, ValueError) as err:
        raise PlanError(f"the plan holds a value of the wrong kind: {err}") from None
    written = document.get("digest")
    if written is not None and written != f"sha256:{plan.digest().hex()}":
        raise PlanError(
            "the plan's digest does not fit its contents: it was edited after it "
            "was written; agree on it again, or remove the digest"
        )
    return plan


def _plan(document: dict[str, Any]) -> Plan:
    facts = document["facts"]
    scores = ScoreRange.declare(facts["scores"], facts.get("low"), facts.get("high"))
    thresholds = tuple(float(t) for t in document["thresholds"])
    return Plan(
        privacy=_privacy(document["privacy"]),
        rounds=_rounds(document["round"], scores, thresholds),
        thresholds=thresholds,
        metrics=frozenset(document["metrics"]),
        facts=PublicFacts(facts.get("examples"), facts.get("prevalence"), scores),
        cohort=Cohort(**document["cohort"]),
        model=ModelRef(**document["model"]),
        version=document["version"],
        roster=_roster(document["roster"]) if "roster" in document else None,
    )


def _roster_table(roster: Roster) -> dict[str, Any]:
    table: dict[str, Any] = {}
    if roster.coordinator is not None:
        table["coordinator"] = key_text(roster.coordinator)
    table["sites"] = {site.name: key_text(site.key) for site in roster.sites}
    return table


def _roster(table: dict[str, Any]) -> Roster:
    unknown = sorted(set(table) - {"coordinator", "sites"})
    if unknown:
        raise PlanError(f"the plan's roster has unknown keys: {', '.join(unknown)}")
    coordinator = table.get("coordinator")
    return Roster(
        tuple(Member(name, key_from_text(key)) for name, key in table["sites"].items()),
        None if coordinator is None else key_from_text(coordinator),
    )


def _privacy_table(privacy: PrivacyModel) -> dict[str, Any]:
    table: dict[str, Any] = {"model": privacy.name}
    epsilon = epsilon_of(privacy)
    if epsilon is not None:
        table["epsilon"] = decimal_text(epsilon)
    match privacy:
        case DistributedDP():
            table["delta"] = decimal_text(exact(privacy.delta))
            table["unit"] = privacy.unit
            if privacy.max_examples is not None:
                table["max_examples"] = privacy.max_examples
        case LocalDP():
            table["mechanism"] = privacy.mechanism
        case LabelDP():
            table["delta"] = decimal_text(exact(privacy.delta))
            table["mechanism"] = privacy.mechanism
        case SecureAggregation():
            pass
    return table


def _privacy(table: dict[str, Any]) -> PrivacyModel:
    match table["model"]:
        case SecureAggregation.name:
            return SecureAggregation()
        case DistributedDP.name:
            return DistributedDP(
                amount_from_text(table["epsilon"]),
                amount_from_text(table["delta"], name="delta"),
                unit=table["unit"],
                max_examples=table.get("max_examples"),
            )
        case LocalDP.name:
            return LocalDP(amount_from_text(table["epsilon"]), table["mechanism"])
        case LabelDP.name:
            return LabelDP(
                amount_from_text(table["epsilon"]),
                amount_from_text(table["delta"], name="delta"),
                table["mechanism"],
            )
        case _:
            raise PlanError("unknown privacy model in the plan")


def _round_table(r: Round) -> dict[str, Any]:
    statistic = r.statistic
    table: dict[str, Any] = {"budget": decimal_text(r.budget)}
    match statistic:
        case ClassHistogram():
            table["statistic"] = "histogram"
        case OneVsRest(classes=classes):
            table |= {"statistic": "one-vs-rest", "classes": list(classes)}
        case OneVsOne(classes=classes):
            table |= {"statistic": "one-vs-one", "classes": list(classes)}
        case Grouped(groups=groups):
            table |= {"statistic": "grouped", "groups": list(groups)}
        case Paired(form=form):
            table |= {"statistic": "paired", "form": form}
        case Hierarchy(branching=branching):
            table |= {"statistic": "hierarchy", "branching": branching}
        case EquiDepthFrom(bins=bins):
            table |= {"statistic": "equi-depth", "bins": bins}
    if not isinstance(statistic, EquiDepthFrom):  # its edges are its tree's
        table["edges"] = [_rule_table(e) for e in edges_of(statistic)]
    return table


def _rounds(
    tables: list[dict[str, Any]], scores: ScoreRange, thresholds: tuple[float, ...]
) -> tuple[Round, ...]:
    rounds: list[Round] = []
    for table in tables:
        budget: Fraction = amount_from_text(table["budget"], name="budget")
        statistic: PlannedStatistic
        if table["statistic"] == "equi-depth":
            tree = rounds[-1].statistic if rounds else None
            if not isinstance(tree, Hierarchy):
                raise PlanError("an equi-depth round follows the round of its tree")
            statistic = EquiDepthFrom(tree, table["bins"], thresholds)
        else:
            statistic = _statistic(table, scores, thresholds)
        rounds.append(Round(statistic, budget))
    return tuple(rounds)


def _statistic(
    table: dict[str, Any], scores: ScoreRange, thresholds: tuple[float, ...]
) -> PlannedStatistic:
    kind = table["statistic"]
    # A tree has a power of its branching as leaves: no threshold is squeezed in.
    inserted = () if kind == "hierarchy" else thresholds
    edges = [
        Edges.realise(_rule(rule), scores, thresholds=inserted)
        for rule in table["edges"]
    ]
    match kind:
        case "histogram":
            return ClassHistogram(edges[0])
        case "one-vs-rest":
            return OneVsRest(edges[0], tuple(table["classes"]))
        case "one-vs-one":
            return OneVsOne(edges[0], tuple(table["classes"]))
        case "grouped":
            return Grouped(ClassHistogram(edges[0]), tuple(table["groups"]))
        case "paired":
            return Paired(edges[0], edges[1], table["form"])
        case "hierarchy":
            return Hierarchy(edges[0], table["branching"])
        case _:
            raise PlanError("unknown statistic in the plan")


def _rule_table(edges: Edges) -> dict[str, Any]:
    match edges.rule:
        case Warped(bins, exponent):
            return {"rule": "warped", "bins": bins, "exponent": exponent}
        case Uniform(bins):
            return {"rule": "uniform", "bins": bins}
        case Listed(values):
            return {"rule": "listed", "values": list(values)}
        case Support(values):
            return {"rule": "support", "values": list(values)}


def _rule(table: dict[str, Any]) -> EdgeRule:
    match table["rule"]:
        case "warped":
            return Warped(table["bins"], table["exponent"])
        case "uniform":
            return Uniform(table["bins"])
        case "listed":
            return Listed(tuple(float(v) for v in table["values"]))
        case "support":
            return Support(tuple(float(v) for v in table["values"]))
        case _:
            raise PlanError("unknown rule for edges in the plan")
