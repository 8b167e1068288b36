"""Xu and Cormode (2025): federated ROC and PR curves from quantiles of a noisy tree."""

from typing import Final

from papers.registry import Paper
from papers.xu2025.communication import COMMUNICATION
from papers.xu2025.epsilon import FIGURE_4, FIGURE_15
from papers.xu2025.imbalance import FIGURE_12, FIGURE_20
from papers.xu2025.interpolation import FIGURE_3, FIGURE_13
from papers.xu2025.queries import FIGURE_6, FIGURE_18
from papers.xu2025.seeding import SEEDING
from papers.xu2025.strategies import FIGURE_5, FIGURE_17
from papers.xu2025.theorems import THEOREMS

PAPER: Final = Paper(
    "xu2025",
    "Xu, Cormode: Federated Computation of ROC and PR Curves. 2025.",
    (
        FIGURE_3,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_12,
        FIGURE_13,
        FIGURE_15,
        FIGURE_17,
        FIGURE_18,
        FIGURE_20,
        COMMUNICATION,
        THEOREMS,
        SEEDING,
    ),
)
