"""Plans as TOML: a small file that people read, agree on and sign.

The file holds rules, not realised numbers ("1024 warped bins"); the digest,
computed from the realised edges, is written beside them and checked on reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import tomli_w

from discreet.data.edges import EDGE_RULES, EdgeRule, Edges
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.parsing import read_toml
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import MODELS, PrivacyModel
from discreet.plan.roster import Member, Roster, key_from_text, key_text
from discreet.plan.rounds import Round
from discreet.privacy.loss import amount_from_text, decimal_text
from discreet.statistic.protocol import STATISTICS, Before

_KEYS: Final = {
    *("version", "digest", "thresholds", "metrics"),
    *("model", "facts", "privacy", "cohort", "round", "roster", "rehearsal"),
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
    cohort = {
        "min_survivors": plan.cohort.min_survivors,
        "colluders": plan.cohort.colluders,
        "min_examples_per_site": plan.cohort.min_examples_per_site,
    }
    if plan.cohort.max_examples_per_site is not None:
        cohort["max_examples_per_site"] = plan.cohort.max_examples_per_site
    if plan.cohort.random_groups > 1:
        cohort["random_groups"] = plan.cohort.random_groups
    document: dict[str, Any] = {
        "version": plan.version,
        "digest": f"sha256:{plan.digest().hex()}",
        "thresholds": list(plan.thresholds),
        "metrics": sorted(plan.metrics),
        "model": {"name": plan.model.name, "digest": plan.model.digest},
        "facts": facts,
        "privacy": _privacy_table(plan.privacy),
        "cohort": cohort,
        "round": [_round_table(r) for r in plan.rounds],
    }
    if plan.roster is not None:
        document["roster"] = _roster_table(plan.roster)
    if plan.rehearsal:
        document["rehearsal"] = True
    return tomli_w.dumps(document)


def loads(text: str) -> Plan:
    """Read a plan from TOML; refuse it when the digest beside it does not fit."""
    document = read_toml(text, "the plan")
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
        privacy=MODELS[document["privacy"]["model"]].from_table(document["privacy"]),
        rounds=_rounds(document["round"], scores, thresholds),
        thresholds=thresholds,
        metrics=frozenset(document["metrics"]),
        facts=PublicFacts(facts.get("examples"), facts.get("prevalence"), scores),
        cohort=Cohort(**document["cohort"]),
        model=ModelRef(**document["model"]),
        version=document["version"],
        roster=_roster(document["roster"]) if "roster" in document else None,
        rehearsal=document.get("rehearsal", False),
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
    return {"model": privacy.name, **privacy.table()}


def _round_table(r: Round) -> dict[str, Any]:
    statistic = r.statistic
    table = {
        "budget": decimal_text(r.budget),
        "statistic": statistic.name,
        **statistic.table(),
    }
    if statistic.follows is None:  # else its edges are worked out from a release
        table["edges"] = [_rule_table(e.rule) for e in statistic.binnings]
    return table


def _rounds(
    tables: list[dict[str, Any]], scores: ScoreRange, thresholds: tuple[float, ...]
) -> tuple[Round, ...]:
    rounds: list[Round] = []
    for table in tables:
        budget: Fraction = amount_from_text(table["budget"], name="budget")
        kind = STATISTICS[table["statistic"]]
        inserted = thresholds if kind.edges_hold_thresholds else ()
        edges = [
            Edges.realise(_rule(rule), scores, thresholds=inserted)
            for rule in table.get("edges", [])
        ]
        before = Before(thresholds, rounds[-1].statistic if rounds else None)
        read = Round(kind.from_table(table, edges, before), budget)
        _refuse_unknown(table, _round_table(read), "a round of the plan")
        rounds.append(read)
    return tuple(rounds)


def _refuse_unknown(
    given: Mapping[str, Any], known: Mapping[str, Any], what: str
) -> None:
    """Refuse keys that would be passed over: whoever wrote them meant something."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise PlanError(f"{what} has unknown keys: {', '.join(unknown)}")


def _rule_table(rule: EdgeRule) -> dict[str, Any]:
    table = {k: list(v) if isinstance(v, tuple) else v for k, v in rule.table().items()}
    return {"rule": rule.name, **table}


def _rule(table: dict[str, Any]) -> EdgeRule:
    return EDGE_RULES[table["rule"]].from_table(table)
