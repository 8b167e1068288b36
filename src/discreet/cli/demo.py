"""``discreet demo``: what a federation gains over averaging local results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from discreet.arrays import FloatVector
from discreet.edges import Warped
from discreet.errors import DisclosureWarning
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Polyline
from discreet.evaluation import Evaluation
from discreet.report.plot import Line, draw
from discreet.runtime.hospitals import Hospital, simulate_hospitals
from discreet.runtime.simulation import evaluate

_GRID = np.linspace(0.0, 1.0, 201)


def run_demo(out: Path) -> None:
    """Simulate, evaluate, compare with local averages, write plots."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Training a model, scoring 12 hospitals", total=None)
        hospitals = simulate_hospitals()
        progress.update(task, description="Evaluating", total=len(hospitals))
        sites = [hospital.examples() for hospital in hospitals]
        result = evaluate(
            sites, progress=lambda done: progress.update(task, completed=done)
        )
        pooled = _alone(hospitals)
        local = [_alone([hospital]) for hospital in hospitals]
    typer.echo(f"\n{result}\n")
    averaged = float(np.mean([one.auc.value for one in local]))
    line = _mean_curve(local)
    truth = pooled.curves.roc
    typer.echo(
        f"Pooling the data, if it were allowed:     AUC {pooled.auc.value:.4f}\n"
        f"Averaging the 12 local AUCs would say:    AUC {averaged:.4f}   (wrong by "
        f"{averaged - pooled.auc.value:+.4f})\n"
        f"Area between the ROC curves and the pooled one: discreet "
        f"{area_error(truth, result.curves.roc):.5f}, averaged local curves "
        f"{area_error(truth, Polyline.of(line.x, line.y)):.5f}"
    )
    _write(out, result, local, line)
    typer.echo(f"\nPlots and every number are in {out}/")


def _alone(hospitals: Sequence[Hospital]) -> Evaluation:
    """Evaluate raw data on very fine bins: what local or pooled access would give."""
    sites = [hospital.examples() for hospital in hospitals]
    with warnings.catch_warnings():
        # Nothing is released here: this is the forbidden comparison.
        warnings.simplefilter("ignore", DisclosureWarning)
        return evaluate(sites, edges=Warped(8192), interpolation="linear")


def _mean_curve(local: Sequence[Evaluation]) -> Line:
    """Average the local TPR at equal FPR (Fawcett's vertical averaging)."""
    tpr = np.mean([_tpr_at(one, _GRID) for one in local], axis=0)
    return Line(_GRID, tpr, "averaged local curves")


def _tpr_at(one: Evaluation, grid: FloatVector) -> FloatVector:
    fpr, tpr, _ = one.roc_curve()
    # np.interp takes the last of equal x: the top of a vertical step.
    return np.interp(grid, fpr, tpr)


def _write(
    out: Path, result: Evaluation, local: Sequence[Evaluation], mean: Line
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    quiet = []
    for k, one in enumerate(local):
        fpr, tpr, _ = one.roc_curve()
        quiet.append(Line(fpr, tpr, "" if k else "each hospital alone", "quiet"))
    label = f"discreet: AUC {result.auc.value:.4f}"
    averaged = float(np.mean([one.auc.value for one in local]))
    draw(
        "roc",
        [
            result.line("roc", label),
            Line(mean.x, mean.y, f"averaged local AUCs: {averaged:.4f}", "dashed"),
            *quiet,
        ],
        title="12 hospitals, one model: the pooled ROC without pooling",
        footnote="simulated patients; exact sums under secure aggregation",
        path=out / "roc.png",
    )
    result.plot("pr", out / "pr.png")
    result.plot("det", out / "det.png")
    result.plot("det-log", out / "det-log.png")
    (out / "result.json").write_text(result.to_json(indent=1), encoding="utf-8")
