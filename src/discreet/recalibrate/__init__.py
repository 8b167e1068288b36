"""Recalibration: maps from scores to probabilities, fitted to a release alone."""

from discreet.recalibrate.choose import (
    METHODS,
    MapEffect,
    effect,
    fit,
    mapped_predictions,
)
from discreet.recalibrate.maps import (
    CalibrationMap,
    as_transformer,
    from_json,
    load,
    save,
)

__all__ = [
    "METHODS",
    "CalibrationMap",
    "MapEffect",
    "as_transformer",
    "effect",
    "fit",
    "from_json",
    "load",
    "mapped_predictions",
    "save",
]
