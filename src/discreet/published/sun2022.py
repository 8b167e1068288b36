r"""The mechanisms of Sun et al. (2022): noise on rank sums, and noise on the scores.

**Rank sums** (section 5), by the names ``global-laplace``, ``local-laplace``,
``orthogonal`` and ``adaptive`` of ``LabelDP``, also with Gaussian noise when there is
a delta:

- *global* (section N): every site takes M - 1 as the sensitivity of S.
- *local* (section 5.2): a site takes its own greatest rank. Both split the budget, a
  share alpha for S and the rest for P.
- *orthogonal* (section 5.3): :math:`r = u' + v'` with u' the site's mean rank; P gets
  a share beta and :math:`V = \sum v'_i y_i` the rest, and :math:`S = u' P + V`, so
  that the draw for P serves both sums.
- the *adaptive* share: beta of the least variance of S,
  :math:`u^{2/3}/(u^{2/3} + v^{2/3})` for Laplace noise, with u and v the largest
  entries of u' and v'. For Gaussian noise the same argument gives u/(u + v).

The paper's noise is real-valued. Here the weights are integers on a grid so fine that
the distribution is the same to three digits. Where all ranks of a site agree one count
gives both sums and gets everything. The paper's randomized response is the product's
own (``discreet.label.released_sums.ResponseSums``).

**Noise on the scores** (Table 9). Scores in [0, 1] are put on a grid of :math:`2^{20}`
steps and get discrete Laplace noise of scale :math:`2^{20}/\varepsilon`: whatever one
score was, any other is as likely within :math:`e^\varepsilon`. It protects *scores and
not labels*: the AUC is then computed from the exact labels. The noise pulls it far
towards one half, by an amount that depends on the scores, so no interval is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.parsing import Amount, exact
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import ScalarFit
from discreet.label.mechanisms import (
    CENTRE_STEPS,
    Option,
    RankMechanism,
    RowsOfAnOption,
    SumKind,
    count_row,
    noisy_row,
    split,
    spread_around,
)
from discreet.label.ranks import RankFacts, RankTotals, add_totals, rank_sites
from discreet.label.released_sums import LabelLoss, Row
from discreet.label.sum_noise import drawable
from discreet.noise.coins import stretched
from discreet.noise.laplace import discrete_laplace
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Unit
from discreet.report.evaluation import Evaluation, Source
from discreet.statistic.rank_sums import SHARE_STEPS


def _two_sums(greatest: int, budget: LabelLoss, option: Option) -> tuple[Row, ...]:
    """Return S and P on their own, with noise for a greatest doubled rank."""
    alpha, for_count = split(option)
    return noisy_row(1, 0, greatest, budget, alpha), count_row(budget, for_count)


def _orthogonal_rows(
    facts: RankFacts, budget: LabelLoss, option: Option
) -> tuple[Row, ...]:
    """Return P, and the sum of what is left of the ranks around a public centre."""
    spread = spread_around(facts, option.centre)
    if not spread:
        return (count_row(budget),)
    beta, for_rest = split(option)
    rest = noisy_row(CENTRE_STEPS, -option.centre, spread, budget, for_rest)
    return count_row(budget, beta), rest


def mean_centre(facts: RankFacts) -> int:
    """Return the mean doubled rank, in eighths, rounded."""
    return round(Fraction(CENTRE_STEPS * facts.total, len(facts)))


def adaptive_share(facts: RankFacts, budget: LabelLoss) -> Fraction:
    """Return the share of P at which S has the least variance."""
    centre = mean_centre(facts)
    u, v = float(centre), float(spread_around(facts, centre))
    if v == 0:
        return Fraction(1)
    power = 2 / 3 if isinstance(budget, PureDP) else 1.0
    beta = u**power / (u**power + v**power)
    steps = min(max(round(beta * SHARE_STEPS), 1), SHARE_STEPS - 1)
    return Fraction(steps, SHARE_STEPS)


def _around_the_mean(facts: RankFacts, share: Fraction) -> Option:
    return Option(SumKind.ORTHOGONAL, mean_centre(facts), round(share * SHARE_STEPS))


def _shared(kind: SumKind, rows: RowsOfAnOption) -> RankMechanism:
    """Return a mechanism that takes the plan's share."""
    return RankMechanism(
        frozenset({kind}),
        lambda _facts, _budget, share: Option(kind, part=round(share * SHARE_STEPS)),
        rows,
        gaussian=True,
    )


GLOBAL: Final = _shared(
    SumKind.GLOBAL, lambda facts, *given: _two_sums(facts.top, *given)
)
LOCAL: Final = _shared(
    SumKind.LOCAL, lambda facts, *given: _two_sums(facts.high, *given)
)
ORTHOGONAL: Final = RankMechanism(
    frozenset({SumKind.ORTHOGONAL}),
    lambda facts, _budget, share: _around_the_mean(facts, share),
    _orthogonal_rows,
    gaussian=True,
)
ADAPTIVE: Final = replace(
    ORTHOGONAL,
    option=lambda facts, budget, _: _around_the_mean(
        facts, adaptive_share(facts, budget)
    ),
    rows=None,
)

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
        scores, classes = site.to_arrays()
        sent = noisy_scores(scores, epsilon=spent, entropy=entropy)
        columns.append(sent.astype(np.float64))
        labels.append(classes.astype(np.int64))
    ranked = rank_sites(columns)
    pairs = (r.sums(y) for r, y in zip(ranked, labels, strict=True))
    sums = add_totals(RankTotals(doubled / 2, count) for doubled, count in pairs)
    examples = sum(column.size for column in columns)
    fit = ScalarFit(
        {"auc": _estimate(sums.auc(examples))},
        remedy="noise on the scores leaves no curve worth drawing",
        facts={"examples": examples},
    )
    claim = Claim(
        Unit("score", "replace"),
        PureDP(spent),
        Trust.NOBODY,
        computational=False,
        setting="seeded" if isinstance(entropy, Seeded) else "simulated",
        discloses=(
            "each score with noise",
            "each site's size",
            "two exact sums of labels",
        ),
        not_protected=(
            "labels: their sums are exact",
            "malicious sites, which may send false data",
        ),
    )
    return Evaluation(fit, claim, Source(len(sites), len(sites)))


def _estimate(value: float) -> Estimate:
    if math.isnan(value):
        return Estimate.undefined("one class is empty, and an AUC needs both")
    why = "noise on the scores pulls the AUC towards one half by an unknown amount"
    return Estimate(value, None, 0.0, Binning(value, value, 0.0), unusable=why)


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
