"""A trusted curator publishes one AUC, one average precision, one curve.

The unit is a row: one example replaced by any other. The number of examples is
public, the number of positives is not.
"""

from discreet.curator.budget import Budget
from discreet.curator.private_estimate import PrivateEstimate
from discreet.curator.release import (
    PrivateRates,
    PrivateRoc,
    auc,
    average_precision,
    confusion,
    evaluate,
    roc_curve,
)

__all__ = [
    "Budget",
    "PrivateEstimate",
    "PrivateRates",
    "PrivateRoc",
    "auc",
    "average_precision",
    "confusion",
    "evaluate",
    "roc_curve",
]
