"""``discreet plan``: choose bins from public facts, predict the errors, write it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from discreet.cli import choices
from discreet.data.labels import LabelCode
from discreet.data.scoring import ModelFile
from discreet.errors import InputError, PlanError
from discreet.metrics.table import METRICS
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster, key_from_text
from discreet.plan.heterogeneity import predicted_spreads
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.protocol import PROTOCOLS
from discreet.report.prediction import (
    DEFAULT_AUC,
    REPETITIONS,
    PredictedError,
    Prediction,
    check_protocol,
    predict,
)
from discreet.session.preview import counted_in
from discreet.statistic.site_sums import SiteSums
from discreet.transport.inputs import check_group_names


def plan(  # noqa: PLR0913, PLR0917 - one option a choice
    examples: int,
    protection: choices.Protection,
    scores: choices.ScoreOptions,
    measured: choices.MeasureOptions,
    followed: choices.FollowUpOptions,
    scored: choices.ModelOptions,
    time: str | None = None,
    event: str | None = None,
    scores_for_horizons: bool = False,
    site: list[str] | None = None,
    coordinator: str | None = None,
    sites: int | None = None,
    min_examples_per_site: int = 0,
    watch_drop: float | None = None,
    name: str = "",
    model_digest: str = "",
    purpose: str = "",
    auc: float = DEFAULT_AUC,
    repetitions: Annotated[
        int, typer.Option(help="Populations that the prediction simulates.", min=2)
    ] = REPETITIONS,
    anyway: bool = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the plan to this file.")
    ] = None,
    page: Path | None = None,
) -> None:
    """Choose a plan from public facts and predict its errors, without data.

    Exits with 1 and writes nothing when the result would be mostly noise.

    Options:
        examples: Public: roughly how many examples there are in all.
        time: Of time to event: a column's name is no part of a plan, and each site names
            its own; given here, it only asks for --horizon.
        event: Likewise.
        scores_for_horizons: Of time to event: a score column for the risk by each horizon.
        site: A site of the roster, NAME=ed25519:KEY; repeat for each.
        coordinator: The coordinator's key, ed25519:KEY.
        sites: How many sites there are; by default those of --site.
        min_examples_per_site: Sites with fewer examples stay out.
        watch_drop: The groups are periods, in their order: the drop of the AUC between
            them that must be seen.
        name: Name of the measured model.
        model_digest: Its digest, sha256:HEX.
        purpose: What the result is for, in one line; sites record it.
        auc: AUC that is assumed for the prediction.
        anyway: Write the plan even if it is no use.
        page: Write a page of predictions against epsilon, examples, prevalence and
            sites to this .html file.
    """
    check_group_names(measured.groups)
    if watch_drop is not None and len(measured.groups or ()) < 2:
        raise InputError(
            "--watch-drop compares periods: name them with --in-group, in their order"
        )
    model = protection.model(cohort=False)
    private, colluders = _plannable(model, measured.bins), protection.colluders
    roster = _roster(site or [], coordinator)
    known = sites or (len(roster.sites) if roster else None)
    protocol = PROTOCOLS[private.carried_by]
    fewest = (colluders or 0) + 2 if protocol.between_sites else 1
    split = measured.random_groups or 1
    least = protection.min_survivors or (known or 0) // split or fewest
    most = measured.max_examples_per_site
    file = scored.open(scores)
    declared = scores.declared() if file is None else file.scores
    facts = PublicFacts(examples, measured.prevalence, declared, followed.censoring)
    chosen = recommend(
        facts,
        private,
        thresholds=measured.threshold,
        edges=measured.edges(facts),
        classes=measured.classes,
        groups=measured.groups,
        labels=measured.labels,
        max_weight=measured.max_weight,
        pilot=measured.pilot,
        heterogeneity=measured.heterogeneity_question(),
        followup=followed.planned(
            named=bool(time or event), several=scores_for_horizons
        ),
        cohort=Cohort(least, colluders, min_examples_per_site, most, split),
        model=_measured(file, name, model_digest, measured.classes),
    )
    chosen = replace(chosen, roster=roster, purpose=purpose)
    check_protocol(chosen, sites=known)
    _describe(chosen)
    refusal = _heterogeneity(chosen)
    if chosen.horizons:
        refusal = _followup(chosen, page, sites=known, auc=auc)
    elif not chosen.privacy.predictable:
        typer.echo(f"There is no prediction under {chosen.privacy.name} privacy.")
    elif measured.classes is None and measured.labels is None:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            progress.add_task("Predicting errors", total=None)
            prediction = predict(chosen, sites=known, auc=auc, repetitions=repetitions)
        _show(prediction, auc)
        refusal = prediction.refusal or refusal
        if watch_drop is not None:
            refusal = (
                _periods(prediction, len(measured.groups or ()), watch_drop) or refusal
            )
    else:
        several = "several labels" if measured.labels else "more than two classes"
        typer.echo(f"There is no prediction for {several}.")
    if page is not None:
        _write_page(page, chosen, sites=known, auc=auc)
    if refusal is not None:
        typer.echo(f"Do not run: {refusal}.")
        if not anyway:
            raise typer.Exit(1)
    if out is not None:
        out.write_text(planfile.dumps(chosen), encoding="utf-8")
        typer.echo(f"Wrote {out}")


def _followup(
    chosen: Plan, page: Path | None, *, sites: int | None, auc: float
) -> str | None:
    """Print what a plan of time to event tells; return why it is no use, if so."""
    if page is not None:
        raise InputError("--page is of two classes: leave it out for time to event")
    from discreet.report.timed_prediction import (  # noqa: PLC0415 - of these alone
        predict_followup,
    )

    with Progress(console=Console(stderr=True), transient=True) as progress:
        progress.add_task("Predicting errors", total=None)
        prediction = predict_followup(chosen, sites=sites, auc=auc)
    _table(
        f"Predicted errors, if the AUC by {chosen.horizons[-1]:g} is {auc:g}, with "
        f"{prediction.events:.0%} events and {prediction.censoring:.0%} censored by then "
        f"({prediction.examples:,} examples)",
        prediction.errors,
    )
    if prediction.refusal is None and prediction.caution is not None:
        typer.echo(f"Note: {prediction.caution}.")
    return prediction.refusal


def _measured(
    file: ModelFile | None, name: str, digest: str, classes: list[str] | None
) -> ModelRef:
    """Return what the plan says of the model; a file has its own digest."""
    if file is None:
        return ModelRef(name, digest)
    if digest not in ("", file.digest):
        raise InputError(
            f"--model-digest is not the digest of {file.name}: {file.digest}"
        )
    code = LabelCode(classes=None if classes is None else tuple(classes))
    found = ModelRef.of(file, code, called=name)
    many = len(file.inputs)
    typer.echo(
        f"Scored at each site by {file.name}, {file.digest}: {many} columns, output "
        f"{file.output!r}, column {', '.join(map(str, file.columns_for(code)))}, kind "
        f"{file.scores.kind}"
    )
    return found


def _periods(prediction: Prediction, periods: int, drop: float) -> str | None:
    """Print which drop between periods would be seen; say so if it is too large."""
    from discreet.report.drift import detectable_change  # noqa: PLC0415 - as above

    seen = detectable_change(prediction.auc.total, periods)
    typer.echo(
        f"Watched over {periods} periods, an alarm in 5% of quiet series: a drop of the "
        f"AUC by {seen:.3f} in the last one is seen 9 times in 10."
    )
    if seen <= drop:
        return None
    return (
        f"a drop of the AUC by {drop:g} would be missed more often than once in ten; take "
        "longer periods or a larger epsilon"
    )


def _heterogeneity(chosen: Plan) -> str | None:
    """Print what noise leaves of how sites differ; return why it is no use, if so."""
    statistic = chosen.statistic
    if chosen.privacy.protects is None or not isinstance(statistic, SiteSums):
        return None
    typer.echo(f"{float(statistic.share):.0%} of the budget for how sites differ")
    spreads = predicted_spreads(statistic, chosen.privacy, chosen.facts, chosen.cohort)
    for spread in spreads:
        if spread.refusal is not None:
            return f"{spread.title} over the sites: {spread.refusal}"
        typer.echo(
            f"A new site's {spread.title}: its 95% interval reaches "
            f"{spread.reach / spread.reach_without_noise:.2f} times as far as without "
            f"noise (sites that differ by an sd of {spread.usual**0.5:.2f})"
        )
    return None


def _write_page(path: Path, chosen: Plan, *, sites: int | None, auc: float) -> None:
    """Write the page of predictions; it says "do not run" where that is so."""
    from discreet.report.plan_page import plan_page  # noqa: PLC0415 - it loads plots

    if path.suffix != ".html":
        raise InputError("--page is written as .html")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        progress.add_task("Predicting variations", total=None)
        text = plan_page(chosen, sites=sites, auc=auc)
    path.write_text(text, encoding="utf-8")
    typer.echo(f"The page is in {path}")


def _plannable(model: PrivacyModel, bins: int | None) -> PrivacyModel:
    """Refuse a model that no plan can hold, and name the alternative."""
    if instead := PROTOCOLS[model.carried_by].instead_of_a_plan:
        raise InputError(instead)
    if model.needs_edges and bins is None:
        raise InputError(
            "under label privacy the scores are public, and so is how many bins suit "
            "them: give --bins, for instance 32, and --mechanism response or binned; "
            "or choose --mechanism choice for the AUC alone"
        )
    return model


def _roster(sites: list[str], coordinator: str | None) -> Roster | None:
    if not sites:
        if coordinator is not None:
            raise InputError("--coordinator belongs to a roster: name its --site too")
        return None
    members = []
    for text in sites:
        name, equals, key = text.partition("=")
        if not equals:
            raise PlanError("--site is written NAME=ed25519:KEY")
        members.append(Member(name, key_from_text(key)))
    key_of = None if coordinator is None else key_from_text(coordinator)
    return Roster(tuple(members), key_of)


def _describe(chosen: Plan) -> None:
    for i, r in enumerate(chosen.rounds, start=1):
        where = counted_in(r.statistic) or r.statistic.name
        typer.echo(f"Round {i}: {where}, {r.statistic.size:,} counts from each site")
    unit = chosen.privacy.protects
    promise = str(chosen.privacy.loss)
    typer.echo(promise if unit is None else f"{promise} for {unit}")
    if (alone := chosen.lone_examples()) is not None:
        typer.echo(f"Without noise: {alone}.")


def _show(prediction: Prediction, auc: float) -> None:
    errors = {METRICS[name].title: e for name, e in prediction.errors.items()}
    _table(
        f"Predicted errors, if the AUC is {auc:g} at prevalence "
        f"{prediction.prevalence:g} ({prediction.group_examples:,} examples)",
        errors,
        ("ROC curve, area between", "", "", _error(prediction.roc_area)),
    )
    if prediction.refusal is None and prediction.caution is not None:
        typer.echo(f"Note: {prediction.caution}.")


def _table(
    title: str, errors: Mapping[str, PredictedError], *more: tuple[str, ...]
) -> None:
    table = Table(title=title)
    for heading in ("", "expected", "sampling", "noise"):
        table.add_column(heading)
    for name, e in errors.items():
        table.add_row(name, f"{e.value:.4f}", _error(e.sampling), _error(e.noise))
    for row in more:
        table.add_row(*row)
    Console().print(table)


def _error(size: float) -> str:
    return "no result" if math.isnan(size) else f"{size:.4f}"
