"""Coverage of the measures of a validation: exact and at epsilon 1, four populations.

A population is a large set of scored examples: two made up (calibrated; too extreme and
rare), two real (``../shared/data``, out-of-fold scores of two data sets). Each repetition
draws rows from it with replacement, evaluates them as a user would, and asks whether each
95% interval holds the population's own value.

    python bench/measures_coverage.py [--repetitions 500] [--rows 5000] [--only TEXT]
        [--parts measures gaps conformal drift] [--save]

Prints percent held by population, noise and measure; for ``conformal`` the mean share of
new examples whose label is in its set, for ``drift`` the share of series with a false
alarm and the share in which a drop of the AUC was seen (a third of the repetitions: a
series has 24 periods).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

import discreet
from discreet.arrays import BoolVector, FloatVector
from discreet.errors import DisclosureWarning
from evidence import FITS, Cell, Evidence, Figure

SHARED: Final = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
CUT: Final = 0.2
MEASURES: Final = (
    "calibration_slope",
    "observed_expected",
    "sensitivity_at_95_specificity",
    "ici",
    "log_loss",
    "partial_auc_corrected",
)
Data: TypeAlias = tuple[FloatVector, BoolVector]
Rows: TypeAlias = list[list[Cell]]


def percent(share: float) -> Figure:
    return Figure(100 * share, digits=1, unit="%")


def _sigmoid(z: FloatVector) -> FloatVector:
    found: FloatVector = 1 / (1 + np.exp(-z))
    return found


def calibrated(rng: np.random.Generator) -> Data:
    """Scores that are the probabilities themselves."""
    z = 1.4 * rng.normal(size=400_000) - 0.6
    return _sigmoid(z), rng.random(z.size) < _sigmoid(z)


def extreme(rng: np.random.Generator) -> Data:
    """One positive in eleven, scores too extreme by a half and too high."""
    z = 1.2 * rng.normal(size=400_000) - 3.0
    return _sigmoid(1.5 * z + 1.8), rng.random(z.size) < _sigmoid(z)


def real(name: str) -> Callable[[np.random.Generator], Data]:
    """Return the reader of a public set."""

    def read(rng: np.random.Generator) -> Data:
        import pyarrow.parquet as pq  # noqa: PLC0415

        del rng
        table = pq.read_table(SHARED / f"{name}.parquet")
        return (
            table["score"].to_numpy().astype(np.float64),
            table["label"].to_numpy().astype(np.bool_),
        )

    return read


POPULATIONS: Final = {
    "calibrated": calibrated,
    "extreme and rare": extreme,
    "adult, boosted": real("adult-xgb-oof"),
    "bank, boosted": real("bank-xgb-oof"),
}
NOISES: Final = {"exact": None, "eps 1": 1}


def populations(only: str) -> Iterator[tuple[str, Data]]:
    """Return the populations whose data are there."""
    for name, make in POPULATIONS.items():
        if only and only not in name:
            continue
        try:
            yield name, make(np.random.default_rng(99))
        except FileNotFoundError:
            print(f"{name}: not there, left out", file=sys.stderr)


def evaluated(
    score: FloatVector, y: BoolVector, epsilon: int | None, prevalence: float
) -> discreet.Evaluation:
    """Evaluate one draw as a user would."""
    model = None if epsilon is None else discreet.DistributedDP(epsilon)
    return discreet.evaluate(
        [discreet.Examples(score, y)],
        privacy=model,
        examples=score.size,
        prevalence=round(prevalence, 2),
        thresholds=[CUT],
    )


def measures(args: argparse.Namespace) -> Rows:
    """Print coverage of the measures."""
    table: Rows = []
    columns = [*MEASURES, "net_benefit"]
    print(f"{'':32}" + "".join(f"{c[:16]:>18}" for c in columns))
    for name, (scores, labels) in populations(args.only):
        whole = evaluated(scores, labels, None, labels.mean())
        truth = {m: whole.metrics[m].value for m in MEASURES}
        truth["net_benefit"] = whole.at(CUT).net_benefit.value
        for noise, epsilon in NOISES.items():
            held = dict.fromkeys(columns, 0)
            for k in range(args.repetitions):
                rng = np.random.default_rng(k)
                rows = rng.integers(scores.size, size=args.rows)
                result = evaluated(scores[rows], labels[rows], epsilon, labels.mean())
                found = {m: result.metrics[m] for m in MEASURES}
                found["net_benefit"] = result.at(CUT).net_benefit
                for m, estimate in found.items():
                    low, high = estimate.interval()
                    held[m] += low <= truth[m] <= high
            shares = [held[c] / args.repetitions for c in columns]
            line = "".join(f"{100 * share:18.1f}" for share in shares)
            print(f"{name + ', ' + noise:32}{line}", flush=True)
            table.append([name, noise, *map(percent, shares)])
    return table


def gaps(args: argparse.Namespace) -> Rows:
    """Print how often all gaps of recall between four groups hold at once."""
    table: Rows = []
    names = ["a", "b", "c", "d"]
    for name, (scores, labels) in populations(args.only):
        group = np.random.default_rng(5).integers(4, size=scores.size)
        # The last group's scores are lower than they should be.
        own = np.where(group == 3, 0.7 * scores, scores)
        truth = [np.mean(own[labels & (group == g)] >= CUT) for g in range(4)]
        widest = max(truth) - min(truth)
        for noise, epsilon in NOISES.items():
            held = largest = 0
            for k in range(args.repetitions):
                rows = np.random.default_rng(k).integers(scores.size, size=args.rows)
                site = discreet.Examples(
                    own[rows], labels[rows], groups=np.array(names)[group[rows]]
                )
                result = discreet.evaluate(
                    [site],
                    groups=names,
                    privacy=None
                    if epsilon is None
                    else discreet.DistributedDP(epsilon),
                    examples=args.rows,
                    prevalence=round(float(labels.mean()), 2),
                    thresholds=[CUT],
                )
                fair = result.fairness(CUT)
                held += all(
                    g.interval.low
                    <= truth[names.index(g.first)] - truth[names.index(g.second)]
                    <= g.interval.high
                    for g in fair.gaps("recall")
                )
                low, high = fair.largest("recall").interval()
                largest += low <= widest <= high
            print(
                f"{name + ', ' + noise:32} all gaps {100 * held / args.repetitions:.1f}"
                f"   largest {100 * largest / args.repetitions:.1f}",
                flush=True,
            )
            both = (held / args.repetitions, largest / args.repetitions)
            table.append([name, noise, *map(percent, both)])
    return table


def conformal(args: argparse.Namespace) -> Rows:
    """Print the mean share of labels that are in their sets."""
    table: Rows = []
    for name, (scores, labels) in populations(args.only):
        for noise, epsilon in NOISES.items():
            line, row = f"{name + ', ' + noise:32}", list[Cell]([name, noise])
            for alpha in (0.1, 0.05):
                shares = []
                for k in range(args.repetitions):
                    rows = np.random.default_rng(k).integers(
                        scores.size, size=args.rows
                    )
                    result = evaluated(
                        scores[rows], labels[rows], epsilon, labels.mean()
                    )
                    sets = result.thresholds.conformal(alpha).predict(scores)
                    shares.append(np.where(labels, sets[:, 1], sets[:, 0]).mean())
                error = np.std(shares) / np.sqrt(len(shares))
                line += f"   {1 - alpha:.2f}: {np.mean(shares):.4f} (+-{error:.4f})"
                row.append(percent(float(np.mean(shares))))
            print(line, flush=True)
            table.append(row)
    return table


def drift(args: argparse.Namespace) -> Rows:
    """Print false alarms over 24 periods, and how often a drop of the AUC is seen."""
    table: Rows = []
    repetitions = max(args.repetitions // 3, 1)
    scores, labels = calibrated(np.random.default_rng(99))
    z = np.log(scores / (1 - scores))
    blurred = _sigmoid(z + 0.652 * np.random.default_rng(3).normal(size=z.size))
    names = [f"{k:02d}" for k in range(24)]
    for noise, epsilon in NOISES.items():
        alarms = seen = 0
        for k in range(repetitions):
            rng = np.random.default_rng(k)
            rows = rng.integers(scores.size, size=(24, args.rows))
            for late in (24, 12):
                drawn = [(blurred if t >= late else scores)[rows[t]] for t in range(24)]
                site = discreet.Examples(
                    np.concatenate(drawn),
                    labels[rows].ravel(),
                    groups=np.repeat(names, args.rows),
                )
                result = discreet.evaluate(
                    [site],
                    groups=names,
                    privacy=None
                    if epsilon is None
                    else discreet.DistributedDP(epsilon),
                    examples=24 * args.rows,
                    prevalence=round(float(labels.mean()), 2),
                )
                found = result.drift()
                if late == 24:
                    alarms += bool(found.alarms)
                else:
                    seen += any(
                        c.measure == "auc" and c.period >= "12" for c in found.alarms
                    )
        print(
            f"{noise}: false alarms {100 * alarms / repetitions:.1f}%, a drop "
            f"seen {100 * seen / repetitions:.1f}%",
            flush=True,
        )
        table.append([noise, f"{alarms} of {repetitions}", f"{seen} of {repetitions}"])
    return table


WHERE: Final = ("population", "noise")
PARTS: Final = {
    "measures": (
        measures,
        (*WHERE, *(m.replace("_", " ") for m in (*MEASURES, "net_benefit"))),
    ),
    "gaps": (gaps, (*WHERE, "all gaps hold at once", "the largest")),
    "conformal": (conformal, (*WHERE, "nominal 90%", "nominal 95%")),
    "drift": (drift, ("noise", "series with a false alarm", "drop of .031 seen")),
}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--only", default="")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--save", action="store_true", help="into results/")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DisclosureWarning)
    evidence = Evidence(
        "measures_coverage",
        (*FITS, "report/build", "report/conformal", "report/drift", "report/fairness"),
        {"repetitions": args.repetitions, "rows": args.rows},
    )
    for name in args.parts:
        part, columns = PARTS[name]
        evidence.table(name, columns, part(args))
    if args.save:
        evidence.save()


if __name__ == "__main__":
    main()
