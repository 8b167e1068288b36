r"""When standard deviations agree.

A standard deviation of 100 runs has a relative error of about 1/sqrt(200) = 7%; the
heavier tails of Laplace sums over few sites make it 10%. A cell agrees when the log
of printed over predicted is within ``ROOM``, 3.5 times that. What is predicted (by the
delta method) is held against our own runs in another check, in units of itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from discreet.arrays import FloatArray
from papers.tables import Check, check_that, shown

ROOM: Final = 0.3
_NAMED: Final = 3
_KURTOSIS: Final = 6.0
"""Of a single Laplace draw, above the normal's 3: the worst case here."""


def rms(values: FloatArray, exact: float) -> FloatArray:
    """Return the root mean square distance from the exact value, over runs."""
    found: FloatArray = np.sqrt(np.mean((values - exact) ** 2, axis=0))
    return found


def cells_agree(
    statement: str,
    cells: Mapping[str, tuple[float, float]],
    *,
    better: str = "",
    reason: str = "",
) -> Check:
    """Compare printed standard deviations with predicted ones; blanks are skipped."""
    logs = {
        name: abs(math.log(ours / printed))
        for name, (printed, ours) in cells.items()
        if not math.isnan(printed)
    }
    out = [name for name, off in logs.items() if off > ROOM]
    named = f" ({', '.join(out)} does not)" if 0 < len(out) <= _NAMED else ""
    return check_that(
        statement,
        not out,
        paper=f"{len(logs)} cells, 100 runs each",
        ours=f"{len(logs) - len(out)} of {len(logs)} agree{named}; the farthest is off "
        f"by a factor {shown(math.exp(max(logs.values())))}",
        better=better,
        reason=reason,
        note=f"a cell agrees when the log ratio is at most {ROOM}",
    )


def runs_agree(found: Mapping[str, tuple[FloatArray, float, float]]) -> Check:
    """Hold predicted deviations against runs: squared errors in their own units.

    ``found`` has, for each cell, the runs' values, the exact one, the prediction.
    """
    ratios = np.array(
        [
            np.mean((np.asarray(values) - exact) ** 2) / predicted**2
            for values, exact, predicted in found.values()
        ]
    )
    runs = min(np.asarray(values).size for values, _, _ in found.values())
    room = 5 * math.sqrt((2 + _KURTOSIS) / (runs * ratios.size)) + 0.02
    mean = float(ratios.mean())
    return check_that(
        "the delta method predicts the runs",
        abs(mean - 1) <= room,
        paper="(gives no formula for estimated P)",
        ours=f"mean squared error over predicted variance: {shown(mean)}, "
        f"{ratios.size} cells of {runs} runs",
        note=f"tolerance {shown(room)}: 5 standard errors, 2% for curvature",
    )
