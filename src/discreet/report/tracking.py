"""A result in an MLflow run: metrics with their interval ends, the claim, the page.

Of each metric ``auc`` the run gets ``auc``, ``auc_low`` and ``auc_high``, the ends of its 95%
interval; of a rate at a threshold ``recall_at_0.5`` and its ends. Parts stand before a
slash: ``north/auc``. The pooled value beside sites or groups has no name before it. Of
time to event the names end in the horizon: ``auc_by_365``. MLflow takes letters, digits,
``_-.`` and spaces alone: comparisons are written as words, so that ``<65`` and ``>=65`` are
two parts, and names that would still be alike get a number.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.report.record import Made

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation
    from discreet.report.exports import Exports
    from discreet.report.timed_exports import TimedExports

_Part = TypeVar("_Part")

RATES_LOGGED: Final = ("precision", "recall", "specificity", "accuracy", "f1")
ARTIFACT: Final = "discreet/report.html"
_ODD: Final = re.compile(r"[^\w\-. ]+")
"""What MLflow takes in no name."""
_WORDS: Final = {
    "<=": "at most ",
    "\N{LESS-THAN OR EQUAL TO}": "at most ",
    ">=": "at least ",
    "\N{GREATER-THAN OR EQUAL TO}": "at least ",
    "<": "below ",
    ">": "above ",
    "+": " plus",
}
_LONGEST_TAG: Final = 5000
_LONGEST_NAME: Final = 200
"""MLflow's 250 less what stands after a part's name."""


def log_mlflow(
    exports: Exports | TimedExports, *, page: bool = True, record: bool = True
) -> str:
    """Log a result to the active MLflow run, or to a new one; return the run's id.

    ``page`` saves the report as the artifact ``discreet/report.html``; ``record`` as for
    ``to_json``.
    """
    try:
        mlflow: Any = importlib.import_module("mlflow")
    except ImportError:
        raise InputError(
            "logging to MLflow needs its client: pip install mlflow-skinny"
        ) from None
    if (active := mlflow.active_run()) is not None:
        _log(mlflow, exports, page=page, record=record)
        return str(active.info.run_id)
    with mlflow.start_run() as run:
        _log(mlflow, exports, page=page, record=record)
        return str(run.info.run_id)


def _log(
    mlflow: Any, exports: Exports | TimedExports, *, page: bool, record: bool
) -> None:
    from discreet.report.timed_exports import TimedExports  # noqa: PLC0415 - cycle

    values = (
        timed_of(exports) if isinstance(exports, TimedExports) else metrics_of(exports)
    )
    mlflow.log_metrics(dict(values))
    plan, claim = exports.first.plan, exports.claim
    tags = {
        "discreet.version": Made().discreet,
        "discreet.claim": str(claim)[:_LONGEST_TAG],
        "discreet.loss": str(claim.loss),
        "discreet.setting": claim.setting,
    }
    if plan is not None:
        tags["discreet.plan"] = f"sha256:{plan.digest().hex()}"
        if plan.model.name:
            tags["discreet.model"] = plan.model.name
    mlflow.set_tags(tags)
    if page:
        mlflow.log_text(exports.html(Made.today(), record=record), ARTIFACT)


def metrics_of(exports: Exports) -> Iterator[tuple[str, float]]:
    """Yield the names and values that a run gets; what is undefined is left out."""
    parts = _before_names(exports.parts)
    whole = exports.parts.get("", exports.pooled)
    if whole is not None:
        parts[""] = whole
    for prefix, part in parts.items():
        for name, estimate in _estimates(part):
            yield from _ends(f"{prefix}{name}", estimate)
    if exports.pooled is not None:
        return
    rows = exports.summary()  # averages of classes or labels, differences
    for title, estimate in zip(_distinct(rows), rows.values(), strict=True):
        yield from _ends(f"summary/{title}", estimate)


def _before_names(parts: Mapping[str, _Part]) -> dict[str, _Part]:
    """Return the named parts by what stands before their metrics' names."""
    named = {name: part for name, part in parts.items() if name}
    return {
        f"{prefix}/": part
        for prefix, part in zip(_distinct(named), named.values(), strict=True)
    }


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names as MLflow takes them, each different also where case is ignored.

    >>> _distinct(["<65", ">=65", "a/b", "a_b", ".."])
    ['below 65', 'at least 65', 'a_b', 'a_b 2', '_']
    """
    taken: list[str] = []
    for name in names:
        said = name
        for sign, word in _WORDS.items():
            said = said.replace(sign, word)
        plain = _ODD.sub("_", said)[:_LONGEST_NAME].strip(" .") or "_"
        said, copy = plain, 1
        while said.casefold() in map(str.casefold, taken):
            copy += 1
            said = f"{plain} {copy}"
        taken.append(said)
    return taken


def _estimates(part: Evaluation) -> Iterator[tuple[str, Estimate]]:
    yield from part.metrics.items()
    for at in part.thresholds.planned():
        for name in RATES_LOGGED:
            yield f"{name}_at_{_number(at.threshold)}", at[name]


def _number(value: float) -> str:
    """Return a number without the sign of an exponent, which MLflow refuses."""
    return f"{value:.12g}".replace("+", "")


def _ends(name: str, estimate: Estimate) -> Iterator[tuple[str, float]]:
    low, high = estimate.interval()
    for key, value in (
        (name, estimate.value),
        (f"{name}_low", low),
        (f"{name}_high", high),
    ):
        if math.isfinite(value):
            yield key, value


def timed_of(exports: TimedExports) -> Iterator[tuple[str, float]]:
    """Yield the names and values of time to event, as ``metrics_of`` does."""
    whole = exports.whole
    parts = _before_names(exports.parts)
    if whole is None or whole.kind == "groups":
        parts[""] = exports.first if whole is None else whole.together()
    for prefix, part in parts.items():
        for time in part.horizons:
            for name, estimate in part.at(time).items():
                yield from _ends(f"{prefix}{name}_by_{_number(time)}", estimate)
        yield from _ends(f"{prefix}concordance", part.concordance)
        yield from _ends(f"{prefix}uno", part.uno)
    if whole is not None and whole.kind != "groups":
        rows = whole.summary()
        for title, estimate in zip(_distinct(rows), rows.values(), strict=True):
            yield from _ends(f"summary/{title}", estimate)
