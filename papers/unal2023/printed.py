"""What the paper prints: its two tables, and its formulas on plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector

UNBALANCED: Final = (12, 18, 32, 58, 107, 258, 507, 1008)


@dataclass(frozen=True)
class Row:
    """Owners' sizes, the merge parameter, and megabytes and seconds of three areas."""

    name: str
    sizes: tuple[int, ...]
    delta: int
    aupr: tuple[float, float]
    """Table 1."""
    without_ties: tuple[float, float]
    with_ties: tuple[float, float]
    """AUROC, Table 2."""

    @property
    def rows(self) -> int:
        """Rows of all owners."""
        return sum(self.sizes)


ROWS: Final = (
    Row("3 x 64", (64,) * 3, 1, (4.39, 24.41), (3.24, 16.77), (3.34, 24.72)),
    Row("3 x 128", (128,) * 3, 1, (14.72, 48.05), (12.61, 33.52), (12.89, 48.96)),
    Row("3 x 256", (256,) * 3, 1, (54.73, 95.65), (50.18, 66.1), (50.7, 97.65)),
    Row("3 x 512", (512,) * 3, 1, (209.93, 191.55), (199.31, 131.69), (198.12, 193.25)),
    Row(
        "3 x 1024", (1024,) * 3, 1, (812.7, 355.32), (793.35, 233.27), (801.04, 356.31)
    ),
    Row(
        "2 x 1000", (1000,) * 2, 1, (281.61, 174.16), (270.72, 91.44), (271.46, 173.79)
    ),
    Row(
        "4 x 1000",
        (1000,) * 4,
        1,
        (1643.82, 523.39),
        (1622.01, 358.37),
        (1623.3, 523.06),
    ),
    Row(
        "8 x 1000",
        (1000,) * 8,
        1,
        (7607.16, 1404.22),
        (7563.93, 1074.87),
        (7564.75, 1404.6),
    ),
    Row(
        "8 x 1000",
        (1000,) * 8,
        3,
        (3831.68, 1194.08),
        (3787.09, 818.98),
        (3791.03, 1149.16),
    ),
    Row(
        "8 x 1000",
        (1000,) * 8,
        5,
        (2572.51, 1105.46),
        (2528.44, 732.85),
        (2531.3, 1061.33),
    ),
    Row(
        "8 x 1000",
        (1000,) * 8,
        11,
        (1313.46, 1032.29),
        (1269.21, 646.66),
        (1272.74, 1000.99),
    ),
    Row(
        "8 x 1000", (1000,) * 8, 25, (635.48, 972.0), (591.86, 604.81), (594.84, 974.64)
    ),
    Row(
        "8 x 1000",
        (1000,) * 8,
        51,
        (345.06, 935.65),
        (301.18, 591.72),
        (304.44, 965.86),
    ),
    Row(
        "8 x 1000",
        (1000,) * 8,
        101,
        (202.91, 940.07),
        (159.27, 599.53),
        (162.25, 955.07),
    ),
    Row("8 x UNB", UNBALANCED, 1, (293.9, 379.99), (273.49, 297.59), (273.48, 379.71)),
)
"""Tables 1 and 2. The network behind their seconds is not named."""

SETTINGS: Final = tuple(row for row in ROWS if row.delta == 1)
BY_SAMPLES: Final = SETTINGS[:5]
"""Figure 2a: three owners."""
BY_OWNERS: Final = SETTINGS[5:8]
"""Figure 2b: 1,000 rows an owner."""
BY_DELTA: Final = tuple(row for row in ROWS if row.name == "8 x 1000")
"""Figure 2c, with delta = 1 before it."""


def differs_from_following(scores: FloatVector) -> IntVector:
    """Mark the last row of each group of ties, as Algorithm 3 does."""
    return np.append(np.diff(scores) != 0, True).astype(np.int64)


def differs_from_preceding(scores: FloatVector) -> IntVector:
    """Mark the first row of each group, as the text around equation 2 says."""
    return np.append(True, np.diff(scores) != 0).astype(np.int64)


def equation_1(labels: IntVector) -> tuple[int, int]:
    """Return the numerator and denominator of Algorithm 1, scores descending."""
    tp = np.cumsum(labels)
    fp = np.cumsum(1 - labels)
    rising = np.diff(np.append(0, fp))
    return int(tp @ rising), int(tp[-1] * fp[-1])


def equation_2(
    t: FloatVector, f: FloatVector, marks: IntVector, *, start: float
) -> float:
    """Return the sum of equation 2 over marked rows, from T[0] = start, F[0] = 0."""
    chosen = np.flatnonzero(marks)
    here, x = t[chosen], f[chosen]
    before = np.append(start, here[:-1])
    rising = np.diff(np.append(0.0, x))
    return float(before @ rising + (here - before) @ rising / 2)


def algorithm_4(labels: IntVector, marks: IntVector, *, rank_as_recall: bool) -> float:
    """Return the area of Algorithm 4; printed, RC counts every row."""
    tp = np.cumsum(labels).astype(np.float64)
    rank = np.arange(1.0, labels.size + 1)
    recall = (rank if rank_as_recall else tp) / tp[-1]
    return equation_2(tp / rank, recall, marks, start=1.0)
