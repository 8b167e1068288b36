"""The tables of ``docs/measures.md``, from public predictions on the rows themselves.

    python tests/measures_page.py

writes them into the page again; its text is written by hand.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from pathlib import Path
from typing import Final

import discreet
from discreet.metrics.curves import CURVES
from discreet.metrics.table import METRICS, RATES

sys.path.insert(0, str(Path(__file__).parent))
from measure_oracles import at_threshold, over_thresholds, shared_scores

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "measures.md"
CUT: Final = 0.1
CUTS: Final = [CUT, *(k / 15 for k in range(1, 15))]
"""The threshold of the case study, and the groups of ECE: their ends become edges."""
LOOSE: Final = {
    "specificity_at_95_sensitivity": 5e-3,
    "e50": 1e-2,
    "miscalibration": 5e-3,
}
"""Where the order of a few rows inside one bin moves the value by more than .1%."""
_BETTER: Final = {
    "higher": "higher",
    "lower": "lower",
    "one": "near 1",
    "zero": "near 0",
}


def release(y, score):
    """Evaluate at 1,024 bins; so few rows in so many bins are public ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.DisclosureWarning)
        return discreet.evaluate(
            [discreet.Examples(score, y)], thresholds=CUTS, examples=20_000
        )


def page() -> str:
    """Return the page with the rows of its tables and its list of curves made again."""
    y, score = shared_scores("ovarian-adnex")
    result = release(y, score)
    known = f"{y.size} public predictions ({int(y.sum())} positives)"
    tables = iter(
        [
            _rows(METRICS, over_thresholds(y, score), lambda n: result.metrics[n]),
            _rows(RATES, at_threshold(y, score, CUT), lambda n: result.at(CUT)[n]),
        ]
    )
    curves = "".join(f"- `{name}`: {CURVES[name].source}\n" for name in CURVES)
    text = PAGE.read_text()
    text = re.sub(r"\d+ public predictions \(\d+ positives\)", known, text)
    text = re.sub(r"(?<=\|---:\|---\|---\|\n)(\|.*\n)+", lambda _: next(tables), text)
    return re.sub(r"(?<=to compare with:\n\n)(- .*\n)+", lambda _: curves, text)


def _rows(rows, truth, estimate) -> str:
    return "".join(
        f"| `{name}` | {row.formula.replace('|', '&#124;')} | {_BETTER[row.better]} | "
        f"{_number(truth[name])} | {_number(estimate(name).value)} | {row.source} | "
        f"{row.hides} |\n"
        for name, row in ((n, rows[n]) for n in rows)
    )


def _number(value: float) -> str:
    return f"{value:.{max(0, 4 - max(0, math.floor(math.log10(abs(value)) + 1)))}f}"


if __name__ == "__main__":
    PAGE.write_text(page())
