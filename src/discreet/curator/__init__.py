"""A trusted curator publishes one AUC, one average precision, one curve.

The unit is a row: one example replaced by any other. The number of examples is
public, the number of positives is not.
"""

from discreet.curator.auc import auc
from discreet.curator.average_precision import average_precision
from discreet.curator.binormal import BinormalCurve
from discreet.curator.budget import Budget
from discreet.curator.histogram import PrivateRates, confusion, evaluate
from discreet.curator.result import PrivateEstimate
from discreet.curator.roc import PrivateRoc, roc_curve

__all__ = [
    "BinormalCurve",
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
