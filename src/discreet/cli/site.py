"""``discreet site``: take part in a plan with a site's data."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from discreet.cli import files
from discreet.cli.preview import Confirmed, asking
from discreet.codec.parsing import read_text
from discreet.data.scoring import digest_of
from discreet.errors import InputError, MissingExtraError
from discreet.failures import EXIT_INTERRUPTED
from discreet.plan.file import loads
from discreet.session import policy as policyfile
from discreet.session.board import EventLog
from discreet.session.checkup import Finding, check_writable, examine, failures, require
from discreet.session.messages import Ending, Kind, Message
from discreet.session.retrying import WAIT_SECONDS
from discreet.transport.doctor import SiteDoctor
from discreet.transport.joining import JoiningSite
from discreet.transport.keys import LEDGER, POLICY, SiteKeys

if TYPE_CHECKING:
    from discreet.transport.https.client import HttpsSite

Rehearse: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--rehearse",
        help="Try everything with made-up data: nobody is charged, and the result says "
        "so. Coordinator and sites say it, or none of them.",
    ),
]
LogFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Append what happens, as JSON lines without data, to this file."),
]


SiteFolder: TypeAlias = Annotated[
    Path,
    typer.Option(
        help="This site's folder, as `discreet join` made it: keys, policy, ledger."
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Where the coordinator listens, as host:port; by default as its public "
        "file says."
    ),
]
Authority: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Whose certificates are trusted: a file of certificates, or 'system' for "
        "those of this machine; by default the coordinator's own."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Joining:
    """Options: what a site brings to a session, and where the coordinator is."""

    plan: files.PlanFile
    keys: SiteFolder
    policy: Annotated[
        Path | None,
        typer.Option(help="What this site allows; by default policy.toml in --keys."),
    ] = None
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger; by default ledger.sqlite beside the policy."),
    ] = None
    coordinator: Address = None
    authority: Authority = None
    confirmed: Confirmed = False

    def doctor(self, rows: files.Rows) -> SiteDoctor:
        """Return the checks of all of it, with the data."""
        policy = self.policy or self.keys / POLICY
        return SiteDoctor(
            lambda: files.read_plan(self.plan),
            lambda: policyfile.load(policy),
            rows.read,
            self.keys,
            self.ledger or policy.with_name(LEDGER),
            https_site(self.authority),
            self.coordinator,
            asking(self.confirmed),
        )


def site(
    joins: Joining,
    rows: files.Rows,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a message of the coordinator.")
    ] = WAIT_SECONDS,
    log: LogFile = None,
    rehearse: Rehearse = False,
) -> None:
    """Take part in a plan with this site's data, once.

    Exits with 0 when the result was revealed, with 1 when the session was aborted or
    this site declined, and with 2 when it could not take part or never heard how it
    ended. Started again after a crash, it resumes. The checks of `discreet site
    doctor` run first.
    """
    # Being ended by pid leaves as cleanly as by the keyboard.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    looked = joins.doctor(rows)
    checks = looked.checks(connect=False, charged=not rehearse)
    require(examine([*checks, ("log", lambda: check_log(log))]), _tell)
    agreed, note, coordinator = looked.plan(), EventLog(log), looked.address
    if rehearse:
        _tell("REHEARSAL: made-up data is sent, yours is not; nothing is charged.")
    protocol = agreed.protocol
    steps = protocol.steps(agreed)

    def answered(answer: Message, number: int) -> None:
        place = f"step {number} of {len(steps)}"
        if answer.kind is Kind.STEP:
            rounds = f"round {answer.round + 1}, " if answer.round else ""
            title = protocol.titles[steps[min(number, len(steps)) - 1]]
            size = len(answer.encode())
            _tell(f"{rounds}{place}, {title}: {size:,} bytes")
            note("step", step=number, of=len(steps), round=answer.round + 1, bytes=size)
        else:
            note("declined", step=number, of=len(steps), round=answer.round + 1)

    def connection(text: str) -> None:
        _tell(text)
        note("connection", text=text)

    joining = JoiningSite(
        agreed,
        looked.examples(agreed),
        looked.policy(),
        looked.ledger,
        SiteKeys(joins.keys),
        answered=answered,
        tell=connection,
        note=_tell,
        rehearse=rehearse,
    )
    _tell(f"Waiting for {coordinator}: plan {agreed.digest().hex()[:16]}")
    note("started", plan=agreed.digest().hex(), coordinator=coordinator)
    try:
        ended = joining.join(
            looked.runtime, coordinator, wait_seconds=wait, checked=True
        )
    except KeyboardInterrupt:
        _tell(f"Interrupted; {joining.standing()}.")
        sys.exit(EXIT_INTERRUPTED)  # nothing more is said
    note("ended", how=ended.ending.name.lower(), declined=ended.declined)
    if ended.declined:
        _tell(f"This site declined, see above; {ended.ending.sentence}.")
    elif ended.ending is Ending.REVEALED:
        _tell(f"Done: {ended.ending.sentence}.")
    else:
        charge = "what was charged stays charged, see `discreet ledger show`"
        if not ended.charged:
            charge = "nothing was charged"
        _tell(f"Aborted: {ended.ending.sentence}; {charge}.")
    if ended.declined or ended.ending is not Ending.REVEALED:
        raise typer.Exit(1)


def doctor(joins: Joining, rows: files.Rows) -> None:
    """Check everything that could fail when this site joins.

    Takes the arguments of `discreet site` and changes nothing. Prints no row of the
    data, and for the operator alone how many examples and positives there are and
    their AUC; exits with 1 when something must be fixed or confirmed.
    """
    show_findings(examine(joins.doctor(rows).checks(connect=True)))


def fetch(
    keys: SiteFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the plan goes.")],
    model: Annotated[
        Path | None,
        typer.Option(help="Fetch the plan's model file too, and where it goes."),
    ] = None,
    coordinator: Address = None,
    authority: Authority = None,
) -> None:
    """Fetch the plan that the coordinator runs, to read before taking part.

    Only a site of its roster gets it. Nothing is agreed to: `discreet site` takes the
    file that you have read. A model file that is not the plan's is not kept; which models
    may be run here is said by this site's policy, by their digests.
    """
    for path in (out, model):
        if path is not None and path.exists():
            raise InputError(f"{path} is there already: name another file")
    own = SiteKeys(keys)
    address = coordinator or own.coordinator().address
    runtime = https_site(authority)
    text = runtime.fetch_plan(own, address)
    plan = loads(text)
    raw = b""
    if model is not None:
        if plan.model.scoring is None:
            raise InputError("the plan names no model file: leave out --model")
        raw = runtime.fetch_model(own, address)
        if digest_of(raw) != plan.model.digest:
            raise InputError(
                "the coordinator serves another model file than the plan names: nothing "
                "was kept"
            )
    out.write_text(text, encoding="utf-8")
    typer.echo(f"{out} is plan {plan.digest().hex()[:32]}; read it: discreet preview")
    if model is not None:
        model.write_bytes(raw)
        typer.echo(f"{model} is the plan's model file, {plan.model.digest}")


def show_findings(findings: list[Finding]) -> None:
    """Print the findings of a doctor; exit with 1 when something must be fixed."""
    for finding in findings:
        typer.echo(str(finding))
    failed = failures(findings)
    if failed:
        typer.echo(f"{len(failed)} of {len(findings)} checks fail.")
        raise typer.Exit(1)
    typer.echo("Nothing stands in the way.")


def check_log(path: Path | None) -> str:
    """Refuse a log that could not be written."""
    if path is not None:
        check_writable(path)
    return "it can be written" if path is not None else "none was asked"


def https_site(authority: str | None) -> HttpsSite:
    """Load what reaches a coordinator, for whoever runs a session."""
    try:
        from discreet.transport.https.client import HttpsSite  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_deploy(error) from error
    return HttpsSite(authority)


def missing_deploy(error: ModuleNotFoundError) -> Exception:
    """Return what to say where the extra of deployed sessions is not installed."""
    if (error.name or "discreet").split(".")[0] == "discreet":
        return error
    return MissingExtraError("a deployed session", "deploy")


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def own(
    plan: files.PlanFile,
    result: Annotated[
        Path,
        typer.Option(help="The revealed result: the coordinator's JSON file."),
    ],
    rows: files.Rows,
) -> None:
    """Compare this site's own values with the revealed result; nothing leaves.

    For plans that were made with `--heterogeneity`. Nothing is charged or sent.
    """
    from discreet.report.heterogeneity import own_view  # noqa: PLC0415 - of this alone

    agreed = files.read_plan(plan)
    try:
        revealed = json.loads(read_text(result, "a result"))
    except ValueError:
        raise InputError(f"{result.name} is no JSON file") from None
    if not isinstance(revealed, dict):
        raise InputError("this file is no result of discreet, as JSON")
    for line in own_view(agreed, rows.read(agreed), revealed):
        typer.echo(line)
