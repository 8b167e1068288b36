"""Plans with extreme values: whatever a coordinator writes, noise is sized for the counts.

Plan files are made with one or two extreme values each. What is accepted is counted the
way a site counts, on a small site and a neighbour of it, and the two vectors may lie no
further apart than the sensitivity for which the noise of each block is made.

    python tests/properties/test_extreme_plans.py 100000
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tomli_w

import discreet
from discreet.data.edges import Uniform
from discreet.data.examples import Examples
from discreet.errors import DiscreetError
from discreet.plan import file as planfile
from discreet.plan.rounds import Release
from discreet.privacy.loss import PureDP
from discreet.session.respond import _counted, confined
from discreet.statistic.effect_terms import SITE_EFFECTS
from fuzzing import TIMES

FLOATS = [
    *(0.0, -0.0, 5e-324, 1e-300, 1e-12, 1e-9, 1e-4, 0.1, 0.5, 1.0, 7.0, 30.0, 100.0),
    *(1e9, 1e15, 2.0**53, 1e154, 1e200, 1e300, 1e308, sys.float_info.max),
    *(math.inf, math.nan),
]
FLOATS += [-x for x in FLOATS]
WHOLES = [0, 1, 2, 3, 16, 255, 2**12, 2**20, 2**31, 2**45, 2**53, 2**62, 2**63 - 1, -1]
GROUPS = ["a", "b", "other"]
CLASSES = ["x", "y", "z"]


class Drawn:
    """Draws of one search, and what came of them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.seen: Counter[str] = Counter()

    def one(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def extreme(self, value: Any) -> Any:
        """Return an extreme value of the same kind."""
        match value:
            case bool():
                return not value
            case int():
                return self.one(WHOLES)
            case float():
                return self.one(FLOATS)
            case [*rest] if rest:
                changed = list(rest)
                k = int(self.rng.integers(len(rest)))
                changed[k] = self.extreme(rest[k])
                return changed
            case _:
                return value


def rounds(drawn: Drawn, kind: str) -> list[dict[str, Any]]:
    edges = drawn.one(
        [
            {"rule": "uniform", "bins": 4},
            {"rule": "warped", "bins": 5, "exponent": 1.5},
            {"rule": "prior", "bins": 6, "prevalence": 0.2},
        ]
    )
    effects = []
    for name in drawn.rng.permutation(list(SITE_EFFECTS))[:2].tolist():
        usual = SITE_EFFECTS[name].defaults
        terms = {
            "effect": name,
            "low": float(usual.private[0]),
            "high": float(usual.private[1]),
            "least": usual.least,
            "anchor": usual.anchor,
            "unit": 64,
            "fewest": 2,
            "squared": False,
        }
        effects.append({**terms, "at": 0.5} if SITE_EFFECTS[name].at else terms)
    further: dict[str, Any] = {
        "histogram": {},
        "weighted": {"max_weight": 4, "squares": False},
        "grouped": {"groups": GROUPS},
        "one-vs-rest": {"classes": CLASSES},
        "one-vs-one": {"classes": CLASSES},
        "multi-label": {"labels": ["x", "y"]},
        "paired-in-groups": {"form": "joint", "groups": GROUPS},
        "paired": {"form": drawn.one(["joint", "marginals"])},
        "hierarchy": {"branching": 2},
        "site-sums": {"effects": effects, "within": False, "share": "0.25"},
        "equi-depth": {"bins": 3},
    }
    if kind == "equi-depth":
        tree = {"budget": "0.2", "statistic": "hierarchy", "branching": 2}
        tree["edges"] = [{"rule": "uniform", "bins": 8}]
        return [tree, {"budget": "0.8", "statistic": kind, "bins": 3}]
    many = 2 if kind.startswith("paired") else 1
    if kind == "hierarchy":
        edges = {"rule": "uniform", "bins": 8}
    table = {"budget": "1", "statistic": kind, **further[kind]}
    return [{**table, "edges": [edges] * many}]


KINDS = [
    *("histogram", "weighted", "grouped", "one-vs-rest", "one-vs-one", "paired"),
    *("multi-label", "paired-in-groups"),
    *("hierarchy", "equi-depth", *["site-sums"] * 6),
]


def document(drawn: Drawn) -> dict[str, Any]:
    """Return a plan's file, and change one or two of its values to extreme ones."""
    kind = drawn.one(KINDS)
    privacy: dict[str, Any] = {"model": "distributed", "epsilon": "1", "delta": "0"}
    privacy["unit"] = drawn.one(["example", "subject", "client"])
    if privacy["unit"] != "example":
        privacy["max_examples"] = 3
    facts: dict[str, Any] = {"scores": drawn.one(["probability", "logit", "other"])}
    facts |= {"examples": 1000, "prevalence": 0.3}
    if facts["scores"] == "other":
        facts |= {"low": -2.0, "high": 3.0}
    plan = {
        "version": 1,
        "thresholds": [0.5],
        "metrics": ["auc"],
        "model": {"name": "m", "digest": ""},
        "facts": facts,
        "privacy": privacy,
        "cohort": {"min_survivors": 3, "colluders": 1, "min_examples_per_site": 0},
        "round": rounds(drawn, kind),
    }
    places: list[tuple[Any, Any]] = [(plan, "thresholds")]
    tables = [facts, privacy, plan["cohort"]]
    for table in plan["round"]:
        tables += [table, *table.get("edges", ()), *table.get("effects", ())]
        # Sites compare rates at a threshold of the plan, and thus at an extreme one.
        places += [(terms, "at") for terms in table.get("effects", ()) if "at" in terms]
    for table in tables:
        places += [(table, key) for key, v in table.items() if not isinstance(v, str)]
    for _ in range(int(drawn.rng.integers(1, 3))):
        table, key = drawn.one(places)
        table[key] = drawn.extreme(table[key])
    if drawn.rng.random() < 0.3:  # a threshold far out, and rates taken there
        far = drawn.one(FLOATS)
        plan["thresholds"] = [far]
        for terms in plan["round"][0].get("effects", ()):
            if "at" in terms:
                terms["at"] = far
    return plan


def rows(drawn: Drawn, number: int, columns: int, classes: bool) -> list[tuple]:
    """Draw rows; scores are anywhere, labels at times missing."""
    rng = drawn.rng
    found = []
    for _ in range(number):
        score = tuple(rng.normal(0.5, drawn.one([0.2, 1.0, 50.0]), columns).tolist())
        label = drawn.one(CLASSES) if classes else int(rng.integers(2))
        person, group = int(rng.integers(6)), drawn.one([*GROUPS, "strange", None])
        found.append((score, label, group, person, int(rng.integers(7))))
    return found


def neighbour(held: list[tuple], kind: str) -> list[tuple]:
    if kind == "client":
        return []
    if kind == "subject":
        return [row for row in held if row[3] != held[0][3]]
    return held[1:]


def examples(held: list[tuple], plan: discreet.Plan, columns: int, classes: bool):
    scores = np.array([row[0] for row in held], dtype=float).reshape(-1, columns)
    limits = plan.facts.scores
    other = limits.kind == "other"
    labels = np.array([row[1] for row in held], dtype=object if classes else np.int64)
    if plan.statistic.name == "multi-label":  # the second one is missing at times
        second = [None if row[2] is None else row[4] % 2 for row in held]
        labels = np.array([labels.tolist(), second], dtype=object).T.reshape(-1, 2)
    return Examples(
        scores if columns > 1 else scores[:, 0],
        labels,
        groups=np.array([row[2] for row in held], dtype=object),
        subjects=np.array([row[3] for row in held], dtype=np.int64),
        weights=np.array([row[4] for row in held], dtype=np.int64),
        classes=CLASSES if classes else None,
        kind=limits.kind,
        low=limits.low if other else None,
        high=limits.high if other else None,
        check=False,
    )


def compared(drawn: Drawn, plan: discreet.Plan) -> None:
    """Count a small site and a neighbour of it, in every round."""
    unit = plan.privacy.protects
    kind = plan.rounds[0].statistic.name
    classes = kind in ("one-vs-rest", "one-vs-one")
    columns = {"one-vs-rest": 3, "one-vs-one": 3, "multi-label": 2}.get(kind, 1)
    columns = 2 if kind.startswith("paired") else columns
    held = rows(drawn, int(drawn.rng.integers(1, 40)), columns, classes)
    there = neighbour(held, unit.kind)
    earlier: list[Release] = []
    for k in range(len(plan.rounds)):
        this = plan.resolve(k, earlier)
        said: list[str] = []
        one, two = (
            confined(
                _counted(
                    examples(side, plan, columns, classes),
                    plan,
                    this,
                    strict=False,
                    log=said.append,
                ),
                plan,
                this,
                log=said.append,
            )
            for side in (held, there)
        )
        drawn.seen["clipped"] += sum("clipped" in line for line in said)
        drawn.seen["failed"] += sum("counting failed" in line for line in said)
        apart = np.abs(one - two)
        start = 0
        for block in this.statistic.blocks(unit):
            cut = apart[start : start + block.size].astype(object)
            start += block.size
            limit = block.sensitivity
            assert sum(cut) <= limit.l1
            assert sum(cut**2) <= limit.l2_squared
            assert max(cut) <= limit.linf
        drawn.seen["compared"] += 1
        total = drawn.rng.integers(-5, 40, this.statistic.size)
        earlier.append(Release(plan.digest(), b"", k, total, 3, 3, PureDP(1)))


def search(plans: int, seed: int) -> Counter[str]:
    drawn = Drawn(seed)
    for _ in range(plans):
        text = tomli_w.dumps(document(drawn))
        try:
            plan = planfile.loads(text)
        except DiscreetError:
            drawn.seen["refused"] += 1
            continue
        drawn.seen["accepted"] += 1
        if max(r.statistic.size for r in plan.rounds) > 2**16:
            drawn.seen["too large to compare here"] += 1
            continue
        try:
            compared(drawn, plan)
        except AssertionError as error:
            error.add_note(text)
            raise
    return drawn.seen


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("part", range(2 * TIMES))
def test_no_extreme_plan_moves_a_vector_beyond_its_sensitivity(part):
    seen = search(400, part)
    assert seen["compared"] > 50
    assert not seen["clipped"], "a statistic leaves its own bounds"
    assert not seen["failed"], "a plan makes counting fail"


def test_an_exact_look_is_not_made_up():
    """The rows of these tests reach effects: else nothing would be compared."""
    drawn = Drawn(3)
    plan = discreet.recommend(
        discreet.PublicFacts(examples=1000, prevalence=0.3),
        discreet.DistributedDP(1, min_survivors=3),
        edges=Uniform(4),
        heterogeneity=discreet.HeterogeneityQuestion(within=False),
    )
    held = rows(drawn, 39, 1, classes=False)
    counted = plan.statistic.count(examples(held, plan, 1, classes=False).fitted())
    assert counted[plan.statistic.inner.size :].any()


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    sys.stdout.write(f"{dict(search(number, seed=2026))}\n")
