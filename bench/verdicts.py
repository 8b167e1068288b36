"""Whether the planner's "do not run" is right, and names the true cause.

Plans at random: a population of ``bench/trained.py`` (the held-out half), 200 to
20,000 examples, eps .1, .3 or 1. Each is carried out on test sets drawn with
replacement. It should not be run if more than a tenth of its releases are refused, or
if two standard errors of the AUC, against the population's own, reach as far as chance.
The planner is told the size, the prevalence and the AUC.

    python bench/verdicts.py [--plans 100] [--repetitions 30]

Where the runs themselves are near a limit (5 to 15% refused, or two standard errors
within a quarter of the distance to chance) either verdict is right; they are counted
apart.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.report.prediction import predict
from evidence import FITS, Evidence, Figure
from prediction import releases
from synthetic import Population
from trained import trained

EPSILONS: Final = ("0.1", "0.3", "1")
LEAST, MOST = 200, 20_000
_HIDDEN: Final = re.compile(r"positives|negatives|classes|class")


@dataclass
class Runs:
    """What came of one plan: refusals, and errors of the AUC."""

    distance: float
    """Of the population's AUC from chance."""
    refusals: list[str] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    @property
    def refused(self) -> float:
        """The share of releases without a result."""
        return len(self.refusals) / (len(self.refusals) + len(self.errors))

    @property
    def reach(self) -> float:
        """Two standard errors, in distances from chance."""
        if not self.errors:
            return math.inf
        return 2 * math.sqrt(float(np.mean(np.square(self.errors)))) / self.distance

    @property
    def bad(self) -> bool:
        """Whether it should not have been run."""
        return self.refused > 0.1 or self.reach >= 1

    @property
    def near(self) -> bool:
        """Whether either verdict is right."""
        if self.refused > 0.15:
            return False
        return self.refused >= 0.05 or 0.75 <= self.reach <= 1.25


def carry_out(
    data: Population, plan: Plan, repetitions: int, rng: np.random.Generator
) -> Runs:
    """Carry a plan out on so many test sets, on more if some but few are refused."""
    found = Runs(data.auc - 0.5)
    for more in (repetitions, 5 * repetitions):
        for _, result in releases(data, plan, more, rng):
            if result.fit.refusal is None:
                found.errors.append(result.auc.value - data.auc)
            else:
                found.refusals.append(result.fit.refusal)
        if not 0 < found.refused < 0.3:  # else a tenth is not yet known from these
            break
    return found


def cause(text: str) -> str:
    """Return what is named: a class, noise or the sample's size."""
    if "mostly from" in text:
        return text.split("mostly from ")[1].split(":", maxsplit=1)[0]
    named = _HIDDEN.search(text)
    return named.group() if named else text


def main() -> None:
    """Print every wrong verdict, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--save", action="store_true", help="into results/")
    chosen = parser.parse_args()
    every = list(trained(held_out=True))
    rng = np.random.default_rng(chosen.seed)
    counts: Counter[str] = Counter()
    for _ in range(chosen.plans):
        data = every[rng.integers(len(every))]
        examples = int(np.exp(rng.uniform(np.log(LEAST), np.log(MOST))))
        epsilon = EPSILONS[rng.integers(len(EPSILONS))]
        plan = recommend(PublicFacts(examples, data.prevalence), DistributedDP(epsilon))
        runs = carry_out(data, plan, chosen.repetitions, rng)
        said = predict(plan, auc=data.auc)
        right = (said.refusal is not None) == runs.bad
        counts["near a limit" if runs.near else "right" if right else "wrong"] += 1
        counts["against"] += said.refusal is not None
        row = f"{data.name:14}{examples:7,} eps {epsilon:4} refused {runs.refused:.0%}"
        row += f" two errors {runs.reach:.2f} of the distance"
        if not right and not runs.near:
            print(row, "| said:", said.refusal, flush=True)
        if right and runs.bad and not runs.near:
            text = said.refusal or ""
            named = cause(text)
            own = Counter(cause(why) for why in runs.refusals).most_common(1)
            same = own[0][0] == named if runs.refused > 0.1 else "mostly" in text
            counts["cause right" if same else "cause wrong"] += 1
            if not same:
                print(row, "| said:", text, "| runs:", own, flush=True)
    print(dict(counts))
    if chosen.save:
        evidence = Evidence(
            "verdicts",
            (*FITS, "report/prediction"),
            {"repetitions": chosen.repetitions, "seed": chosen.seed},
        )
        for name in ("right", "wrong", "near a limit", "against", "cause right"):
            evidence.figure(name.replace(" ", "-"), Figure(counts[name], digits=0))
        evidence.figure("plans", Figure(chosen.plans, digits=0))
        evidence.save()


if __name__ == "__main__":
    main()
