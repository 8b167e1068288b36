"""The AUC of noisy scores, in one process: the alternative that protects no label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, NotYet, Unusable, Zero
from discreet.estimate.reading import ScalarReading
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Amount, PureDP, exact
from discreet.privacy.unit import Unit
from discreet.ranks.midranks import rank_sites
from discreet.ranks.rank_totals import RankTotals, add_totals
from discreet.ranks.score_noise import noisy_scores
from discreet.result.evaluation import Evaluation


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
    reading = ScalarReading(
        {"auc": _estimate(sums.auc(examples))},
        remedy="noise on the scores leaves no curve worth drawing",
        facts={"examples": examples},
    )
    claim = _claim(spent, seeded=isinstance(entropy, Seeded))
    return Evaluation(reading, claim, len(sites), len(sites))


def _estimate(value: float) -> Estimate:
    if math.isnan(value):
        return Estimate.undefined("one class is empty, and an AUC needs both")
    why = "noise on the scores pulls the AUC towards one half by an unknown amount"
    return Estimate(
        value,
        NotYet(why),
        Zero(),
        Binning(value, value, 0.0),
        status=Unusable(why),
    )


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
