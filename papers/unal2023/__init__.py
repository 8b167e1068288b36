"""Ünal, Pfeifer and Akgün (2023): exact areas from secret shares."""

from typing import Final

from papers.registry import Paper
from papers.unal2023.costs import TABLE_1
from papers.unal2023.exactness import FIGURE_1, SECTION_7_2
from papers.unal2023.formulas import FORMULAS
from papers.unal2023.processes import PROCESSES

PAPER: Final = Paper(
    "unal2023",
    "Ünal, Pfeifer, Akgün: ppAURORA: Privacy Preserving Area Under Receiver Operating "
    "Characteristic and Precision-Recall Curves. NSS 2023.",
    (TABLE_1, PROCESSES, FIGURE_1, SECTION_7_2, FORMULAS),
)
