"""``discreet site``, ``coordinate`` and ``consortium``: a consortium over Flower."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from discreet.cli.choices import Wide
from discreet.cli.files import (
    GroupColumn,
    JsonFile,
    LabelColumn,
    PlotFolder,
    PositiveLabel,
    ReportFile,
    ScoreColumns,
    SubjectColumn,
    read_for,
    read_plan,
    write_result,
)
from discreet.cli.keys import show_roster, write_example_policy
from discreet.errors import MissingExtraError
from discreet.plan.file import dumps
from discreet.runtime.flower.keys import CoordinatorKeys, SiteKeys, make_consortium
from discreet.runtime.session import AbortedError, Step
from discreet.site import policyfile
from discreet.site.letters import Ending, Kind, Letter

_PORT = 9443

app = typer.Typer(no_args_is_help=True, help="Run a plan across separate sites.")


def _deploy() -> ModuleType:
    """Load Flower only for the commands that need it: it takes a second."""
    try:
        from discreet.runtime.flower import deploy  # noqa: PLC0415
    except ModuleNotFoundError as err:
        if (err.name or "").split(".")[0] != "flwr":
            raise
        raise MissingExtraError("joining a federation", "flower") from err
    return deploy


@app.command()
def consortium(
    folder: Annotated[
        Path, typer.Argument(help="Gets one folder a site and the coordinator's.")
    ],
    site: Annotated[list[str], typer.Option(help="Name of a site; repeat for each.")],
    host: Annotated[
        list[str],
        typer.Option(help="Name or address of the coordinator; repeat for more."),
    ] = ["127.0.0.1", "localhost"],  # noqa: B006 - typer copies it
    plan: Annotated[
        Path | None,
        typer.Option(help="Write the roster of these sites into this plan."),
    ] = None,
) -> None:
    """Rehearse: make everybody's keys, certificates and policies in one place.

    In a real consortium each site makes its own: `discreet keys new`.
    """
    agreed = None if plan is None else read_plan(plan)
    roster = make_consortium(folder, site, hosts=host)
    for member in roster.sites:
        place = folder / member.name
        write_example_policy(place, member.name, roster.coordinator or b"")
    signed = None if agreed is None else replace(agreed, roster=roster)
    show_roster(signed, roster)
    if plan is not None and signed is not None:
        plan.write_text(dumps(signed), encoding="utf-8")
        typer.echo(f"The roster is in {plan}; send it to every site.")
    typer.echo(
        "This is a rehearsal: one machine made, and has seen, everybody's keys. For "
        "real data each site runs `discreet keys new` at home."
    )


@app.command()
def site(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: Annotated[Path, typer.Argument(help="The plan that was agreed on.")],
    scores: Annotated[
        Path, typer.Argument(help="Parquet or CSV file of scored examples.")
    ],
    policy: Annotated[Path, typer.Option(help="What this site allows.")],
    keys: Annotated[Path, typer.Option(help="Folder of this site's keys.")],
    coordinator: Annotated[
        str, typer.Option(help="Where the coordinator listens, as host:port.")
    ] = f"127.0.0.1:{_PORT}",
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger; by default beside the policy."),
    ] = None,
    score: ScoreColumns = ["y_score"],  # noqa: B006 - typer copies it
    label: LabelColumn = "y_true",
    positive: PositiveLabel = None,
    group: GroupColumn = None,
    subject: SubjectColumn = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a word of the coordinator.")
    ] = 300.0,
) -> None:
    """Take part in a plan with this site's data, once.

    Exits with 0 when the result was opened, with 1 when the session was aborted or
    this site declined, and with 2 when it could not take part or never heard how it
    ended. Started again after a crash, it goes on where it was.
    """
    deploy = _deploy()
    deploy.quiet()
    # Being ended by pid leaves as cleanly as by the keyboard: Flower ends too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    agreed = read_plan(plan)
    joining = deploy.JoiningSite(
        agreed,
        read_for(
            agreed,
            scores,
            score,
            label,
            positive=positive,
            group=group,
            subject=subject,
        ),
        policyfile.load(policy),
        ledger or policy.with_name("ledger.sqlite"),
        SiteKeys(keys),
        answered=_show_answer,
    )
    joining.check()
    typer.echo(
        f"Waiting for {coordinator}: plan {agreed.digest().hex()[:16]}", err=True
    )
    ended = joining.join(coordinator, wait_seconds=wait)
    if ended.declined:
        typer.echo(f"This site declined, see above; {ended.ending.sentence}.", err=True)
    elif ended.ending is Ending.OPENED:
        typer.echo(f"Done: {ended.ending.sentence}.", err=True)
    else:
        typer.echo(
            f"Aborted: {ended.ending.sentence}; what was charged stays charged.",
            err=True,
        )
    if ended.declined or ended.ending is not Ending.OPENED:
        raise typer.Exit(1)


def _show_answer(answer: Letter) -> None:
    if answer.kind is Kind.STEP:
        size = len(answer.encode())
        typer.echo(f"round {answer.round + 1}: sent {size:,} bytes", err=True)


@app.command("coordinate")
def coordinate_command(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: Annotated[Path, typer.Argument(help="The plan that was agreed on.")],
    keys: Annotated[Path, typer.Option(help="Folder of the coordinator's keys.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.")] = _PORT,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the sites to connect.")
    ] = 300.0,
    step: Annotated[
        float, typer.Option(help="Seconds that each step waits for a site.")
    ] = 60.0,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Where the session is saved, sealed; by default beside the keys."
        ),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Drop an interrupted session of this plan."),
    ] = False,
    unauthenticated: Annotated[
        bool,
        typer.Option(
            "--unauthenticated",
            help="Run a plan without a roster; the claim says so.",
        ),
    ] = False,
    wide: Wide = False,
    json: JsonFile = None,
    plots: PlotFolder = None,
    report: ReportFile = None,
) -> None:
    """Run a plan over the sites that connect, and print the evaluation.

    The session is saved after each step. When this command was interrupted, the
    same command goes on with it, while the sites wait: nobody pays twice. Exits
    with 1 when the session was aborted.
    """
    deploy = _deploy()
    deploy.quiet()
    agreed, folder = read_plan(plan), CoordinatorKeys(keys)
    warning = folder.check_dates()
    if warning is not None:
        typer.echo(warning, err=True)
    saved = deploy.saved_session(agreed, folder, state)
    if fresh:
        saved.discard()
    elif saved.path.exists():
        typer.echo(
            f"Going on with the session in {saved.path}; --fresh drops it.", err=True
        )
    # Being ended by pid leaves as cleanly as by the keyboard: Flower ends too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("Waiting for the sites")

        def watch(done: Step) -> None:
            declined = f", {done.declined} declined" if done.declined else ""
            text = (
                f"round {done.round + 1}, {done.name}: {done.answered} of {done.asked} "
                f"sites{declined}"
            )
            progress.update(task, description=text)
            progress.console.print(text)

        try:
            result = deploy.coordinate(
                agreed,
                folder,
                host=host,
                port=port,
                wait_seconds=wait,
                step_seconds=step,
                watch=watch,
                saved=saved,
                unauthenticated=unauthenticated,
            )
        except AbortedError as error:
            typer.echo(f"Aborted: {error}.", err=True)
            raise typer.Exit(1) from error
    identity = folder.identity()
    write_result(
        result,
        wide=wide,
        json=json,
        report=report,
        plots=plots,
        sign=None if identity is None else identity.sign,
    )
    saved.discard()  # not before somebody has the result
