"""Boyd, Lantz and Page (2015): one AUC or average precision from a trusted curator."""

from typing import Final

from papers.boyd2015.attack import FIGURE_2
from papers.boyd2015.binormal import FIGURE_6
from papers.boyd2015.neighbours import FIGURE_1
from papers.boyd2015.outputs import FIGURE_4
from papers.boyd2015.sensitivity import FIGURE_3, THEOREM_5
from papers.boyd2015.utility import FIGURE_5
from papers.registry import Paper

PAPER: Final = Paper(
    "boyd2015",
    "Boyd, Lantz, Page: Differential Privacy for Classifier Evaluation. AISec 2015.",
    (FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4, FIGURE_5, FIGURE_6, THEOREM_5),
)
