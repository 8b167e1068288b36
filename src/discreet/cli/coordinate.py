"""``discreet coordinate``: run a plan over the sites that connect."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from discreet.cli.files import (
    JsonFile,
    PlotFolder,
    ReportFile,
    Wide,
    read_plan,
    write_result,
)
from discreet.cli.site import PORT, missing_flower
from discreet.runtime.delivery import STEP_SECONDS, WAIT_SECONDS
from discreet.runtime.flower.keys import CoordinatorKeys


def coordinate(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: Annotated[Path, typer.Argument(help="The plan that was agreed on.")],
    keys: Annotated[Path, typer.Option(help="Folder of the coordinator's keys.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.")] = PORT,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the sites to connect.")
    ] = WAIT_SECONDS,
    step: Annotated[
        float, typer.Option(help="Seconds that each step waits for a site.")
    ] = STEP_SECONDS,
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
    # Only whoever runs a session pays for loading Flower.
    try:
        from discreet.runtime.flower import deploy  # noqa: PLC0415
        from discreet.runtime.session import AbortedError, Step  # noqa: PLC0415
    except ModuleNotFoundError as err:
        raise missing_flower(err) from err
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
    write_result(result, wide=wide, json=json, report=report, plots=plots)
    saved.discard()  # not before somebody has the result
