"""Counting clients' reports: a plan and a table of reports in, an evaluation out.

The tally of all symbols is one release of the plan, and everything else follows from it as
from any other: intervals, page, claim, record, ``discreet verify``.
"""

from __future__ import annotations

import hashlib
from typing import Any

from discreet.data.client_reports import CountedReports, ReportColumns, count_reports
from discreet.errors import PlanError, ReleaseError
from discreet.models.local import LocalDP
from discreet.noise.arc import CircularArc
from discreet.phone import Parameters
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.report.build import evaluation
from discreet.report.evaluation import Evaluation


def parameters_of(plan: Plan) -> Parameters:
    """Return what clients need to know to send reports of a plan.

    Raises:
        PlanError: the plan is not one of reports.
    """
    privacy = plan.privacy
    if not isinstance(privacy, LocalDP) or privacy.reports_per_person is None:
        raise PlanError(
            "this plan is not one of clients' reports: make one with discreet plan "
            "--privacy local --epsilon 1 --reports-per-person 1"
        )
    arc = privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    if not isinstance(arc, CircularArc):
        raise PlanError("reports are sent as arcs")
    return Parameters(
        plan.digest().hex(),
        arc.epsilon,
        tuple(arc.edges.values[1:-1]),
        *arc.weighed(),
        arc.length,
        privacy.reports_per_person,
        privacy.period_days,
    )


def evaluate_reports(plan: Plan, counted: CountedReports) -> Evaluation:
    """Return the evaluation of reports that were counted.

    Raises:
        ReleaseError: there are fewer reports than the plan asks for.
    """
    reports, least = counted.reports, max(plan.cohort.min_survivors, 1)
    if reports < least:
        remedy = "wait for more"
        if counted.other_plans:
            remedy += (
                ", or use the plan that clients have the parameters of: this one is "
                f"{plan.digest().hex()[:16]}"
            )
        raise ReleaseError(
            f"{counted}. This plan asks for at least {least:,} reports: {remedy}"
        )
    release = Release(
        plan.digest(),
        hashlib.sha256(b"discreet reports 1\n" + plan.digest()).digest(),
        0,
        counted.tally,
        reports,
        reports,
        plan.privacy.loss,
    )
    return evaluation(plan, [release], plan.claim("deployed", sites=reports))


def collect(
    plan: Plan,
    source: Any,
    *,
    columns: ReportColumns | None = None,
    table: str | None = None,
    where: str | None = None,
    query: str | None = None,
) -> tuple[Evaluation, CountedReports]:
    """Count the reports of a plan where they are, and evaluate.

    Args:
        plan: the plan that clients had the parameters of.
        source: a Parquet or CSV file, a folder of Parquet files, a frame or Arrow table,
            an Ibis table, a Spark DataFrame, a DuckDB or SQLite file, or an address.
        columns: what the columns of reports are called.
        table: the table of a database.
        where: which of its rows, in the engine's SQL.
        query: a SELECT in the engine's SQL, instead of a table.

    Returns:
        The evaluation, and what was counted and left out.
    """
    parameters = parameters_of(plan)
    counted = count_reports(
        source,
        symbols=parameters.cells,
        plan=parameters.plan[:16],
        columns=columns,
        table=table,
        where=where,
        query=query,
    )
    return evaluate_reports(plan, counted), counted
