"""Deviations over the share of a budget, as Figures 1, 4, 5 and 6 draw them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.sun2022.criteo import FACTS, Ranked, evaluation_set
from papers.sun2022.printed import TABLE_5, TABLE_6
from papers.sun2022.sites import (
    SPLITS,
    Sites,
    Split,
    Weights,
    adaptive_weights,
    choice_sd,
    local_weights,
    orthogonal_weights,
    response_sd,
    sites_of,
)

SHARES: Final = tuple(round(0.05 * k, 2) for k in range(1, 20))
EPSILONS: Final = (1, 2, 4, 8)
THOUSAND: Final = 1000
"""Sites in Figures 1b, 4, 5."""
PER_SITE: Final = 1000
"""Examples a site in Figures 1c and 6: 458 sites."""
_FINE: Final = np.linspace(0.05, 0.99, 189)
SAMPLED: Final = (3, 9, 15)
"""Shares at which runs are made: .2, .5, .8."""


def many(ranked: Ranked) -> int:
    """Return the number of sites of a thousand examples."""
    return max(1, ranked.examples // PER_SITE)


def naive(sites: Sites) -> Callable[[float], Weights]:
    """Split the budget by alpha, the sums apart."""
    return lambda share: local_weights(sites, share)


def orthogonal(sites: Sites) -> Callable[[float], Weights]:
    """Split the budget by beta, the sums made orthogonal."""
    return lambda share: orthogonal_weights(sites, share)


def curve(
    ranked: Ranked,
    of: Callable[[float], Weights],
    epsilon: float,
    shares: FloatVector | tuple[float, ...] = SHARES,
) -> FloatVector:
    """Return the predicted deviation over the share."""
    return np.array([of(float(share)).sd(ranked, epsilon) for share in shares])


@cache
def best_share(ranked: Ranked, sites: int, how: Split, *, apart: bool) -> float:
    """Return the share of the least deviation, on a grid of half a percent."""
    public = sites_of(ranked.examples, sites, how)
    of = naive(public) if apart else orthogonal(public)
    return float(_FINE[np.argmin(curve(ranked, of, 1.0, _FINE))])


def figure_1(data: Data) -> Figure:
    """Draw data size, alpha and allocation side by side."""
    ranked = evaluation_set(data)
    eps = np.array(list(TABLE_5))
    size = Panel(
        "a) data size",
        (
            *(
                Series(
                    eps,
                    np.array([response_sd(evaluation_set(data, size), e) for e in eps]),
                    f"{size}, {FACTS[size].examples:,}",
                    "dashed",
                    k,
                )
                for k, size in enumerate(FACTS)
            ),
            *(
                Series(
                    eps, np.array([cell[-1][1] for cell in t.values()]), word, "line", k
                )
                for k, (word, t) in enumerate(
                    (("small, paper", TABLE_5), ("large, paper", TABLE_6))
                )
            ),
        ),
        "eps",
        "sd of AUC",
        "log",
        "log",
    )
    return Figure(
        "figure-1",
        "Sun 2022, figure 1",
        (
            size,
            _alpha_panel(ranked, "IID", "b) share alpha, IID, 1,000 sites"),
            _allocation_panel(ranked, "non-IID", "c) allocation, non-IID, eps 1"),
        ),
    )


def _alpha_panel(ranked: Ranked, how: Split, title: str) -> Panel:
    public = sites_of(ranked.examples, THOUSAND, how)
    x = np.array(SHARES)
    return Panel(
        title,
        tuple(
            Series(x, curve(ranked, naive(public), e), f"eps {e}", "line", k)
            for k, e in enumerate(EPSILONS)
        ),
        "alpha",
        "sd of AUC",
        "linear",
        "log",
    )


def _allocation_panel(ranked: Ranked, how: Split, title: str) -> Panel:
    public = sites_of(ranked.examples, many(ranked), how)
    x = np.array(SHARES)
    level = np.ones_like(x)
    adaptive = adaptive_weights(public).sd(ranked, 1)
    ours = choice_sd(ranked, many(ranked), how, 1)
    return Panel(
        title,
        (
            Series(x, curve(ranked, naive(public), 1), "naive", "line", 0),
            Series(x, curve(ranked, orthogonal(public), 1), "orthogonal", "line", 1),
            Series(x, adaptive * level, "adaptive", "dashed", 2),
            Series(x, ours * level, "choice (ours)", "dotted", 6),
        ),
        "alpha or beta",
        "sd of AUC",
        "linear",
        "log",
    )


def figure_4(ranked: Ranked) -> Figure:
    """Draw alpha for non-IID sites."""
    panel = _alpha_panel(ranked, "non-IID", "non-IID, 1,000 sites")
    return Figure("figure-4", "Sun 2022, figure 4", (panel,))


def figure_5(ranked: Ranked) -> Figure:
    """Draw alpha for both splits at eps 4."""
    x = np.array(SHARES)
    lines = tuple(
        Series(
            x,
            curve(ranked, naive(sites_of(ranked.examples, THOUSAND, how)), 4),
            how,
            "line",
            k,
        )
        for k, how in enumerate(SPLITS)
    )
    panel = Panel("eps 4, 1,000 sites", lines, "alpha", "sd of AUC")
    return Figure("figure-5", "Sun 2022, figure 5", (panel,))


def figure_6(ranked: Ranked) -> Figure:
    """Draw the allocations for IID sites."""
    panel = _allocation_panel(ranked, "IID", "IID, 1,000 examples a site, eps 1")
    return Figure("figure-6", "Sun 2022, figure 6", (panel,))
