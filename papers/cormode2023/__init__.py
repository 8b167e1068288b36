"""Cormode and Markov (2023): federated calibration and evaluation from histograms."""

from typing import Final

from papers.cormode2023.area import FIGURE_4
from papers.cormode2023.calibration import FIGURE_5
from papers.cormode2023.rates import FIGURE_2, FIGURE_3
from papers.cormode2023.slopes import TABLE_1
from papers.registry import Paper

PAPER: Final = Paper(
    "cormode2023",
    "Cormode, Markov: Federated Calibration and Evaluation of Binary Classifiers. "
    "PVLDB 16 (2023).",
    (TABLE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5),
)
