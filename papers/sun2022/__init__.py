"""Sun et al. (2022): the AUC of public scores and private labels."""

from typing import Final

from papers.registry import Paper
from papers.sun2022.accurate import TABLE_2
from papers.sun2022.allocation import FIGURE_1
from papers.sun2022.betas import FIGURE_8
from papers.sun2022.equations import EQUATION_7
from papers.sun2022.laplace import TABLE_1
from papers.sun2022.response import TABLE_5, TABLE_6
from papers.sun2022.score_noise import TABLE_9
from papers.sun2022.scores import TABLE_8

PAPER: Final = Paper(
    "sun2022",
    "Sun, Yang, Yao, Xie, Wu, Wang: Differentially Private AUC Computation in Vertical "
    "Federated Learning. 2022.",
    (
        TABLE_1,
        TABLE_2,
        TABLE_5,
        TABLE_6,
        TABLE_8,
        TABLE_9,
        FIGURE_1,
        FIGURE_8,
        EQUATION_7,
    ),
)
