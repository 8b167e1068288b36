"""Every method beside what people use today, on one data set, at equal privacy."""

from typing import Final

from discreet.reproduce.index.comparison import COMPARISON
from discreet.reproduce.registry import Paper

PAPER: Final = Paper(
    "index",
    "The papers, discreet, and what is used today: one data set, eps 1.",
    (COMPARISON,),
)
