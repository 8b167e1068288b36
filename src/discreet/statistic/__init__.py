"""Statistics: what a site counts. They merge by addition and know their sensitivity."""

from discreet.statistic.adaptive import EquiDepthFrom, PlacedFrom
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.histogram import (
    ClassHistogram,
    Grouped,
    Paired,
    PairedInGroups,
)
from discreet.statistic.multiclass import OneVsOne, OneVsRest
from discreet.statistic.multilabel import MultiLabel
from discreet.statistic.protocol import BinCounts, Statistic
from discreet.statistic.rank_sums import RankSums

__all__ = [
    "BinCounts",
    "ClassHistogram",
    "EquiDepthFrom",
    "Grouped",
    "Hierarchy",
    "MultiLabel",
    "OneVsOne",
    "OneVsRest",
    "Paired",
    "PairedInGroups",
    "PlacedFrom",
    "RankSums",
    "Statistic",
]
