"""``discreet exact``: exact areas by three compute parties, as separate processes."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from discreet.data.file_format import FileFormat
from discreet.data.sources import read
from discreet.data.tables import is_address
from discreet.entropy import SYSTEM
from discreet.errors import InputError, PlanError
from discreet.mpc.clients import Owner, collect, costs, revealed_areas, send_packages
from discreet.mpc.evaluate import evaluation_of
from discreet.mpc.fleet import run_demo
from discreet.mpc.model import ExactMPC
from discreet.mpc.party import run_party
from discreet.mpc.session import Address, MpcSession, OwnerEntry, PartyEntry
from discreet.mpc.transport import (
    EXIT_SESSION,
    VALID_DAYS,
    MemberIdentity,
    SessionFailedError,
    default_names,
    make_certificates,
)
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile

DEFAULT_TIMEOUT: Final = 60.0

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would show data
    help="Exact AUC, average precision and AUPR by three compute parties.",
)

SessionFile = Annotated[
    Path, typer.Argument(metavar="SESSION", help="The session's TOML file.")
]
Certificates = Annotated[
    Path,
    typer.Option(help="Folder with ca.crt and this member's NAME.crt and NAME.key."),
]
Timeout = Annotated[
    float,
    typer.Option(min=1.0, help="Seconds without a sign of life that end the session."),
]
Score = Annotated[str, typer.Option("--score", "--y-score", help="Column of scores.")]
Label = Annotated[
    str, typer.Option("--label", "--y-true", help="Column of true labels.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Between two cells of a text file; else the header's."),
]
Decimal = Annotated[str, typer.Option(help="Before the decimals: '.' or ','.")]
Thousands = Annotated[
    str | None, typer.Option(help="What groups the digits of large numbers.")
]
Encoding = Annotated[
    str | None, typer.Option(help="How letters are written, such as latin-1.")
]
Percent = Annotated[bool, typer.Option("--percent", help="Scores are percents.")]
Sheet = Annotated[str | None, typer.Option(help="The sheet of a workbook.")]
_SETTLED: Final = frozenset({"kind", "classes"})
"""What a session says of all owners' rows."""
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]


@app.callback()
def _root() -> None:
    """Exact AUC, average precision and AUPR by three compute parties.

    Exit codes: 0 done; 2 something given to this process is wrong, nothing was
    sent; 3 the session failed here or elsewhere, nothing was revealed.
    """


@contextmanager
def _failing_clearly() -> Iterator[None]:
    """End a failed session with one sentence and exit code 3."""
    try:
        yield
    except SessionFailedError as err:
        typer.echo(f"discreet: {err}; nothing was revealed", err=True)
        raise typer.Exit(EXIT_SESSION) from None


def _reporter(*, quiet: bool) -> Callable[[str], None]:
    def report(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    return report


@app.command()
def certificates(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    parties: Annotated[int, typer.Option(min=3, max=3, help="Compute parties.")] = 3,
    owners: Annotated[int, typer.Option(min=1, max=1000, help="Data owners.")] = 2,
    days: Annotated[int, typer.Option(min=1, help="How long they hold.")] = VALID_DAYS,
) -> None:
    """Make a test authority and a certificate for every member of a session.

    The names are party-0 to party-2, owner-1 and so on, and analyst. Give each
    member ca.crt and its own two files. A real consortium signs its own.
    """
    del parties  # always three; the option says so
    names = default_names(owners)
    make_certificates(folder, names, days=days)
    typer.echo(f"{folder}/ holds ca.crt and certificates for {', '.join(names)}")


@app.command()
def session(  # noqa: PLR0913 - one keyword an option
    file: Annotated[Path, typer.Argument(help="The TOML file to write.")],
    *,
    party: Annotated[
        list[str],
        typer.Option(help="HOST:INTAKE_PORT:LINK_PORT of a party; three times."),
    ],
    owner: Annotated[
        list[str], typer.Option(help="NAME:ROWS of an owner; repeat for each.")
    ],
    scores: Annotated[
        str, typer.Option(help="What the scores are: probability or logit.")
    ] = "probability",
    ties: Annotated[
        str, typer.Option(help="exact; or none, cheaper, for scores without ties.")
    ] = "exact",
    hide_sizes: Annotated[
        bool, typer.Option("--hide-sizes", help="ROWS are padded sizes.")
    ] = False,
    epsilon: Annotated[
        str | None, typer.Option(help="Reveal only an AUC with noise of this loss.")
    ] = None,
    interval: Annotated[
        bool,
        typer.Option(help="Reveal the positives and two sums too, for an interval."),
    ] = True,
    model: Annotated[
        str, typer.Option(help="Which classifier is measured, for owners' policies.")
    ] = "",
) -> None:
    """Write a fresh session; everybody gets the same file, for one run."""
    if file.exists():
        raise InputError(f"{file} exists; a session is used once, name a new file")
    fresh = MpcSession.fresh(
        [_party(f"party-{i}", text) for i, text in enumerate(party)],
        [_owner(text) for text in owner],
        ExactMPC(ties, hide_sizes, epsilon, None if interval else False),  # type: ignore[arg-type]
        entropy=SYSTEM,
        scores=scores,
        measured=model,
    )
    file.write_text(fresh.to_toml(), encoding="utf-8")
    typer.echo(f"{file}: session {fresh.id}, {fresh.rows:,} rows")


@app.command(name="compile")
def compile_session(
    file: SessionFile,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
) -> None:
    """Compile a session's program ahead of time; sessions of equal sizes share it."""
    program = MpcSession.read(file).program()
    executable = program.compile()
    out.write_bytes(executable)
    typer.echo(f"{out}: sha256 {program.digest(executable).hex()}")


@app.command()
def party(
    file: SessionFile,
    name: Annotated[str, typer.Option(help="This party's name in the session.")],
    certificates: Certificates,
    executable: Annotated[
        Path | None,
        typer.Option(help="What `compile` wrote for this session; else it compiles."),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    quiet: Quiet = False,
) -> None:
    """Be one of the three compute parties, for one session."""
    terms = MpcSession.read(file)
    identity = MemberIdentity.within(certificates, name)
    with _failing_clearly():
        run_party(
            terms,
            identity,
            timeout=timeout,
            report=_reporter(quiet=quiet),
            executable=executable,
        )


@app.command()
def owner(  # noqa: PLR0913, PLR0917 - one option a choice
    file: SessionFile,
    data: Annotated[Path, typer.Argument(help="Parquet or CSV file of scored rows.")],
    name: Annotated[str, typer.Option(help="This owner's name in the session.")],
    certificates: Certificates,
    policy: Annotated[Path, typer.Option(help="What this owner allows.")],
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger; by default beside the policy."),
    ] = None,
    score: Score = "y_score",
    label: Label = "y_true",
    positive: Annotated[
        str | None, typer.Option(help="The positive label, when not 0/1.")
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    encoding: Encoding = None,
    percent: Percent = False,
    sheet: Sheet = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    quiet: Quiet = False,
) -> None:
    """Share a file's rows among the three parties, and leave.

    The session is compared with the policy and charged to the ledger first. The file
    is checked before anything is sent: labels 0/1, scores in range, as many rows as
    the session says. Shares leave once per session.
    """
    terms = MpcSession.read(file)
    identity = MemberIdentity.within(certificates, name)
    rules = policyfile.load(policy)

    if is_address(data):
        raise InputError("exact areas are of a file of rows: export the table first")
    # The header is read now, before anything is charged; rows are read after it.
    examples = read(
        data,
        score=score,
        label=label,
        positive=positive,
        kind=terms.plan.facts.scores.kind,
        delimiter=delimiter,
        decimal=decimal,
        thousands=thousands,
        encoding=encoding,
        percent=percent,
        sheet=sheet,
    )
    examples.settled = _SETTLED

    path = ledger or policy.with_name("ledger.sqlite")
    with Ledger(path, limits=rules.limits()) as account:
        member = Owner(terms, name, rules, account, lambda: examples)
        packages, permit = member.answer(entropy=SYSTEM)
        with _failing_clearly():
            send_packages(
                terms,
                identity,
                [package.encode() for package in packages],
                timeout=timeout,
                report=_reporter(quiet=quiet),
                leaving=lambda: member.leaving(permit, packages),
            )


@app.command(name="open")
def open_result(
    file: SessionFile,
    certificates: Certificates,
    name: Annotated[str, typer.Option(help="The analyst's name.")] = "analyst",
    prevalence: Annotated[
        float | None,
        typer.Option(help="Public: roughly which share of the rows is positive."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write every number to this JSON file.")
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    quiet: Quiet = False,
) -> None:
    """Be the analyst: wait for the parties, and reveal the result."""
    terms = MpcSession.read(file)
    if name != terms.analyst:
        raise InputError(f"the session's analyst is {terms.analyst!r}")
    identity = MemberIdentity.within(certificates, name)
    with _failing_clearly():
        results = collect(
            terms, identity, timeout=timeout, report=_reporter(quiet=quiet)
        )
    facts = replace(terms.plan.facts, prevalence=prevalence)
    evaluation = evaluation_of(
        replace(terms.plan, facts=facts),
        revealed_areas(results),
        session=terms.digest,
        setting="deployed",
    )
    typer.echo(evaluation.to_text())
    if json is not None:
        document = evaluation.exports.to_dict() | {"costs": costs(results)}
        json.write_text(jsonlib.dumps(document, indent=1), encoding="utf-8")


@app.command()
def demo(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="One file an owner; synthetic data without."),
    ] = None,
    score: Score = "y_score",
    label: Label = "y_true",
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    encoding: Encoding = None,
    percent: Percent = False,
    sheet: Sheet = None,
    hide_sizes: Annotated[
        bool, typer.Option("--hide-sizes", help="Pad every owner's rows.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Run three parties, the owners and an analyst on this machine, as processes."""
    with _failing_clearly():
        typer.echo(
            run_demo(
                files or [],
                score=score,
                label=label,
                model=ExactMPC(hide_sizes=hide_sizes),
                timeout=timeout,
                report=_reporter(quiet=False),
                written=FileFormat(
                    delimiter=delimiter,
                    decimal=decimal,
                    thousands=thousands,
                    encoding=encoding,
                    percent=percent,
                    sheet=sheet,
                ),
            )
        )


def _party(name: str, text: str) -> PartyEntry:
    host, _, link = text.rpartition(":")
    intake = Address.parse(host)
    return PartyEntry(name, intake, Address.parse(f"{intake.host}:{link}"))


def _owner(text: str) -> OwnerEntry:
    name, _, rows = text.rpartition(":")
    if not rows.isdecimal():
        raise PlanError("an owner is NAME:ROWS")
    return OwnerEntry(name, int(rows))
