"""What most figures of this paper share: two models, three sets each, a panel a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from papers.data import Data
from papers.figures import Panel, Series
from papers.registry import Item, Measured, Report, Runs

Model: TypeAlias = Literal["xgb", "lr"]
SETS: Final[dict[Model, tuple[str, ...]]] = {
    "xgb": ("adult-xgb", "bank-xgb", "cover-xgb"),
    "lr": ("adult-lr", "bank-lr", "cover-lr"),
}
EPSILONS: Final = (1.0, 0.3)
LEVELS: Final = ("SA", *(f"eps={e:g}" for e in EPSILONS))
"""Exact sums and two budgets, in the figures over Q."""


def sources(model: Model, data: Data) -> tuple[str, ...]:
    """Say where the three sets of a model's figures come from."""
    return tuple(data.scored(name).source for name in SETS[model])


def figure_item(
    title: str,
    measure: Callable[[Model, Data, np.random.Generator], Measured],
    report: Callable[[Model, str, Data, Runs], Report],
    model: Model,
    *names: str,
) -> Item:
    """Return the item of one model's figures: the paper prints each once a model."""
    return Item(
        names[0],
        f"{' and '.join(names)}: {title} ({model})",
        partial(measure, model),
        partial(report, model, names[0]),
        runs=10,
        also=names[1:],
        needs=SETS[model],
    )


def log_panels(
    model: Model,
    lines: Callable[[str], Iterable[Series]],
    x_label: str,
    y_label: str = "area error",
) -> tuple[Panel, ...]:
    """Draw the lines of each set on logarithmic axes."""
    return tuple(
        Panel(name, tuple(lines(name)), x_label, y_label, "log", "log")
        for name in SETS[model]
    )
