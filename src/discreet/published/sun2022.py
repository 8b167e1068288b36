r"""Noise on the scores themselves: the alternative of Sun et al. (2022), Table 9.

Scores in [0, 1] are put on a grid of :math:`2^{20}` steps and get discrete Laplace
noise of scale :math:`2^{20}/\varepsilon`: whatever one score was, any other is as
likely within :math:`e^\varepsilon`. It protects *scores and not labels*: the AUC is
then computed from the exact labels. The noise pulls it far towards one half, by an
amount that depends on the scores, so that no interval can be given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import ScalarFit
from discreet.label.midranks import rank_sites
from discreet.label.rank_totals import RankTotals, add_totals
from discreet.label.sum_noise import drawable
from discreet.noise.coins import stretched
from discreet.noise.laplace import discrete_laplace
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Amount, PureDP, exact
from discreet.privacy.unit import Unit
from discreet.report.evaluation import Evaluation

STEPS: Final = 2**20
"""Grid steps of the interval [0, 1]: the L1 sensitivity of a replaced score."""


def score_noise_auc(
    sites: Sequence[Examples], *, epsilon: Amount, entropy: Entropy = SYSTEM
) -> Evaluation:
    """Measure the AUC of noisy scores against exact labels.

    >>> scores = np.linspace(0, 1, 2000)
    >>> site = Examples(scores, scores > 0.5)
    >>> score_noise_auc([site], epsilon=1).auc.value < 0.8
    True
    """
    spent = exact(epsilon)
    if spent <= 0:
        raise InputError("epsilon must be positive")
    if any(s.columns != 1 or s.label_code.classes is not None for s in sites):
        raise InputError("an AUC needs one score and two classes")
    columns, labels = [], []
    for site in sites:
        scores, found = site.to_arrays()
        sent = noisy_scores(scores, epsilon=spent, entropy=entropy)
        columns.append(sent.astype(np.float64))
        labels.append(found.astype(np.int64))
    ranked = rank_sites(columns)
    pairs = (r.sums(y) for r, y in zip(ranked, labels, strict=True))
    sums = add_totals(RankTotals(doubled / 2, count) for doubled, count in pairs)
    examples = sum(column.size for column in columns)
    fit = ScalarFit(
        {"auc": _estimate(sums.auc(examples))},
        remedy="noise on the scores leaves no curve worth drawing",
        facts={"examples": examples},
    )
    claim = _claim(spent, seeded=isinstance(entropy, Seeded))
    return Evaluation(fit, claim, len(sites), len(sites))


def _estimate(value: float) -> Estimate:
    if math.isnan(value):
        return Estimate.undefined("one class is empty, and an AUC needs both")
    why = "noise on the scores pulls the AUC towards one half by an unknown amount"
    return Estimate(value, None, 0.0, Binning(value, value, 0.0), unusable=why)


def _claim(epsilon: Fraction, *, seeded: bool) -> Claim:
    """Return the claim: one replaced score is protected, no label is."""
    return Claim(
        Unit("score", "replace"),
        PureDP(epsilon),
        Trust.NOBODY,
        computational=False,
        setting="seeded" if seeded else "simulated",
        discloses=(
            "each score with noise",
            "each site's size",
            "two exact sums of labels",
        ),
        not_protected=("labels: their sums are exact", "lying sites"),
    )


def on_grid(scores: FloatVector) -> IntVector:
    """Put scores on the grid."""
    if scores.size and not 0 <= scores.min() <= scores.max() <= 1:
        raise InputError("noise on scores needs scores in [0, 1]")
    steps: IntVector = np.rint(scores * STEPS).astype(np.int64)
    return steps


def noisy_scores(
    scores: FloatVector, *, epsilon: Fraction, entropy: Entropy
) -> IntVector:
    """Return the scores on the grid with noise."""
    scale = drawable(Fraction(STEPS) / epsilon)
    return on_grid(scores) + discrete_laplace(scale, scores.size, stretched(entropy))
