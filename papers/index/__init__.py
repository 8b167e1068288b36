"""Every method beside what people use today, on one data set, at equal privacy."""

from typing import Final

from papers.index.comparison import COMPARISON
from papers.registry import Paper

PAPER: Final = Paper(
    "index",
    "The papers, discreet, and what is used today: one data set, eps 1.",
    (COMPARISON,),
)
