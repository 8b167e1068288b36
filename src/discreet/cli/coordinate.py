"""``discreet coordinate``: run a plan over the sites that connect."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from discreet.cli.files import Output, PlanFile, read_plan
from discreet.cli.site import LogFile, Rehearse, missing_deploy, show_findings
from discreet.codec.parsing import shown
from discreet.data.scoring import digest_of, file_bytes
from discreet.errors import InputError
from discreet.failures import EXIT_INTERRUPTED
from discreet.privacy.account import RETENTION_DAYS
from discreet.session.board import EventLog
from discreet.session.checkup import examine, require
from discreet.session.retrying import STEP_SECONDS, WAIT_SECONDS
from discreet.transport.doctor import CoordinatorDoctor
from discreet.transport.keys import PORT, CoordinatorKeys

if TYPE_CHECKING:
    from discreet.session.board import Board
    from discreet.transport.https.server import HttpsCoordinator

CoordinatorFolder: TypeAlias = Annotated[
    Path, typer.Option(help="Folder of the coordinator's keys.")
]
Host: TypeAlias = Annotated[str, typer.Option(help="Address to listen at.")]
Port: TypeAlias = Annotated[int, typer.Option(help="Port to listen at.")]
StateFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Where the session is saved, sealed; by default beside the keys."
    ),
]
Unauthenticated: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--unauthenticated",
        help="Run a plan without a roster; the claim says so. Not for exact sums.",
    ),
]


BehindProxy: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--behind-proxy",
        help="Speak plain HTTP: a reverse proxy in front of this port ends TLS.",
    ),
]


ServeModel: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="The model file that the plan names: sites may fetch it from this port."
    ),
]


def coordinate(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: PlanFile,
    keys: CoordinatorFolder,
    output: Output,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the sites to connect.")
    ] = WAIT_SECONDS,
    step: Annotated[
        float, typer.Option(help="Seconds that each step waits for a site.")
    ] = STEP_SECONDS,
    state: StateFile = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Drop an interrupted session of this plan."),
    ] = False,
    unauthenticated: Unauthenticated = False,
    behind_proxy: BehindProxy = False,
    serve_model: ServeModel = None,
    log: LogFile = None,
    rehearse: Rehearse = False,
) -> None:
    """Run a plan over the sites that connect, and print the evaluation.

    The session is saved after each step. After an interruption the same command
    resumes it without a second charge, while the sites wait. Exits with 1 when the
    session was aborted, or waits for signatures. The checks of `discreet coordinate
    doctor` run first.
    """
    # Only whoever runs a session pays for loading what evaluates it.
    from discreet.session.board import Board as Drawn  # noqa: PLC0415
    from discreet.session.coordinator import (  # noqa: PLC0415
        AbortedError,
        UnfinishedError,
    )
    from discreet.transport import coordinating  # noqa: PLC0415

    runtime = _port(behind_proxy, _served(serve_model, plan))
    files, folders = output.files(state, log), output.folders()
    findings = examine(
        CoordinatorDoctor(
            lambda: read_plan(plan),
            keys,
            host,
            port,
            files,
            folders,
            unauthenticated,
            runtime.tls,
        ).checks()
    )
    require(findings, _tell)
    for finding in findings:
        if finding.state == "note":
            _tell(finding.text)
    agreed, folder = read_plan(plan), CoordinatorKeys(keys)
    if rehearse:
        agreed = agreed.rehearsed()
        _tell("REHEARSAL: the sites send made-up data, and nobody is charged.")
    _purge(folder, RETENTION_DAYS, _tell)
    saved = coordinating.saved_session(agreed, folder, state)
    if fresh:
        saved.discard()
    elif saved.path.exists():
        _tell(f"Going on with the session in {saved.path}; --fresh drops it.")
    # Being ended by pid leaves as cleanly as by the keyboard.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    note = EventLog(log)
    note("started", plan=agreed.digest().hex(), host=host, port=port)
    with Live(console=Console(stderr=True), transient=True) as live:
        drawn = live.console.is_terminal

        def board(names: Mapping[int, str]) -> Board:
            return Drawn(
                names,
                live.console.out if drawn else _tell,
                note,
                (lambda board: live.update(_table(board)))
                if drawn
                else (lambda _: None),
            )

        try:
            result = coordinating.coordinate(
                agreed,
                folder,
                runtime,
                host=host,
                port=port,
                wait_seconds=wait,
                step_seconds=step,
                board=board,
                saved=saved,
                unauthenticated=unauthenticated,
            )
        except AbortedError as error:
            _tell(f"Aborted: {error}.")
            raise typer.Exit(1) from error
        except UnfinishedError as error:
            _tell(f"Not finished: {error}.")
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            _tell(
                "Interrupted: run the same command again to go on; nobody is charged twice."
            )
            sys.exit(EXIT_INTERRUPTED)  # nothing more is said
    output.write(result, sign=folder.identity().sign)
    saved.discard()  # not before somebody has the result


def doctor(
    plan: PlanFile,
    keys: CoordinatorFolder,
    output: Output,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    state: StateFile = None,
    unauthenticated: Unauthenticated = False,
    behind_proxy: BehindProxy = False,
) -> None:
    """Check everything that could fail when the coordinator starts.

    Takes the arguments of `discreet coordinate`; exits with 1 when something must be
    fixed.
    """
    tls = _port(behind_proxy).tls
    files, folders = output.files(state), output.folders()
    looked = CoordinatorDoctor(
        lambda: read_plan(plan), keys, host, port, files, folders, unauthenticated, tls
    )
    show_findings(examine(looked.checks()))


def purge(
    keys: CoordinatorFolder,
    days: Annotated[
        int, typer.Option(min=0, help="Sessions that were left so long ago.")
    ] = RETENTION_DAYS,
) -> None:
    """Delete saved sessions that nobody went on with.

    They cannot be resumed then. `discreet coordinate` deletes those of 30 days by
    itself, and each session when its result is written or it was aborted.
    """
    deleted = _purge(CoordinatorKeys(keys), days, typer.echo)
    typer.echo(f"{deleted} saved sessions were deleted.")


def _purge(keys: CoordinatorKeys, days: int, tell: Callable[[str], None]) -> int:
    from discreet.transport.coordinating import purge_sessions  # noqa: PLC0415

    deleted = purge_sessions(keys, days)
    for path in deleted:
        tell(f"Deleted {path.name}: nobody went on with it for {days} days.")
    return len(deleted)


def _served(model: Path | None, plan: Path) -> bytes | None:
    """Return the model file that is served: the plan's, and no other."""
    if model is None:
        return None
    raw, digest = file_bytes(model), read_plan(plan).model.digest
    if digest_of(raw) != digest:
        raise InputError(
            f"{model.name} is another file than the plan's: its digest is "
            f"{digest_of(raw)}, the plan's is {digest or 'none'}"
        )
    return raw


def _port(behind_proxy: bool, model: bytes | None = None) -> HttpsCoordinator:
    """Load what serves a coordinator's port."""
    try:
        from discreet.transport.https.server import HttpsCoordinator  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_deploy(error) from error
    return HttpsCoordinator(tls=not behind_proxy, model=model)


def _table(board: Board) -> Table:
    """Draw who is where."""
    table = Table(title=Text(shown(board.heading)), box=None, show_header=False)
    for name, status in board.status.items():
        table.add_row(Text(shown(name)), Text(status))
    return table


def _tell(text: str) -> None:
    typer.echo(text, err=True)
