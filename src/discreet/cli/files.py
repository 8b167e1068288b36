"""Files in and out of the commands: plans, a site's scores, results."""

from __future__ import annotations

import hashlib
import json as json_text
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from discreet.codec.parsing import read_text
from discreet.data.arrow_columns import Names
from discreet.data.csv_file import CountsFile
from discreet.data.examples import Examples, label_code
from discreet.data.file_format import FileFormat
from discreet.data.scoring import ModelFile
from discreet.data.sources import read
from discreet.errors import InputError, PlanError
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.privacy.claim import REHEARSAL
from discreet.session.preview import plan_bound, plan_cuts
from discreet.statistic import MultiLabel, OneVsOne, OneVsRest, Paired
from discreet.statistic.timed import causes_of
from discreet.statistic.weighted import Weighted

if TYPE_CHECKING:
    from discreet.report.build import Result

_LONGEST_FILE_NAME: Final = 80
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul"})
"""Names that are no files on Windows."""

PlanFile: TypeAlias = Annotated[
    Path, typer.Argument(help="The plan, plan.toml.", show_default=False)
]
ScoreColumns: TypeAlias = Annotated[
    list[str],
    typer.Option("--score", "--y-score", help="Column of scores; repeat for classes."),
]
LabelColumn: TypeAlias = Annotated[
    str, typer.Option("--label", "--y-true", help="Column of true labels.")
]
LabelColumns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of one of several labels; repeat for each, in the order of --score."
    ),
]
PositiveLabel: TypeAlias = Annotated[
    str | None, typer.Option(help="The positive label, when labels are not 0/1.")
]
GroupColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of declared groups.")
]
SubjectColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="Column that says whom a row belongs to.")
]
TimeColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Column of how long a row was followed, in any unit; with --event, instead "
        "of --label."
    ),
]
EventColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Column of what ended it: 0 (censored), 1, or further causes."),
]
WeightColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of how much a row counts, whole numbers.")
]
PLACE: Final = typer.Argument(
    help="The scored rows: a Parquet, CSV, TSV or Excel file, a folder of Parquet files, "
    "a DuckDB or SQLite file, or a database's address. With --model, rows of features.",
    show_default=False,
)


def _report_file(path: Path | None) -> Path | None:
    """Refuse a wrong suffix while nothing has been spent or computed."""
    if path is None:
        return None
    from discreet.report.shown import check_suffix  # noqa: PLC0415 - it loads plots

    return check_suffix(path)


def read_plan(path: Path) -> Plan:
    """Read a plan from a file."""
    try:
        return planfile.loads(read_text(path, "a plan"))
    except PlanError as err:
        raise PlanError(f"{path.name}: {err}") from None


@dataclass(frozen=True, kw_only=True)
class InDatabase:
    """Which rows of a database.

    Options:
        table: The table of a database.
        where: Which of the table's rows, in the engine's SQL.
        query: A SELECT in the engine's SQL, instead of --table.
    """

    table: str | None = None
    where: str | None = None
    query: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rows(FileFormat, InDatabase):
    """Where a site's scored rows are, or counts that were made of them.

    Options:
        counts: Instead of rows: the result of `discreet query`, as CSV with a header.
        model: The model file that the plan names by its digest: it scores the rows here.
    """

    scores: Annotated[str | None, PLACE] = None
    score: ScoreColumns = field(default_factory=lambda: ["y_score"])
    label: LabelColumn = "y_true"
    labels: LabelColumns = None
    positive: PositiveLabel = None
    time: TimeColumn = None
    event: EventColumn = None
    group: GroupColumn = None
    subject: SubjectColumn = None
    weight: WeightColumn = None
    counts: Path | None = None
    model: Path | None = None

    def read(self, plan: Plan) -> Examples:
        """Read the rows as the plan expects them, or counts made for the plan."""
        statistic, facts = plan.statistic, plan.facts.scores
        classes = None
        if isinstance(statistic, OneVsRest | OneVsOne):
            classes = statistic.classes
        several, wanted = len(self.score) > 1, len(statistic.columns)
        labels: tuple[str, ...] = ()
        if isinstance(statistic, MultiLabel):
            labels = self._labels(statistic)
        elif self.labels:
            raise InputError("the plan counts one label: leave out --labels")
        if several and wanted == 1 and not (labels or isinstance(statistic, Paired)):
            raise InputError(
                "the plan measures one score, and several --score were given: give one"
            )
        timed = check_followed(plan, self.time, self.event)
        causes = causes_of(statistic)
        self._check_weight(weighted=isinstance(statistic, Weighted))
        model = self._model(plan)
        if (self.scores is None) == (self.counts is None):
            raise InputError("give the scored rows or --counts, and not both")
        if self.counts is not None:
            if unused := self.given(*self.names()):
                listed = " and ".join(f"{name}=" for name in unused)
                raise InputError(f"leave out {listed}, which says nothing of --counts")
            title = self.counts.name
            names = Names(
                tuple(self.score),
                self.event or self.label,
                self.group,
                title=title,
                time=self.time,
            )
            cuts = plan_cuts(plan, len(self.score))
            return Examples.from_source(
                CountsFile(self.counts, names, cuts, plan_bound(plan, self.subject)),
                labels=label_code(self.positive, classes, causes, timed=timed),
                scores=facts,
                columns=len(self.score),
                name=title,
                timed=timed,
            )
        other = facts.kind == "other"
        found = read(
            self.scores,
            label=None if timed else labels or self.label,
            time=self.time,
            event=self.event,
            causes=causes,
            score=self.score if several or labels else self.score[0],
            positive=self.positive,
            classes=classes,
            group=self.group,
            subject=self.subject,
            weight=self.weight,
            kind=facts.kind,
            low=facts.low if other else None,
            high=facts.high if other else None,
            table=self.table,
            where=self.where,
            query=self.query,
            **self.keywords(),
            model=model,
        )
        found.settled = frozenset({"kind", "classes"})
        if sys.stderr.isatty():
            found.listener = _tell_pace
        return found

    def _labels(self, statistic: MultiLabel) -> tuple[str, ...]:
        """Return the label columns: as many as the plan names, each with a score."""
        labels = tuple(self.labels or statistic.labels)
        if self.counts is not None:
            raise InputError(
                "counts of a query are of one label: give the scored rows, or let the "
                "database count them with --table"
            )
        if len(labels) != len(statistic.labels) or len(labels) != len(self.score):
            raise InputError(
                f"the plan names {len(statistic.labels)} labels: repeat --score for each "
                "in the plan's order, and --labels too where columns have other names"
            )
        return labels

    def _model(self, plan: Plan) -> ModelFile | None:
        """Return the plan's model file, checked, where the plan has one."""
        measured = plan.model
        if measured.scoring is None:
            if self.model is not None:
                raise InputError(
                    "the plan measures a column of scores: leave out --model, or plan "
                    "with --model"
                )
            return None
        if not measured.digest:
            raise InputError(
                "the plan was made for a Python object in a simulation: plan with the "
                "model's file, --model"
            )
        if self.model is None or self.counts is not None:
            raise InputError(
                f"the plan's scores are made here by the model file {measured.digest}: "
                "give rows of features and --model"
            )
        if self.score != ["y_score"]:
            raise InputError("the model makes the scores: leave out score=")
        agreed = (measured.scoring, plan.facts.scores)
        return ModelFile(self.model, digest=measured.digest, agreed=agreed)

    def _check_weight(self, *, weighted: bool) -> None:
        if weighted and (self.weight is None or self.counts is not None):
            raise InputError(
                "the plan adds up weights: give the scored rows and name the column of "
                "weights with --weight"
            )
        if self.weight is not None and not weighted:
            raise InputError(
                "the plan counts every row as one: leave out --weight, or plan with "
                "--max-weight"
            )


def check_followed(plan: Plan, time: str | None, event: str | None) -> bool:
    """Say whether a plan counts follow-up; refuse columns that do not fit it."""
    timed = plan.statistic.time_cuts is not None
    if timed and (time is None or event is None):
        raise InputError(
            "the plan counts time to event: name the columns with --time and --event"
        )
    if not timed and not (time is event is None):
        raise InputError(
            "the plan counts labels: leave out --time and --event, or plan with --horizon"
        )
    return timed


def _tell_pace(share: float | None, seconds: float) -> None:
    """Keep one line of the terminal up to date, and wipe it when all is read."""
    done = f"{seconds:.0f} s" if share is None else f"{share:.0%}"
    line = "" if share == 1 else f"counting the rows: {done}"
    typer.echo(f"\r\x1b[K{line}", nl=False, err=True)


@dataclass(frozen=True, kw_only=True)
class Output:
    """What is printed of a result, and which files it is written to.

    Options:
        wide: Print the interval of every rate.
        json: Write every number to this JSON file.
        record: Keep what the sites revealed in the report and the JSON file, for
            `discreet verify`; without it nobody can check them.
        plots: Write ROC, PR, DET, calibration and decision plots, and a forest plot of
            sites or groups, into this folder; of time to event survival by risk group,
            the AUC over time, calibration and decision curves.
        export: Write the measures and curves as CSV, OHDSI's tables and a model card's
            metrics into this folder.
    """

    wide: bool = False
    json: Path | None = None
    report: Annotated[
        Path | None,
        typer.Option(
            callback=_report_file,
            help="Write a report to this file: .html, .json or .txt.",
        ),
    ] = None
    record: bool = True
    plots: Path | None = None
    export: Path | None = None

    def files(self, *more: Path | None) -> tuple[Path, ...]:
        """Return the files that are written, with more that somebody writes."""
        asked = (self.json, self.report, *more)
        return tuple(path for path in asked if path is not None)

    def folders(self) -> tuple[Path, ...]:
        """Return the folders that are written into."""
        return tuple(path for path in (self.plots, self.export) if path is not None)

    def write(
        self, result: Result, *, sign: Callable[[bytes], bytes] | None = None
    ) -> None:
        """Print a result, and write the files that were asked for.

        ``sign`` is the coordinator's: its reports can be checked with ``discreet
        verify``.
        """
        from discreet.report.record import Made  # noqa: PLC0415 - it loads plots
        from discreet.report.text import holds_counts  # noqa: PLC0415 - it loads plots

        if result.claim.setting == "REHEARSAL":
            typer.echo(REHEARSAL.partition(". ")[0] + ".\n")
        typer.echo(result.to_text(wide=self.wide))
        if self.json is not None:
            values = result.exports.to_dict(Made.today(), record=self.record, sign=sign)
            text = json_text.dumps(values, indent=1, allow_nan=False)
            self.json.write_text(text, encoding="utf-8")
        if self.report is not None:
            result.save(self.report, sign=sign, record=self.record)
            typer.echo(f"The report is in {self.report}")
        if self.json is not None or self.report is not None:
            plan = result.exports.first.plan
            if told := holds_counts(plan, result.claim, curves=self.record):
                typer.echo(told)
        if self.export is not None:
            result.exports.write(self.export)
            typer.echo(f"The tables are in {self.export}/")
        if self.plots is not None:
            _write_plots(result, self.plots)


def safe_file_name(name: str) -> str:
    """Return a name that stays in its folder, a different one for each name.

    The one place where what others wrote becomes the name of a file. A name that
    had to be changed gets a part of its digest, so that no two become one.

    >>> safe_file_name("female")
    'female'
    >>> safe_file_name("../../etc/passwd")
    'etc_passwd-3754d6cb'
    """
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:_LONGEST_FILE_NAME]
    if safe == name and name.lower() not in _DEVICES:
        return safe
    return f"{safe or 'part'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _write_plots(result: Result, folder: Path) -> None:
    from discreet.report.views import calibratable  # noqa: PLC0415 - as above

    def kinds(part: Any) -> list[str]:
        if part.plan is not None and part.plan.horizons:
            if part.table.refusal is not None:
                return []
            risks = part.predicts is not None
            return ["km", "auc", *(["calibration", "decision"] if risks else [])]
        part.roc_curve()  # refuses where there is no curve, before a folder is made
        mends = calibratable(part.fit)
        mended = ["calibration", "decision"] if mends else []
        return ["roc", "pr", "det", *mended]

    parts: Mapping[str, Any] = result.exports.parts
    drawn = {name: kinds(part) for name, part in parts.items()}
    if not any(drawn.values()):
        next(iter(parts.values())).plot("km")  # refuses, and says why
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        stem = f"{safe_file_name(name)}-" if name else ""
        for kind in drawn[name]:
            part.plot(kind, folder / f"{stem}{kind}.png")
    whole: Any = result
    if whole.exports.forest is not None:
        whole.plot("forest", folder / "forest.png")
    typer.echo(f"Plots are in {folder}/")
