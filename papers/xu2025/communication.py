"""Section 3.2: what each client sends."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.models.secure_aggregation import SecureAggregation
from discreet.published.xu2025.fedcurve import FedCurve
from papers.data import Data
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_number, check_that
from papers.xu2025.curves import (
    QUANTILES,
    SENT,
    our_edges,
    planned_edges,
    rough_facts,
)
from papers.xu2025.over_sets import SETS

BYTES: Final = 4
"""Of one count in the paper: 32-bit integers. Ours are counted as a site sends them."""


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Count the integers of one class's tree, and of our histograms."""
    del rng
    methods = [FedCurve(quantiles=q) for q in QUANTILES]
    leaves = [2**method.height for method in methods]
    nodes = [method.hierarchy().size // 2 for method in methods]
    sets = [data.scored(name) for name in SETS["xgb"]]
    ours = [len(our_edges(one, 1.0)) for one in sets]
    exact = len(planned_edges(rough_facts(sets[-1]), SecureAggregation()))
    return {
        "leaves": np.array(leaves, float),
        "nodes": np.array(nodes, float),
        "ours": np.array(ours, float),
        "exact": np.array([exact], float),
    }


def report(data: Data, runs: Runs) -> Report:
    """Show bytes from each client for both classes."""
    del data
    leaves, nodes, ours = (runs.mean(word) for word in ("leaves", "nodes", "ours"))
    exact = int(runs.mean("exact")[0])
    rows = [
        (q, int(leaf), int(node), int(2 * BYTES * leaf), int(2 * BYTES * node))
        for q, leaf, node in zip(QUANTILES, leaves, nodes, strict=True)
    ]
    flat = tuple(
        (name, int(bins), int(2 * SENT * bins))
        for name, bins in zip(SETS["xgb"], ours, strict=True)
    )
    most = int(2 * SENT * ours.max())
    return Report(
        (
            Table(
                "communication",
                "The paper's tree: integers a class, bytes for both classes",
                ("Q", "leaves", "nodes", "bytes, SA", "bytes, DDP"),
                tuple(rows),
            ),
            Table(
                "communication-ours",
                "One flat histogram at eps 1, as a site sends it: 8 bytes a count",
                ("data", "bins", "bytes"),
                (*flat, ("exact sums", exact, 2 * SENT * exact)),
            ),
        ),
        (
            check_number(
                "integers a histogram, Q = 1024, DDP",
                paper=8192,
                ours=float(nodes[-1]),
                error=0.0,
                tolerance=2.0,
                better=f"{int(ours.max())} bins at most",
            ),
            check_number(
                "bytes a histogram, Q = 1024, DDP",
                paper=32_768,
                ours=float(nodes[-1]) * BYTES,
                error=0.0,
                tolerance=8.0,
                better=f"{most // 2:,} bytes",
            ),
            check_that(
                "32 KB in all",
                float(nodes[-1]) * 2 * BYTES < 40_000,
                paper='"totaling around 8K integers, i.e., 32K bytes"',
                ours=f"{int(2 * BYTES * nodes[-1]):,} bytes",
                better=f"{most:,} bytes for both classes",
                reason="that is one class's histogram, and a client sends two; under "
                "SA only the leaves go, which is half of it",
            ),
        ),
    )


COMMUNICATION: Final = Item(
    "communication", "Section 3.2: communication", measure, report, needs=SETS["xgb"]
)
