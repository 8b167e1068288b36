"""Label privacy: the scores are public, the labels are not.

Rank sums give the AUC, and nothing else, with little noise: ``label_auc``.
"""

from discreet.ranks.auc import label_auc
from discreet.ranks.rank_terms import RankSumTerms
from discreet.ranks.score_noise import score_noise_auc
from discreet.statistic.rank_sums import MECHANISMS, MechanismName

__all__ = [
    "MECHANISMS",
    "MechanismName",
    "RankSumTerms",
    "label_auc",
    "score_noise_auc",
]
