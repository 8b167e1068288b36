"""The names of the metrics that a plan may ask for."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Metric: TypeAlias = Literal["auc", "average_precision", "aupr", "brier"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
