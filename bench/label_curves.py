"""Curves and calibration under label privacy: area errors beside known figures.

Calibrated binormal scores (AUC .7702, a share of .256 positives), M = 458,407 and
30,000 examples, drawn once. An error is the mean over runs of the area between the
estimated and the true curve of these examples (ROC over the false positive rate, PR
over recall), and for calibration the mean distance of the rates in 20 groups of
equal mass. The figures beside them are those of a rough prototype. Flips are drawn
by the named fast sampler, noise on binned positives by the mechanism itself.

    python bench/label_curves.py [--runs 20] [--most 1000] [--save]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM
from discreet.estimate.areas import area_error
from discreet.estimate.curves import PrPath, RocPath
from discreet.estimate.fit import PublicTotals
from discreet.label.public_scores import PublicScores, predict_curve
from discreet.metrics.calibration import calibration_curve
from discreet.metrics.curve_points import drawn_points
from discreet.models.label import LabelDP, plan_curves
from discreet.noise.mechanism import NoNoise
from discreet.noise.response import RandomizedResponse, simulate_response
from discreet.statistic.observed import NoisyHistogram
from evidence import FITS, Evidence, Figure

AUC, SHARE = 0.7702, 0.256
KNOWN = {
    (458_407, 1): 0.0024,
    (458_407, 2): 0.0012,
    (458_407, 4): 0.0003,
    (30_000, 1): 0.0088,
    (30_000, 2): 0.0042,
    (30_000, 4): 0.0013,
}
"""ROC area errors of randomized response, by examples and epsilon."""
KNOWN_CALIBRATION = {(458_407, 1): 0.005, (458_407, 2): 0.0023, (458_407, 4): 0.0007}
KNOWN_BINNED = {(458_407, 10, 1): 0.00024}
"""Binned positives with 200 bins, by examples, sites and epsilon."""
FINE = 8192


def draw(examples: int, rng: np.random.Generator) -> tuple[FloatVector, IntVector]:
    """Draw scores that are calibrated posteriors of two normal classes."""
    d = math.sqrt(2) * norm.ppf(AUC)
    y = np.zeros(examples, dtype=np.int64)
    y[: round(SHARE * examples)] = 1
    rng.shuffle(y)
    x = rng.normal(d * y, 1)
    return 1 / (1 + (1 - SHARE) / SHARE * np.exp(-(d * x - d * d / 2))), y


class Truth:
    """The exact curves of the drawn examples, through many knots."""

    def __init__(self, scores: FloatVector, labels: IntVector) -> None:
        edges = Edges.realise(PublicScores.of([Examples(scores, labels)]).rule(FINE))
        bins = edges.bins_of(scores)
        p = np.bincount(bins, labels, minlength=len(edges))
        n = np.bincount(bins, minlength=len(edges)) - p
        tpr, fpr = (np.append(0, np.cumsum(c[::-1])) / c.sum() for c in (p, n))
        self.roc = RocPath(np.minimum(fpr, 1), np.minimum(tpr, 1), "linear")
        self.pr = PrPath(self.roc, p.sum(), n.sum())


def measure(
    sites: list[Examples], truth: Truth, privacy: LabelDP, runs: int
) -> tuple[str, int, list[float]]:
    """Return the mechanism, its bins, and the mean errors: ROC, PR, calibration."""
    plan = plan_curves(PublicScores.of(sites), privacy, thresholds=())
    this = plan.resolve(0, [])
    edges = plan.statistic.binnings[0]
    exact = [this.statistic.count(site) for site in sites]
    total = np.sum(exact, axis=0)
    negatives, positives = np.split(total.astype(np.float64), 2)
    known = NoisyHistogram(edges, negatives, positives, NoNoise())
    rates = calibration_curve(known, 20, "mass").rate
    decoder = plan.privacy.mechanism_for(this, plan.cohort)
    rng = np.random.default_rng(5)
    estimator = PublicTotals()
    found = []
    for _ in range(runs):
        if isinstance(decoder, RandomizedResponse):
            response_key = simulate_response(total, decoder.flip_probability, 1, rng)[0]
            opened = decoder.open(response_key.astype(np.int64), len(sites))
        else:
            sent = [decoder.protect(own, entropy=SYSTEM) for own in exact]
            opened = decoder.open(np.sum(sent, axis=0), len(sites))
        counts, noise = opened.counts, opened.noise
        negatives, positives = np.split(counts, 2)
        observed = NoisyHistogram(edges, negatives, positives, noise)
        fit = estimator.fit(observed)
        (roc, pr), read = drawn_points(fit), replace(fit.counts, noise=NoNoise())
        found.append(
            [
                area_error(truth.roc, roc, tolerance=1e-5),
                area_error(truth.pr, pr, tolerance=1e-5),
                float(np.abs(calibration_curve(read, 20, "mass").rate - rates).mean()),
            ]
        )
    mechanism = plan.privacy.mechanism if isinstance(plan.privacy, LabelDP) else ""
    return mechanism, len(edges), np.mean(found, axis=0).tolist()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Curves under label privacy")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--most", type=int, default=1000, help="most sites")
    parser.add_argument("--save", action="store_true", help="into results/")
    args = parser.parse_args()
    table: list[list[str | Figure]] = []
    rng = np.random.default_rng(1)
    print(
        f"{'examples':>9}{'sites':>7}{'eps':>5} {'mechanism':<10}{'bins':>5}"
        f"{'ROC':>10}{'known':>9}{'predicted':>11}{'PR':>10}{'calibr.':>10}{'known':>8}"
    )
    for examples in (458_407, 30_000):
        scores, labels = draw(examples, rng)
        truth = Truth(scores, labels)
        for count in (10, 100, 1000):
            if count > args.most:
                continue
            sites = [Examples(scores[i::count], labels[i::count]) for i in range(count)]
            public = PublicScores.of(sites)
            for epsilon in (1, 2, 4):
                for mechanism in ("response", "binned"):
                    if mechanism == "response" and count != 10:
                        continue  # flips do not depend on the sites
                    privacy = LabelDP(epsilon, mechanism=mechanism)
                    name, bins, (roc, pr, rate) = measure(
                        sites, truth, privacy, args.runs
                    )
                    guess = predict_curve(public, epsilon, name, prevalence=SHARE).error
                    key = (examples, epsilon)
                    known = (
                        KNOWN.get(key)
                        if name == "response"
                        else KNOWN_BINNED.get((examples, count, epsilon))
                    )
                    known_rate = KNOWN_CALIBRATION.get(key)
                    if name != "response":
                        known_rate = None
                    print(
                        f"{examples:>9,}{count:>7,}{epsilon:>5} {name:<10}{bins:>5}"
                        f"{roc:>10.5f}{known or '':>9}{guess:>11.5f}{pr:>10.5f}"
                        f"{rate:>10.5f}{known_rate or '':>8}",
                        flush=True,
                    )
                    where = "any" if name == "response" else f"{count:,}"
                    shown = [Figure(e, digits=5) for e in (roc, guess, pr, rate)]
                    aside = f"{known:.5f}".strip("0") if known else ""
                    table.append(
                        [
                            *(f"{examples:,}", where, str(epsilon), name, f"{bins:,}"),
                            shown[0],
                            aside,
                            *shown[1:],
                        ]
                    )
    columns = ("examples", "sites", "eps", "mechanism", "bins", "ROC", "prototype")
    evidence = Evidence(
        "label_curves", (*FITS, "label"), {"runs": args.runs, "most": args.most}
    )
    evidence.table("errors", [*columns, "ROC predicted", "PR", "calibration"], table)
    evidence.figure("runs", Figure(args.runs, digits=0))
    if args.save:
        evidence.save()


if __name__ == "__main__":
    main()
