"""Comparing two models: how often a difference is found, and how often a false one is.

Examples have calibrated logits of sd 1.5 (prevalence .2). Model a sees them with a
little error, model b with an error of its own that makes its AUC smaller by the gap.
Each run draws a test set and asks ``compare`` for the verdict on the AUC at 95%.

    python bench/comparison_power.py [--examples 5000] [--repetitions 200]
        [--noise exact 1] [--forms default joint marginals]
"""

from __future__ import annotations

import argparse
import warnings
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import rankdata

from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.models.distributed import DistributedDP
from discreet.transport.comparison import compare
from evidence import FITS, Evidence, Figure

GAPS: Final = (0.0, 0.009, 0.026)
CENTRE, SD, OWN = -1.85, 1.5, 0.1
_MANY: Final = 400_000


def auc(scores: FloatVector, labels: FloatVector) -> float:
    """Return pairs won."""
    ranks, p = rankdata(scores), labels.sum()
    return float((ranks[labels].sum() - p * (p + 1) / 2) / (p * (labels.size - p)))


def population(rng: np.random.Generator, size: int, extra: float) -> Examples:
    """Draw both models' scores; b has ``extra`` variance more."""
    z = rng.normal(CENTRE, SD, size)
    a = z + rng.normal(0, OWN, size)
    b = z + rng.normal(0, np.sqrt(OWN**2 + extra), size)
    return Examples(np.column_stack([expit(a), expit(b)]), rng.random(size) < expit(z))


def extra_for(gap: float) -> float:
    """Return the variance that costs model b so much AUC."""
    rng = np.random.default_rng(1)
    z, noise = rng.normal(CENTRE, SD, _MANY), rng.normal(size=_MANY)
    y = rng.random(_MANY) < expit(z)
    own = auc(z + OWN * noise, y)

    def off(extra: float) -> float:
        return own - auc(z + np.sqrt(OWN**2 + extra) * noise, y) - gap

    return 0.0 if gap == 0 else float(brentq(off, 0, 20, xtol=1e-3))


def main() -> None:
    """Print the share of runs in which a difference was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=5000)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--noise", nargs="+", default=["exact", "1"])
    parser.add_argument("--forms", nargs="+", default=["default", "joint", "marginals"])
    parser.add_argument("--save", action="store_true", help="into results/")
    chosen = parser.parse_args()
    rows: list[list[str | Figure]] = []
    extras = {gap: extra_for(gap) for gap in GAPS}
    for noise in chosen.noise:
        for form in chosen.forms:
            line = f"{noise:>6} {form:10}"
            title = "exact sums" if noise == "exact" else f"eps {noise}"
            rows.append([title, form])
            for gap, extra in extras.items():
                rng = np.random.default_rng([7, round(1e4 * gap)])
                found, covered, widths = 0, 0, []
                for _ in range(chosen.repetitions):
                    site = population(rng, chosen.examples, extra)
                    more = {} if form == "default" else {"form": form}
                    privacy = None if noise == "exact" else DistributedDP(noise)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        low, high = (
                            compare(
                                [site],
                                privacy=privacy,
                                examples=chosen.examples,
                                prevalence=0.2,
                                entropy=rng.bytes,
                                **more,
                            )
                            .difference()
                            .interval()
                        )
                    found += low > 0 or high < 0
                    covered += low <= gap <= high
                    widths.append(high - low)
                share = chosen.repetitions
                line += (
                    f"   gap {gap:.3f}: found {found / share:4.0%}, covered "
                    f"{covered / share:4.0%}, width {np.median(widths):.4f}"
                )
                rows[-1].append(f"{found / share:.0%}, {covered / share:.0%}")
                rows[-1].append(Figure(float(np.median(widths)), digits=4))
            print(line, flush=True)
    if chosen.save:
        columns = ["noise", "form"]
        for gap in GAPS:
            columns += [f"gap {gap:.3f}: found, covered", "width"]
        evidence = Evidence(
            "comparison_power",
            (*FITS, "report/build", "report/comparison"),
            {"repetitions": chosen.repetitions, "examples": chosen.examples},
        )
        evidence.table("power", columns, rows)
        evidence.save()


if __name__ == "__main__":
    main()
