"""The result as one HTML file, with its style, pictures, script and release.

Its content security policy allows its own script and style, by their hashes, and nothing
else. Without scripts it shows the same pictures and tables at the first threshold; the
script only moves points and looks numbers up (``docs/decisions/page.md``).

The page is a list of sections (:data:`SECTIONS`). To add one:

1. Write ``templates/<name>.html.j2``: one ``<section>``, which finds its values under
   ``section``. Tables are of class ``stack`` where they have more than three columns, so
   that they fit a phone, and ``macros.html.j2`` has those that several sections need.
2. Write a function from a :class:`Sheet` to these values, or None where a result has no
   such section, and add a :class:`Section` to the list.
3. A section with a slider has a script, ``templates/<name>.js``, and puts what the script
   looks up under ``data``: plain values, found in the element ``<name>-data``.

Every picture is a :class:`discreet.report.svg.Frame` or the rows of a forest plot.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from discreet.estimate.estimate import Estimate
from discreet.metrics.table import METRICS
from discreet.plan.file import dumps
from discreet.report.explorer import MEASURES, POOLED, SHORT, Explorer
from discreet.report.figures import Figures
from discreet.report.lead import lead_values
from discreet.report.record import Made, Receipt
from discreet.report.text import (
    UNVERIFIABLE,
    between,
    counted_words,
    distinct,
    holds_counts,
    interval_column,
    labelled_of,
    measured_where,
    notes,
    number_cell,
    of_clients,
    positives_of,
    title_of,
    titled,
)
from discreet.report.views import calibratable
from discreet.statistic import MultiLabel

if TYPE_CHECKING:
    from jinja2 import Template

    from discreet.plan.plan import Plan
    from discreet.privacy.claim import Claim
    from discreet.report.evaluation import Evaluation
    from discreet.report.exports import Exports

_Values = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Sheet:
    """What a section is made from."""

    result: Exports
    made: Made
    record: Mapping[str, Any] | None = None
    receipts: Sequence[Receipt] = ()
    curves: bool = True
    """Whether measures may be shown at thresholds that the plan does not name."""

    @cached_property
    def explorer(self) -> Explorer | None:
        """The measures at many thresholds; None where there are no curves."""
        drawn, result = self.result.drawn, self.result
        if not drawn:
            return None
        return Explorer(drawn, result.gap, result.pooled)

    @cached_property
    def threshold(self) -> float | None:
        """The threshold that the page shows first."""
        result = self.result.pooled or self.result.first
        lead = result.thresholds.lead(planned_only=not self.curves)
        return None if lead is None else lead.value


class Section(NamedTuple):
    """A piece of the page, with its own template and perhaps a script."""

    name: str
    values: Callable[[Sheet], _Values | None]
    script: str = ""


def render(
    result: Exports,
    made: Made,
    record: Mapping[str, Any] | None,
    receipts: Sequence[Receipt] = (),
    *,
    curves: bool = True,
) -> str:
    """Return the HTML of a result; the same result always gives the same bytes.

    ``record`` is that of the release with its marks, ``receipts`` are the sites'.
    Without ``curves`` there is no slider: all counts can be worked out from either.
    """
    sheet = Sheet(result, made, record, receipts, curves)
    shown = {s: values for s in SECTIONS if (values := s.values(sheet)) is not None}
    plan = result.first.plan
    model = " and ".join(result.models or result.named)
    model = model or (plan.model.name if plan is not None else "")
    return render_template(
        "report.html.j2",
        title=model or "Unnamed model",
        named=bool(model),
        sections=[(s.name, values) for s, values in shown.items()],
        data={
            s.name: script_json(values["data"])
            for s, values in shown.items()
            if values.get("data") is not None
        },
        record=None if record is None else script_json(record),
        **_header(sheet),
        **page_parts(*(s.script for s in shown if s.script)),
    )


def _header(sheet: Sheet) -> _Values:
    result, made = sheet.result, sheet.made
    others = list(result.parts.values())[1:] if result.disjoint else []
    version = f"discreet {made.discreet}"
    first, plan = result.first, result.first.plan
    who = "the models tell" if result.models or result.named else "it tells"
    where = measured_where(first.source, result.claim, plan)
    facts = counted_words(first, others)
    if result.claim.setting == "own data" and first.source.expected == 1:
        del facts["Sites"]
    if result.overlapping:
        facts["Positives"] = positives_of(result.parts)
    if result.overlapping and isinstance(plan and plan.statistic, MultiLabel):
        facts["Examples"] = labelled_of(result.parts) or facts["Examples"]
    return {
        "kind": "evaluation",
        "question": f"How well {who} positives from negatives{_each(result)}, "
        f"measured {where}.",
        "facts": {
            **facts,
            "Privacy": f"{result.claim.loss}, {result.claim.setting}",
            "Made": f"{made.on}, with {version}" if made.on else version,
        },
        "holding": holds_counts(plan, result.claim, curves=sheet.curves),
    }


def _each(result: Exports) -> str:
    """Say what the parts are, where there are several."""
    if len(result.parts) == 1 or result.models:
        return ""
    if tuple(result.parts) == result.first.source.site_names:
        return " at each site"
    if not result.overlapping:
        return " in each group"
    plan = result.first.plan
    labels = plan is not None and isinstance(plan.statistic, MultiLabel)
    return " for each label" if labels else " for each class"


# -- at a threshold --------------------------------------------------------------------


def _explorer(sheet: Sheet) -> _Values | None:
    """Return the slider's pictures, and every measure at the threshold shown first."""
    explorer = sheet.explorer
    if explorer is None or not sheet.curves:
        return None
    several, models = explorer.several, sheet.result.models
    names = list(explorer.shown_parts)
    return {
        "last": len(explorer.thresholds) - 1,
        "start": explorer.start,
        "shown": explorer.thresholds[explorer.start],
        "ticks": explorer.ticks,
        "figures": [
            {
                "title": figure.title,
                "note": figure.note,
                "panels": [(p.caption, p.note, p.frame.svg()) for p in figure.panels],
            }
            for figure in Figures(explorer, overlaid=bool(models)).every()
        ],
        "recalibrated": not several
        and calibratable(explorer.first.fit)
        and explorer.first.recalibration.after is not None,
        "measures": {
            name: SHORT[name] if several else MEASURES[name]
            for name in explorer.measures
        },
        "parts": [
            {
                "name": name,
                "pooled": k >= len(explorer.parts),
                "cells": {
                    m: number_cell(explorer.shown(m)[k]) for m in explorer.measures
                },
                "counts": {m: _count(explorer.shown(m)[k]) for m in _CONFUSION},
            }
            for k, name in enumerate(names)
        ],
        "gaps": {
            m: number_cell(explorer.gap_at(m, explorer.start))
            for m in explorer.measures
        }
        if several
        else None,
        "gap": _gap_title(sheet.result),
        "overlaid": bool(models),
        "own": sheet.result.claim.setting == "own data",
        "data": {"signed": bool(models or sheet.result.named), **explorer.data()},
    }


def _gap_title(result: Exports) -> str:
    """Return what the last row of the table at a threshold is."""
    if result.named:
        return f"pooled, {' less '.join(result.named)}"
    return " less ".join(result.models) if result.models else "Largest gap"


_CONFUSION: Final = (
    "true_positives",
    "false_negatives",
    "false_positives",
    "true_negatives",
)


def _count(estimate: Estimate) -> tuple[str, str]:
    low, high = (f"{end:,.0f}" for end in estimate.interval())
    return f"{estimate.value:,.0f}", "" if low == high else f"[{low}, {high}]"


# -- gaps between groups ---------------------------------------------------------------


def _gaps(sheet: Sheet) -> _Values | None:
    """Return the gaps between groups that have curves, at the threshold shown first."""
    result, at = sheet.result, sheet.threshold
    if result.fairness is None or len(result.drawn) < 2 or at is None:
        return None
    fairness, rows = result.fairness(at), []
    for row in fairness.rows():
        gaps = [g for g in row["gaps"] if not math.isnan(g.difference)]
        widest = max(gaps, key=lambda g: abs(g.difference), default=None)
        pairs = []
        for g in gaps:
            difference = between(g.difference, g.interval)
            ratio = between(g.ratio, g.ratio_interval)
            pairs.append((g.first, g.second, difference, ratio))
        rows.append(
            {
                "criterion": row["criterion"],
                "title": row["title"],
                "largest": number_cell(row["largest"]),
                "between": f"{widest.first}, {widest.second}" if widest else "",
                "pairs": pairs,
            }
        )
    refused = {k: v.fit.refusal for k, v in result.parts.items() if v.fit.refusal}
    return {"threshold": at, "rows": rows, "unsure": {**fairness.small(), **refused}}


# -- all measures ----------------------------------------------------------------------


def _measures(sheet: Sheet) -> _Values:
    """Return every measure: of several parts side by side, then with its errors."""
    result = sheet.result
    parts = result.parts
    shown = dict(parts)
    if result.pooled is not None:
        shown[POOLED] = result.pooled
    summary = result.summary()
    return {
        "beside": None if len(parts) == 1 else _beside(shown, result),
        "summary": _estimate_table(summary) if summary else None,
        "tables": [
            _estimate_table(titled(distinct(part)), name)
            for name, part in shown.items()
        ],
        "thresholds": _rate_tables(shown),
        "notes": [(name, line) for name, part in parts.items() for line in notes(part)],
    }


def _beside(shown: Mapping[str, Evaluation], result: Exports) -> _Values:
    """Return the parts' measures as one table, a row each."""
    metrics = [
        name
        for name in METRICS
        if all(name in distinct(part) for part in shown.values())
    ]
    rows = [
        (name, [number_cell(part.metrics[metric]) for metric in metrics])
        for name, part in shown.items()
    ]
    if result.differences is not None:
        gaps = result.differences(None)
        cells = [number_cell(gaps[metric]) for metric in metrics]
        rows.append((" less ".join(result.models), cells))
    return {"titles": [title_of(metric) for metric in metrics], "rows": rows}


def _rate_tables(shown: Mapping[str, Evaluation]) -> list[_Values]:
    """Return the plan's thresholds: of one part a row each, of several a table each."""
    planned = {name: part.thresholds.planned() for name, part in shown.items()}
    every = {
        (name, f"{at.threshold:g}"): at.rates()
        for name, thresholds in planned.items()
        for at in thresholds
    }
    if not every:
        return []
    titles = list(next(iter(every.values())))
    rows = {
        key: [number_cell(rates[t]) for t in titles] for key, rates in every.items()
    }
    if len(shown) == 1:
        cells = [(at, row) for (_, at), row in rows.items()]
        return [{"at": "", "titles": titles, "rows": cells}]
    return [
        {
            "at": at,
            "titles": titles,
            "rows": [(name, row) for (name, here), row in rows.items() if here == at],
        }
        for at in dict.fromkeys(at for _, at in rows)
    ]


def _estimate_table(rows: Mapping[str, Estimate], name: str = "") -> _Values:
    """Return estimates as the rows of a table."""
    interval, cells_of = interval_column(rows)
    written = {title: cells_of(estimate) for title, estimate in rows.items()}
    return {"name": name, "interval": interval, "rows": written}


# -- for the reviewer ------------------------------------------------------------------


def _review(sheet: Sheet) -> _Values:
    result = sheet.result
    plan, claim = result.first.plan, result.claim
    return review_values(plan, claim, sheet.made, sheet.record, sheet.receipts)


def review_values(
    plan: Plan | None,
    claim: Claim,
    made: Made,
    record: Mapping[str, Any] | None,
    receipts: Sequence[Receipt],
) -> _Values:
    """Return the claim in full, and what verifies the page."""
    promise, *lines = str(claim).splitlines()
    clients, own = of_clients(plan), claim.setting == "own data"
    agreed = "every report was made for" if clients else "every site agreed to"
    return {
        "promise": promise.removeprefix("Claim: "),
        "claim": lines,
        "own": own,
        "charged": claim.setting == "deployed" and not clients,
        "agreed": "The plan that counted the rows"
        if own
        else f"The plan that {agreed}",
        "plan": "" if plan is None else dumps(plan),
        "digest": "" if plan is None else plan.digest().hex(),
        "recorded": record is not None,
        "receipts": receipts,
        "record_digest": "" if record is None else record["digest"],
        "releases": [] if record is None else record["releases"],
        "noun": "reports" if clients else "sites",
        "versions": made.versions,
        "unverifiable": "" if record else UNVERIFIABLE,
    }


SECTIONS: Final = (
    Section("lead", lead_values),
    Section("explorer", _explorer, "explorer.js"),
    Section("gaps", _gaps),
    Section("measures", _measures),
    Section("review", _review),
)
"""The page from top to bottom."""


# -- templates -------------------------------------------------------------------------

_TEMPLATES: Final = Path(__file__).parent / "templates"


def page_parts(*scripts: str) -> dict[str, str]:
    """Return the style, the scripts and the policy that allows these two alone."""
    files = {"style": _text("report.css"), "script": "\n".join(map(_text, scripts))}
    hashed = {
        kind: base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for kind, content in files.items()
    }
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashed['script']}'; "
        f"style-src 'sha256-{hashed['style']}'; base-uri 'none'; form-action 'none'"
    )
    return {**files, "policy": policy}


def render_template(name: str, **values: Any) -> str:
    """Fill in a template; every value is escaped unless it says that it is safe."""
    return _template(name).render(**values)


def script_json(content: Any) -> str:
    """Return JSON that cannot end the script element that holds it."""
    plain = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace("&", "\\u0026")


@cache
def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _template(name: str) -> Template:
    from jinja2 import (  # noqa: PLC0415 - only a report needs it
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
