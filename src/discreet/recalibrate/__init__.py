"""Recalibration: maps from scores to probabilities, fitted to a release alone."""

from discreet.recalibrate.choose import METHODS, fit
from discreet.recalibrate.effect import Effect, effect, mapped_predictions
from discreet.recalibrate.maps import CalibrationMap, from_json, load, save
from discreet.recalibrate.transformer import as_transformer

__all__ = [
    "METHODS",
    "CalibrationMap",
    "Effect",
    "as_transformer",
    "effect",
    "fit",
    "from_json",
    "load",
    "mapped_predictions",
    "save",
]
