"""Figure 8: the share of the budget that each site's adaptive allocation gives P."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.registry import Item, Measured, Report, Runs
from papers.sun2022.criteo import evaluation_set, source
from papers.sun2022.sites import SPLITS, adaptive_beta, sites_of
from papers.tables import Table, check_that

_SITES: Final = 458


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Return every site's adaptive share, for 458 sites."""
    del rng
    ranked = evaluation_set(data)
    count = min(_SITES, ranked.examples // 10)
    return {how: adaptive_beta(sites_of(ranked.examples, count, how)) for how in SPLITS}


def report(data: Data, runs: Runs) -> Report:
    """Show Figure 8."""
    panels, rows = [], []
    spread = {}
    for k, how in enumerate(SPLITS):
        beta = runs.pooled(how)
        spread[how] = (float(beta.min()), float(np.median(beta)), float(beta.max()))
        rows.append((how, beta.size, *spread[how]))
        low, high = math.floor(20 * beta.min()) / 20, math.ceil(20 * beta.max()) / 20
        counts, edges = np.histogram(beta, np.linspace(low, high, 31))
        middle = (edges[1:] + edges[:-1]) / 2
        bars = Series(middle, counts.astype(np.float64), "", "bars", k)
        panels.append(Panel(how, (bars,), "beta", "sites"))
    ranked = evaluation_set(data)
    weight = (ranked.centre - ranked.examples / 2) / (ranked.examples / 2)
    wanted = weight ** (2 / 3) / (1 + weight ** (2 / 3))
    return Report(
        (
            Table(
                "figure-8",
                "The share of P that each site gives it, 1,000 examples a site",
                ("split", "sites", "least", "median", "greatest"),
                tuple(rows),
            ),
        ),
        (
            check_that(
                "IID sites have nearly one beta, near one half",
                abs(spread["IID"][1] - 0.5) < 0.05,
                paper="Figure 8a (no number is printed)",
                ours="{:.3f} to {:.3f}, median {:.3f}".format(
                    spread["IID"][0], spread["IID"][2], spread["IID"][1]
                ),
                better=f"for the AUC, not localSum, an IID site would take {wanted:.3f}",
                reason="sites of few examples vary more",
            ),
            check_that(
                "non-IID sites differ, most give nearly all to P",
                spread["non-IID"][1] > 0.9,
                paper="Figure 8b (no number is printed)",
                ours="{:.3f} to {:.3f}, median {:.3f}".format(
                    spread["non-IID"][0], spread["non-IID"][2], spread["non-IID"][1]
                ),
                reason="with few sites ranks are wide at each of them",
            ),
        ),
        (Figure("figure-8", "Sun 2022, figure 8: local beta", tuple(panels)),),
        (source(data),),
    )


FIGURE_8: Final = Item(
    "figure-8", "Figure 8: the distribution of beta", measure, report
)
