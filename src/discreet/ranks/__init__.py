"""Label privacy: the scores are public, the labels are not.

Rank sums give the AUC, and nothing else, with little noise: ``label_auc``.
"""

from discreet.ranks.auc import label_auc
from discreet.ranks.build import MECHANISMS, MechanismName
from discreet.ranks.score_noise import score_noise_auc
from discreet.ranks.terms import RankSumTerms

__all__ = [
    "MECHANISMS",
    "MechanismName",
    "RankSumTerms",
    "label_auc",
    "score_noise_auc",
]
