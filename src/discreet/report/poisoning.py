r"""How far false reports move a metric: searched over what an adversary may send.

Of n reports m are false; nobody knows which. The stated amount is the greatest distance that
was found between the metric of all reports and that of the honest ones alone, T - v, with v
the false reports: :math:`v \ge 0, \sum v = m, v \le T`.

*First order.* The decoder's counts move with the tally by a known matrix R (its smoothing
held), a metric with the counts by its slopes s, so that a false report of symbol o is worth
:math:`h_o = s^T R_{\cdot o}`, and m of them :math:`m (h_o - \bar h)` with the mean over all
reports. This is linear in v: the worst v is one symbol.

*Decoded again.* The smoothing follows the data, too. So the tally without m reports of each
symbol, and of a few arcs of neighbouring symbols, is decoded as any other. The largest
amount counts, times ``MARGIN`` for other v (``bench/poisoning.py`` searches them). The decoder
has no global bound: the amount is what was searched, not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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
_ARC: Final = 4
MARGIN: Final = 1.6
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
    wanted = set(names)
    rows = [name for name in METRICS if name in wanted]
    false = math.ceil(share * int(total.sum()))
    first_order = np.zeros(len(rows))
    for place, name in enumerate(rows):
        worth = _worth(name, fit, noise.response)
        centred = worth - float(worth @ total) / float(total.sum())
        first_order[place] = false * float(np.abs(centred).max())
    values = np.array([METRICS[name].measure.value(fit) for name in rows])
    again = [without(plan, release, sent, rows) for sent in attacks(total, false)]
    moves = np.vstack([first_order, *(np.abs(values - one) for one in again)])
    largest = np.where(np.isfinite(values), np.nan_to_num(moves).max(axis=0), np.nan)
    return {
        name: min(MARGIN * float(most), 1.0)
        for name, most in zip(rows, largest, strict=True)
        if math.isfinite(most)
    }


def _worth(name: str, fit: Fit, response: FloatVector) -> FloatVector:
    """Return by how much one report of each symbol moves a metric, to first order."""
    slopes = METRICS[name].measure.slopes(fit.bins)
    worth: FloatVector = np.concatenate([slopes.negatives, slopes.positives]) @ response
    return worth


def attacks(total: IntVector, false: int) -> Iterator[IntVector]:
    """Yield false reports: of every symbol, and of arcs of four neighbours.

    Where a tally has fewer of a symbol, the next ones make up for it.
    """
    symbols = total.size
    for length, apart in ((1, 1), (_ARC, 2 * _ARC)):
        for start in range(0, symbols, apart):
            order = (start + np.arange(symbols)) % symbols
            each = np.minimum(total[order], -(-false // length))
            sent: IntVector = np.zeros_like(total)
            sent[order] = np.diff(np.minimum(np.cumsum(each), false), prepend=0)
            yield sent


def without(
    plan: Plan, release: Release, sent: IntVector, names: Sequence[str]
) -> FloatVector:
    """Return metrics of the tally without these reports; NaN where there are none."""
    from discreet.report.build import open_release  # noqa: PLC0415 - it makes results

    honest = replace(release, total=release.total - sent)
    try:
        (part,) = open_release(plan, [honest]).parts().values()
        fit = plan.privacy.estimator().fit(part)
        return np.array([METRICS[name].measure.value(fit) for name in names])
    except (DiscreetError, ArithmeticError, np.linalg.LinAlgError):
        return np.full(len(names), math.nan)
