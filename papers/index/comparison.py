"""The index: error and bytes of every contender."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.estimate.areas import area_error
from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.index.contenders import CONTENDERS, Contender
from papers.index.federation import DATA, Federation
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Check, Table, check_ours, check_that, shown

_PIECES: Final = 12
_SOURCES: Final = ("today", "boyd2015", "sun2022", "cormode2023", "xu2025", "discreet")
_COLOURS: Final = (5, 0, 3, 2, 4, 1)


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Return each contender's AUC and area to the pooled ROC curve."""
    of = Federation.split(data)
    found = {}
    for contender in CONTENDERS:
        auc, roc = contender.simulate(of, rng)
        area = np.nan
        if roc is not None:
            area = area_error(of.pooled.roc, roc.polyline(_PIECES))
        found[f"{contender.name}/auc"] = np.array([abs(auc - of.pooled.auc)])
        found[f"{contender.name}/roc"] = np.array([area])
    return found


def report(data: Data, runs: Runs) -> Report:
    """Show error and bytes."""
    of = Federation.split(data)
    rows = tuple(
        (
            c.source,
            c.name,
            c.loss,
            c.trust,
            _error(runs, c, "auc"),
            _error(runs, c, "roc"),
            c.size(of),
        )
        for c in CONTENDERS
    )
    rates = [float(site.labels.mean()) for site in of.sites]
    local = [site.auc for site in of.with_both_classes]
    return Report(
        (
            Table(
                "comparison",
                f"Mean absolute error of the pooled AUC ({of.pooled.auc:.4f}), area to the "
                f"pooled ROC curve, bytes from each of 12 sites; {len(runs)} runs",
                ("source", "method", "privacy", "trust", "AUC", "ROC area", "bytes"),
                rows,
            ),
        ),
        _checks(of, runs),
        (_figure(of, runs),),
        (
            of.pooled.source,
            f"12 sites by case mix: prevalence {min(rates):.0%} to {max(rates):.0%}",
            f"local AUCs {min(local):.3f} to {max(local):.3f}",
        ),
    )


def _error(runs: Runs, contender: Contender, kind: str) -> float:
    return float(runs.mean(f"{contender.name}/{kind}")[0])


def _checks(of: Federation, runs: Runs) -> tuple[Check, ...]:
    by_name = {c.name: c for c in CONTENDERS}

    def error(name: str, kind: str = "auc") -> float:
        return _error(runs, by_name[name], kind)

    ours = "flat histogram, distributed noise"
    trees = ("tree, 128 quantiles", "tree, 20 equi-depth buckets")
    averaged = error("averaged local AUCs")
    ratio = error(ours, "roc") / error("tree, 128 quantiles", "roc")
    area = error(ours) / error("tree, 20 equi-depth buckets")
    return (
        check_that(
            "the mean of local AUCs is the pooled AUC",
            averaged < 0.005,
            paper="what federated learning frameworks report",
            ours=f"off by {shown(averaged)}",
            better=f"{shown(error(ours))} with 1-DP",
            reason="sites differ in case mix: pairs across sites, which most pairs are, "
            "are in no local AUC",
        ),
        check_ours(
            "the flat histogram is closer than the papers' trees at equal privacy",
            ratio < 0.9 and area < 0.9,
            ours=f"ROC area {shown(ratio)} times that of xu2025, AUC {shown(area)} times "
            "that of cormode2023",
        ),
        check_ours(
            "it needs fewer bytes than either",
            all(by_name[ours].size(of) < by_name[tree].size(of) for tree in trees),
            ours=", ".join(f"{by_name[n].size(of):,}" for n in (ours, *trees)),
        ),
    )


def _figure(of: Federation, runs: Runs) -> Figure:
    series = []
    for source, colour in zip(_SOURCES, _COLOURS, strict=True):
        mine = [c for c in CONTENDERS if c.source == source]
        for k, c in enumerate(mine):
            series.append(
                Series(
                    np.array([float(c.size(of))]),
                    np.array([_error(runs, c, "auc")]),
                    "" if k else source,
                    "line",
                    colour,
                )
            )
    panel = Panel(
        "AUC error and bytes",
        tuple(series),
        "bytes from each site",
        "mean absolute error of AUC",
        "log",
        "log",
    )
    return Figure("comparison", "One data set, eps 1", (panel,))


COMPARISON: Final = Item(
    "comparison",
    "The papers, discreet and today's habits",
    measure,
    report,
    runs=40,
    needs=(DATA,),
)
