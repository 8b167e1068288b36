"""``discreet demo``: what a federation gains over averaging local results."""

from __future__ import annotations

import os
import sys
import warnings
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from discreet.arrays import FloatVector
from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.errors import DisclosureWarning, MissingExtraError
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Curve, Polyline
from discreet.models.distributed import DistributedDP
from discreet.report.evaluation import Evaluation
from discreet.report.plot import Line, curve_line, draw
from discreet.transport.simulation import evaluate

_GRID = np.linspace(0.0, 1.0, 201)
_MODEL = "sepsis-demo"
_PRIVACY = DistributedDP(epsilon=1)
_EXAMPLES, _PREVALENCE = 30_000, 0.25
"""Public facts of the demo, declared and not counted."""
_HORIZONS = (365.0, 1825.0)
_SIZES = (9200, 6400, 4300, 3100, 2400, 1900, 1400, 1000, 700, 450, 300, 150)
_SEVERITY = (-1.9, -1.2, -2.0, -1.6, -1.6, -2.3, -1.1, -2.1, -1.0, -1.8, -1.3, -1.4)
_OFFSETS = (0.4, -1.6, 1.5, -0.2, 2.2, -2.0, 0.9, -1.1, 1.9, -0.7, 2.6, -1.4)
_SIGNAL = np.array([1.1, -0.8, 0.7, 0.5, -0.4, 0.0, 0.0, 0.3])


def demo(
    out: Path = Path("discreet-demo"),
    record: bool = True,
    open: bool = True,  # noqa: A002 - the option
) -> None:
    """Measure a real model at twelve simulated hospitals that cannot pool data.

    Options:
        out: Folder for the report, the plots and the JSON files.
        record: Keep what the sites revealed in these files, for `discreet verify`.
        open: Open the report, where there is a screen.
    """
    out.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Training a model, scoring 12 hospitals", total=None)
        hospitals = simulate_hospitals()
        progress.update(task, description="Evaluating", total=len(hospitals))
        sites = [hospital.examples() for hospital in hospitals]
        result = evaluate(
            sites,
            examples=_EXAMPLES,
            prevalence=_PREVALENCE,
            heterogeneity=True,
            name=_MODEL,
            progress=lambda done: progress.update(task, completed=done),
        )
        private = evaluate(
            sites,
            privacy=_PRIVACY,
            examples=_EXAMPLES,
            prevalence=_PREVALENCE,
            name=_MODEL,
        )
        pooled = _alone(hospitals)
        local = [_alone([hospital]) for hospital in hospitals]
        progress.update(task, description="Following patients up", total=None)
        followed = simulate_follow_up(hospitals)
        timed = evaluate(
            followed,
            privacy=_PRIVACY,
            examples=_EXAMPLES,
            horizons=_HORIZONS,
            name=_MODEL,
        )
        ranked = [_concordance([site]) for site in followed]
        truth = _concordance(followed)
    typer.echo(f"\nExact sums\n----------\n{result}\n")
    typer.echo(f"With differential privacy\n-------------------------\n{private}\n")
    averaged = float(np.mean([one.auc.value for one in local]))
    curves = [one.roc_curve()[:2] for one in (result, private, *local)]
    # Fawcett's vertical averaging; np.interp takes the top of a vertical step.
    tpr = np.mean([np.interp(_GRID, *curve) for curve in curves[2:]], axis=0)
    curve_truth = pooled.curves.roc
    rows: dict[str, tuple[float, Curve]] = {
        "Pooling the data, if it were allowed": (pooled.auc.value, curve_truth),
        "discreet, exact sums": (result.auc.value, Polyline.of(*curves[0])),
        f"discreet, {private.claim.loss} for one example": (
            private.auc.value,
            Polyline.of(*curves[1]),
        ),
        "Averaging the 12 local AUCs or curves": (averaged, Polyline.of(_GRID, tpr)),
    }
    typer.echo(f"{'':40}{'AUC':>8}{'area to the pooled ROC':>26}")
    for name, (auc, curve) in rows.items():
        wrong = f"   (wrong by {auc - pooled.auc.value:+.4f})"
        note = wrong if name.startswith("Averaging") else ""
        typer.echo(f"{name:40}{auc:8.4f}{area_error(curve_truth, curve):26.5f}{note}")
    typer.echo(f"\nTime to event\n-------------\n{timed}\n")
    averaged_rank = float(np.mean(ranked))
    typer.echo(f"{'':40}{'concordance':>12}")
    for name, value, note in (
        ("Pooling the follow-up, if allowed", truth, ""),
        (f"discreet, {timed.claim.loss}", timed.concordance.value, ""),
        (
            "Averaging the 12 local concordances",
            averaged_rank,
            f"   (wrong by {averaged_rank - truth:+.4f})",
        ),
    ):
        typer.echo(f"{name:40}{value:12.4f}{note}")
    label = f"discreet, {private.claim.loss}: AUC {private.auc.value:.4f}"
    draw(
        "roc",
        [
            curve_line(
                result, "roc", f"discreet, exact sums: AUC {result.auc.value:.4f}"
            ),
            replace(curve_line(private, "roc", label), style="dotted"),
            Line(_GRID, tpr, f"averaged local AUCs: {averaged:.4f}", "dashed"),
            *(
                Line(*curve, "" if k else "each hospital alone", "quiet")
                for k, curve in enumerate(curves[2:])
            ),
        ],
        title="12 hospitals, one model: the pooled ROC without pooling",
        footnote="simulated patients; the two curves of discreet lie on each other",
        path=out / "roc.png",
    )
    for kind in ("pr", "det", "det-log", "calibration"):
        result.plot(kind, out / f"{kind}.png")
    for name, evaluation in (("result", result), ("private", private)):
        path = out / f"{name}.json"
        path.write_text(evaluation.to_json(indent=1, record=record), encoding="utf-8")
    page = out / "report.html"
    private.save(page, record=record)
    timed.save(out / "followup.html", record=record)
    typer.echo(
        f"\nPlots and every number are in {out}/\nThe report of the private result is "
        f"{page}, that of time to event {out / 'followup.html'}"
    )
    if open and has_screen():
        webbrowser.open(page.resolve().as_uri())


def has_screen() -> bool:
    """Whether somebody sits before this terminal, at a screen that shows a browser."""
    if not sys.stdout.isatty() or "CI" in os.environ or "SSH_CONNECTION" in os.environ:
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _alone(hospitals: Sequence[Hospital]) -> Evaluation:
    """Evaluate raw data on very fine bins: what local or pooled access would give."""
    sites = [hospital.examples() for hospital in hospitals]
    with warnings.catch_warnings():
        # Nothing is released here: this is the forbidden comparison.
        warnings.simplefilter("ignore", DisclosureWarning)
        return evaluate(sites, edges=Warped(8192), interpolation="linear")


def _concordance(sites: Sequence[Examples]) -> float:
    """Return Harrell's concordance of a very fine table, for comparison alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        fine = evaluate(sites, edges=Warped(512), horizons=_HORIZONS[-1:], intervals=48)
    return float(fine.concordance.value)


def simulate_follow_up(hospitals: Sequence[Hospital], seed: int = 2) -> list[Examples]:
    """Follow the hospitals' patients up: scores are their risks by the last horizon.

    Everybody is followed for one to six years, or until the event.
    """
    rng = np.random.default_rng(seed)
    sites = []
    for hospital in hospitals:
        risk = np.clip(hospital.scores, 1e-6, 1 - 1e-6)
        until = rng.exponential(-_HORIZONS[-1] / np.log1p(-risk))
        ends = rng.uniform(365.0, 2190.0, risk.size)
        event = (until <= ends).astype(np.int64)
        days = np.ceil(np.minimum(until, ends))
        sites.append(Examples(risk, time=days, event=event, name=hospital.name))
    return sites


@dataclass(frozen=True, slots=True)
class Hospital:
    """One hospital's scored patients."""

    name: str
    scores: FloatVector
    labels: FloatVector

    def examples(self) -> Examples:
        """Return what discreet is given at this hospital."""
        return Examples(self.scores, self.labels, name=self.name)


def simulate_hospitals(seed: int = 1) -> list[Hospital]:
    """Train a model and score the patients of twelve hospitals with it.

    A hospital's case mix shifts its patients' measurements (``_OFFSETS``), which
    shifts the scores: so a local ranking says little about the pooled one.
    """
    try:
        from sklearn.ensemble import (  # noqa: PLC0415 - an optional extra
            HistGradientBoostingClassifier,
        )
    except ImportError:
        raise MissingExtraError("the demo", "demo") from None
    rng = np.random.default_rng(seed)
    x, y = _patients(rng, 12_000, severity=-1.5, offset=0.0, spread=1.5)
    model = HistGradientBoostingClassifier(max_iter=80, random_state=seed).fit(x, y)
    hospitals = []
    facts = zip(_SIZES, _SEVERITY, _OFFSETS, strict=True)
    for k, (size, severity, offset) in enumerate(facts):
        x, y = _patients(rng, size, severity=severity, offset=offset, spread=0.9)
        scores = model.predict_proba(x)[:, 1]
        hospitals.append(Hospital(f"hospital {k + 1}", scores, y))
    return hospitals


def _patients(
    rng: np.random.Generator,
    size: int,
    *,
    severity: float,
    offset: float,
    spread: float,
) -> tuple[FloatVector, FloatVector]:
    x = rng.normal(0.0, spread, (size, _SIGNAL.size))
    x[:, 0] += offset
    risk = x @ _SIGNAL + 0.5 * np.sin(2 * x[:, 1]) + 0.4 * x[:, 2] * x[:, 3] + severity
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-risk))
    return x, y.astype(np.float64)
