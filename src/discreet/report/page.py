"""The result as one HTML file, with its style, pictures, script and release.

Its content security policy allows its own script and style, by their hashes, and nothing
else. Without scripts it shows the same pictures and tables at the plan's threshold; the
script only moves points and looks numbers up (``docs/decisions/page.md``).
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet.estimate.estimate import Estimate
from discreet.plan.file import dumps
from discreet.report.explorer import COUNTS, MEASURES, Explorer
from discreet.report.plot import png
from discreet.report.record import Made, Receipt
from discreet.report.text import (
    UNVERIFIABLE,
    Headline,
    calibration_words,
    counted_words,
    headlines,
    holds_counts,
    interval_column,
    notes,
    of_clients,
    plain_claim,
    titled,
)
from discreet.report.views import calibratable

if TYPE_CHECKING:
    from jinja2 import Template

    from discreet.report.evaluation import Evaluation
    from discreet.report.exports import Exports


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
    drawn = result.drawn
    explorer = Explorer(drawn, result.gap) if drawn else None
    slider = explorer if curves else None
    parts, plan, summary = result.parts, result.first.plan, result.summary()
    others = list(parts.values())[1:] if result.disjoint else []
    version = f"discreet {made.discreet}"
    facts = {
        **counted_words(result.first, others),
        "Privacy": f"{result.claim.loss}, {result.claim.setting}",
        "Made": f"{made.on}, with {version}" if made.on else version,
    }
    model = "" if plan is None else plan.model.name
    promise, *claim = str(result.claim).splitlines()
    return render_template(
        "report.html.j2",
        title=" and ".join(result.models) or model or "Classifier",
        question=_question(result),
        facts=facts,
        headlines=[_headline(h) for h in _headlines(parts)],
        verdict=result.verdict(),
        promises=plain_claim(result.claim),
        calibration=[
            (name, calibration_words(part))
            for name, part in parts.items()
            if calibratable(part.fit)
        ],
        holding=holds_counts(plan, curves=curves),
        explorer=None if slider is None else _explorer_panel(slider, result.models),
        fairness=None if explorer is None else _gaps(explorer, result),
        data=None
        if slider is None
        else script_json({"signed": bool(result.models), **slider.data()}),
        names=list(parts),
        summary=_estimate_table(summary) if summary else None,
        tables=[_estimate_table(_measures(p), name) for name, p in parts.items()],
        pictures=[
            ("What a new site can expect", base64.b64encode(png(figure, 100)).decode())
            for part in parts.values()
            if (figure := part.heterogeneity.picture(part)) is not None
        ],
        thresholds=[
            table for name, p in parts.items() if (table := _rate_table(p, name))
        ],
        notes=[(name, line) for name, part in parts.items() for line in notes(part)],
        promise=promise.removeprefix("Claim: "),
        claim=claim,
        plan="" if plan is None else dumps(plan),
        digest="" if plan is None else plan.digest().hex(),
        record=None if record is None else script_json(record),
        receipts=receipts,
        record_digest="" if record is None else record["digest"],
        releases=[] if record is None else record["releases"],
        noun="reports" if of_clients(result.first.plan) else "sites",
        versions=made.versions,
        unverifiable="" if record else UNVERIFIABLE,
        **page_parts("report.js"),
    )


def _question(result: Exports) -> str:
    models, sites = result.models, result.first.source.expected
    who = "the models tell" if models else "it tells"
    where = " in each group or class" if len(result.parts) > 1 and not models else ""
    pooled = (
        "at one site" if sites == 1 else f"over {sites} sites, without pooling data"
    )
    if of_clients(result.first.plan):
        pooled = f"by {sites:,} private reports of single clients"
    return f"How well {who} positives from negatives{where}, measured {pooled}."


def _headlines(parts: Mapping[str, Evaluation]) -> list[Headline]:
    if len(parts) == 1:
        return headlines(next(iter(parts.values())))
    shown = []
    for name, part in parts.items():
        shown += [h._replace(title=f"{h.title}, {name}") for h in headlines(part)[:1]]
    return shown[:6]


def _headline(shown: Headline) -> dict[str, Any]:
    value, (low, high) = shown.estimate.value, shown.estimate.interval()
    known = not math.isnan(value)
    bar = (200 * low, 200 * max(high - low, 0.01), 200 * value)
    return {
        "title": shown.title,
        "value": f"{value:.3f}" if known else "undefined",
        "interval": f"{low:.3f} to {high:.3f}" if known else "",
        "sentence": shown.sentence,
        "bar": bar if known and 0 <= low <= high <= 1 else None,
    }


_TEMPLATES: Final = Path(__file__).parent / "templates"


def page_parts(script_name: str) -> dict[str, str]:
    """Return the style, the script and the policy that allows these two alone."""
    files = {"style": _text("report.css"), "script": _text(script_name)}
    hashed = {
        kind: base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for kind, content in files.items()
    }
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashed['script']}'; "
        f"style-src 'sha256-{hashed['style']}'; img-src data:; base-uri 'none'; form-action 'none'"
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


def _explorer_panel(explorer: Explorer, models: Sequence[str]) -> dict[str, Any]:
    """Return the slider's frames, and every measure at the threshold shown first."""
    several = len(explorer.parts) > 1
    return {
        "thresholds": explorer.thresholds,
        "start": explorer.start,
        "shown": explorer.thresholds[explorer.start],
        "frames": [
            {"name": frame.name, "title": frame.title, "svg": frame.svg()}
            for frame in explorer.frames()
        ],
        "recalibrated": not several
        and calibratable(explorer.first.fit)
        and explorer.first.recalibration.after is not None,
        "measures": [
            {
                "name": name,
                "title": MEASURES[name],
                "cells": [_cell(e) for e in explorer.shown(name)],
                "gap": _cell(explorer.gap_at(name, explorer.start))
                if several
                else None,
            }
            for name in explorer.measures
        ],
        "counts": [
            {
                "name": name,
                "title": title,
                "cells": [_count(e) for e in explorer.shown(name)],
            }
            for name, title in COUNTS.items()
        ],
        "several": several,
        "gap": " less ".join(models) if models else "largest gap",
        "names": list(explorer.parts),
    }


def _cell(estimate: Estimate) -> tuple[str, str]:
    """Write a value and its interval, which needs a sampling error."""
    value, interval = _between(estimate.value, estimate.interval())
    return value, "" if estimate.sampling is None else interval


def _count(estimate: Estimate) -> tuple[str, str]:
    low, high = (f"{end:,.0f}" for end in estimate.interval())
    return f"{estimate.value:,.0f}", "" if low == high else f"[{low}, {high}]"


def _gaps(explorer: Explorer, result: Exports) -> dict[str, Any] | None:
    """Return the gaps between groups that have curves, at the threshold shown first."""
    if result.fairness is None or len(result.drawn) < 2:
        return None
    at = explorer.thresholds[explorer.start]
    fairness, rows = result.fairness(at), []
    for row in fairness.rows():
        gaps = [g for g in row["gaps"] if not math.isnan(g.difference)]
        widest = max(gaps, key=lambda g: abs(g.difference), default=None)
        pairs = []
        for g in gaps:
            difference = _between(g.difference, g.interval)
            ratio = _between(g.ratio, g.ratio_interval)
            pairs.append((g.first, g.second, difference, ratio))
        rows.append(
            {
                "criterion": row["criterion"],
                "title": row["title"],
                "largest": _cell(row["largest"]),
                "between": f"{widest.first}, {widest.second}" if widest else "",
                "pairs": pairs,
            }
        )
    refused = {k: v.fit.refusal for k, v in result.parts.items() if v.fit.refusal}
    return {"threshold": at, "rows": rows, "unsure": {**fairness.small(), **refused}}


def _between(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    if math.isnan(value):
        return "undefined", ""
    return f"{value:.3f}", f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def _measures(part: Evaluation) -> dict[str, Estimate]:
    """Return the rows of the big table: all that was asked for, one row per meaning.

    AUPR is average precision but for ties: it is shown where the two differ.
    """
    shown = dict(part.metrics)
    areas = [shown[n] for n in ("average_precision", "aupr") if n in shown]
    if len(areas) == 2 and f"{areas[0].value:.4f}" == f"{areas[1].value:.4f}":
        del shown["aupr"]
    return titled(shown)


def _rate_table(part: Evaluation, name: str) -> dict[str, Any] | None:
    """Return all thresholds of the plan as one table; None where there are none."""
    rates = {f"{at.threshold:g}": at.rates() for at in part.thresholds.planned()}
    if not rates:
        return None
    titles = list(next(iter(rates.values())))
    rows = [(at, [_cell(each[t]) for t in titles]) for at, each in rates.items()]
    return {"name": name, "titles": titles, "rows": rows}


def _estimate_table(rows: Mapping[str, Estimate], name: str = "") -> dict[str, Any]:
    """Return estimates as the rows of a table."""
    interval, cells_of = interval_column(rows)
    written = {title: cells_of(estimate) for title, estimate in rows.items()}
    return {"name": name, "interval": interval, "rows": written}
