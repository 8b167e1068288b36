"""``discreet collect`` and ``discreet phone``: reports of phones and browsers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from discreet.cli.files import InDatabase, Output, PlanFile, read_plan
from discreet.cli.main import with_option_groups
from discreet.errors import InputError
from discreet.optional import load

app = typer.Typer(no_args_is_help=True)


def collect(
    plan: PlanFile,
    reports: Annotated[
        str,
        typer.Argument(
            help="The reports: a Parquet or CSV file, a folder of Parquet files, a DuckDB "
            "or SQLite file, or a database's address.",
            show_default=False,
        ),
    ],
    database: InDatabase,
    output: Output,
    id_column: str = "id",
    symbol_column: str = "symbol",
    plan_column: str = "plan",
) -> None:
    """Count the reports of phones and browsers, and print the evaluation.

    Each id counts once. Rows of other plans, rows that are no reports, and ids with
    different symbols are left out; a line says how many. Exits with 2 when there are
    fewer reports than the plan's min_survivors.

    Options:
        id_column: Column of the reports' random ids.
        symbol_column: Column of the private symbols.
        plan_column: Column of the plans' digests, their first 16 digits; without a
            column "plan" all rows are taken to be of this plan.
    """
    from discreet.data.client_reports import ReportColumns  # noqa: PLC0415 - slow
    from discreet.transport import collecting  # noqa: PLC0415 - it loads estimators

    agreed = read_plan(plan)
    with Console(stderr=True).status("Counting the reports"):
        result, counted = collecting.collect(
            agreed,
            reports,
            columns=ReportColumns(id_column, symbol_column, plan_column),
            table=database.table,
            where=database.where,
            query=database.query,
        )
    typer.echo(f"{counted}.", err=True)
    output.write(result)


def serve(
    plan: PlanFile,
    store: Annotated[
        Path,
        typer.Argument(
            help="SQLite file that reports are appended to, reports.sqlite."
        ),
    ],
    host: str = "127.0.0.1",
    port: int = 9480,
    certificate: Path | None = None,
    key: Path | None = None,
    behind_proxy: bool = False,
    per_minute: Annotated[
        int,
        typer.Option(
            min=1,
            help="Requests of one network address per minute, on average; not behind "
            "a proxy, which all requests come from.",
        ),
    ] = 60,
) -> None:
    """Receive reports over HTTPS and append them durably, until it is interrupted.

    POST /v1/reports takes one report or several; GET /v1/parameters has the plan's
    parameters. Reports are stored by id alone: sending one again changes nothing, and
    neither addresses nor times are kept.

    Options:
        host: Address to listen at.
        port: Port to listen at.
        certificate: The server's certificate that phones and browsers trust, PEM.
        key: Its private key, PEM.
        behind_proxy: Speak plain HTTP: a reverse proxy in front of this port ends TLS
            and limits rates.
    """
    load("uvicorn", "deploy", purpose="receiving reports")
    from discreet.transport.https.collector import ReportServer  # noqa: PLC0415

    tls = None if certificate is None or key is None else (certificate, key)
    if (certificate or key) if behind_proxy else tls is None:
        raise InputError(
            "give --certificate and --key, or --behind-proxy where a proxy ends TLS"
        )
    # Both ways of being asked to end leave the file in the order of ids.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = ReportServer(
        read_plan(plan), store, per_minute=None if behind_proxy else per_minute, tls=tls
    )
    scheme, name = (
        "http" if behind_proxy else "https",
        f"[{host}]" if ":" in host else host,
    )
    typer.echo(f"Receiving reports at {scheme}://{name}:{port}/v1/reports", err=True)
    server.run(host, port)


@app.callback()
def _root() -> None:
    """Let phones and browsers send private reports of single examples."""


@app.command()
@with_option_groups
def parameters(
    plan: PlanFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write them to this file, parameters.json."),
    ] = None,
) -> None:
    """Write the parameters that clients of a plan need: public, no secret."""
    from discreet.transport.collecting import parameters_of  # noqa: PLC0415 - slow

    text = parameters_of(read_plan(plan)).write()
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    typer.echo(f"Wrote {out}")
