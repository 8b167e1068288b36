"""``python -m papers NAME``: the papers' tables and figures, measured again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TimeElapsedColumn,
)
from rich.table import Table as Sheet

from discreet.cli.entry import run
from discreet.errors import InputError
from papers import results
from papers.data import SHARED, Data
from papers.registry import NAMES, Item, Paper, Report, paper
from papers.runner import Runner
from papers.tables import Table, Verdict, checks_table


def reproduce(  # noqa: PLR0913, PLR0917 - the options of a command
    name: Annotated[
        str, typer.Argument(metavar="PAPER", help=f"One of {', '.join(NAMES)}.")
    ],
    item: Annotated[
        list[str] | None,
        typer.Option(help="A figure, table or theorem, as figure-3; repeat for more."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs of every random item.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for runs, tables and figures.")
    ] = Path("discreet-papers"),
    data: Annotated[
        Path,
        typer.Option(
            help="Folder of NAME.parquet files with columns score and label.",
            show_default="../shared/data beside the clone",
        ),
    ] = SHARED,
    stand_ins: Annotated[
        bool,
        typer.Option(
            "--stand-ins", help="Simulate the sets that are not there; reports say so."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of every random draw.")] = 0,
    rows: Annotated[
        int | None,
        typer.Option(min=1000, help="Most rows of each data set: a quick look."),
    ] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Also write results/papers-NAME.json, which the page quotes."
        ),
    ] = False,
) -> None:
    """Reproduce a paper: its numbers beside ours, the better method beside both.

    PAPER is boyd2015, cormode2023, sun2022, unal2023, xu2025, or index, which
    compares them all on one data set.

    Finished runs are stored in --out and not made again, so that a broken run
    goes on where it stopped, and more --runs add to those that are there. An item
    whose scored sets are not in --data is not begun; the others run, and the last
    line says what to give.

    Examples:
    python -m papers boyd2015 --item figure-3
    python -m papers xu2025 --runs 3 --rows 5000 --stand-ins
    """
    asked = paper(name)
    runner = Runner(out, Data(data, rows, stand_ins), seed, runs)
    if save and item:
        raise InputError("--save writes the whole paper: leave out --item")
    items, lacking = _can_run(asked.chosen(item or []), runner.data)
    if lacking and (item or not items):
        raise InputError(lacking)
    # Wide enough for the statements of a check, also where there is no terminal.
    console = Console(width=max(Console().width, 118), soft_wrap=False)
    console.print(asked.citation, style="bold")
    reports: dict[str, Report] = {}
    for one in items:
        with Progress(
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bar:
            task = bar.add_task(one.name, total=runner.wanted(one))
            advance = partial(_advance, bar, task)
            report = runner.reproduce(asked, one, progress=advance)
        console.print(f"\n{one.title}", style="bold")
        for table in (*report.tables, checks_table(one.name, report.checks)):
            console.print(_sheet(table))
        for note in report.notes:
            console.print(note, style="dim")
        reports[one.name] = report
    console.print(_summary(asked, list(reports.values()), out))
    if lacking:
        raise InputError(lacking)
    if save:
        results.save(asked, reports, {"seed": seed, "runs": runs, "rows": rows})


def _can_run(items: Sequence[Item], data: Data) -> tuple[list[Item], str]:
    """Return the items whose sets are there, and what to give for the others."""
    left_out = [one for one in items if data.missing(one.needs)]
    if not left_out:
        return list(items), ""
    sets = sorted({name for one in left_out for name in data.missing(one.needs)})
    sentence = (
        f"{', '.join(one.name for one in left_out)} did not run: {data.folder} lacks "
        f"{', '.join(f'{name}.parquet' for name in sets)}; give --data FOLDER that has "
        f"{'it' if len(sets) == 1 else 'them'}, or --stand-ins to simulate"
    )
    return [one for one in items if one not in left_out], sentence


def _advance(bar: Progress, task: TaskID, done: int) -> None:
    bar.update(task, completed=done)


def _sheet(table: Table) -> Sheet:
    sheet = Sheet(title=table.title, title_justify="left", title_style="")
    for column in table.columns:
        sheet.add_column(column, overflow="fold")
    for row in table.texts():
        sheet.add_row(*row)
    return sheet


def _summary(asked: Paper, reports: list[Report], out: Path) -> str:
    found = [check.verdict for report in reports for check in report.checks]
    counts = ", ".join(
        f"{found.count(verdict)} {verdict.value}"
        for verdict in Verdict
        if verdict in found
    )
    return f"\n{len(found)} statements: {counts}. Everything is in {out / asked.name}/"


def main() -> None:
    """Run the command; it ends as those of ``discreet`` do."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(reproduce)
    run(app, name="python -m papers", speaker="papers")


if __name__ == "__main__":
    main()
