r"""How far false reports move a metric: worked out to first order, then decoded again.

Of n reports m are false; nobody knows which. The stated amount is the greatest distance that
was found between the metric of all reports and that of the honest ones alone, T - v, with v
the false reports: :math:`v \ge 0, \sum v = m, v \le T`.

*First order.* The decoder's counts move with the tally by a known matrix R (its smoothing
held), a metric with the counts by its slopes s, so that a false report of symbol o is worth
:math:`h_o = s^T R_{\cdot o}` and m of them
:math:`m (h_o - \bar h)`, with the mean over all reports. This is linear in v: the worst v puts
all m on the symbol with the largest or the smallest h, and on the next where T has too few.

*Decoded again.* The tally without each of these two v is decoded as any other, and the larger
of both amounts counts, times ``MARGIN`` for what a search of other v found beyond it
(``bench/poisoning.py``). The decoder chooses its smoothing from the data and has no global
bound: the amount is what was searched, not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.errors import DiscreetError
from discreet.estimate.fit import Fit
from discreet.metrics.table import METRICS
from discreet.noise.arc_decoder import DecodedNoise

if TYPE_CHECKING:
    from discreet.plan.plan import Plan
    from discreet.plan.rounds import Release

FALSE_SHARE: Final = 0.01
"""Of the reports that a result takes to be false when it says what these could do."""
MARGIN: Final = 1.25
"""Factor for adversaries that are cleverer than one symbol: none of a search exceeded it."""


def poisoned(
    plan: Plan,
    release: Release,
    fit: Fit,
    names: Iterable[str],
    share: float = FALSE_SHARE,
) -> dict[str, float]:
    """Return by how much so many false reports can move each metric, as searched.

    Empty where the release was not decoded from reports, or is refused.
    """
    noise, total = fit.observed.noise, release.total
    if not isinstance(noise, DecodedNoise) or noise.response is None or fit.refusal:
        return {}
    false = math.ceil(share * int(total.sum()))
    amounts = {}
    for name in (name for name in METRICS if name in set(names)):
        worth = _worth(name, fit, noise.response)
        centred = worth - float(worth @ total) / float(total.sum())
        value = METRICS[name].measure.value(fit)
        moves = []
        for sign in (1.0, -1.0):
            sent = worst_reports(total, sign * centred, false)
            moves.append(abs(float(centred @ sent)))
            again = without(plan, release, sent, name)
            if math.isfinite(again):
                moves.append(abs(value - again))
        if math.isfinite(value) and all(map(math.isfinite, moves)):
            amounts[name] = min(MARGIN * max(moves), 1.0)
    return amounts


def _worth(name: str, fit: Fit, response: FloatVector) -> FloatVector:
    """Return by how much one report of each symbol moves a metric, to first order."""
    slopes = METRICS[name].measure.slopes(fit.bins)
    worth: FloatVector = np.concatenate([slopes.negatives, slopes.positives]) @ response
    return worth


def worst_reports(total: IntVector, worth: FloatVector, false: int) -> IntVector:
    """Return the false reports among a tally that are worth the most."""
    sent: IntVector = np.zeros_like(total)
    for symbol in np.argsort(-worth, kind="stable"):
        sent[symbol] = min(int(total[symbol]), false - int(sent.sum()))
    return sent


def without(plan: Plan, release: Release, sent: IntVector, name: str) -> float:
    """Return a metric of the tally without these reports; NaN where there is none."""
    from discreet.report.build import open_release  # noqa: PLC0415 - it makes results

    honest = replace(release, total=release.total - sent)
    try:
        (part,) = open_release(plan, [honest]).parts().values()
        return METRICS[name].measure.value(plan.privacy.estimator().fit(part))
    except (DiscreetError, ArithmeticError, np.linalg.LinAlgError):
        return math.nan
