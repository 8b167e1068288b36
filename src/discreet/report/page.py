"""The result as one HTML file for three readers: who decides, who analyses, who checks.

The file holds its style, its pictures, its script and the release itself. It asks no
server: its content security policy allows its own script and style, by their hashes, and
nothing else. Without scripts it shows the same pictures and tables at the plan's
threshold; the script only moves points and looks numbers up
(``docs/decisions/page.md``).

Filling in a page: its style, its script, and the policy that allows these alone.

The page's tables and panels, as its template takes them: words and figures alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.plan.file import dumps
from discreet.privacy.claim import Claim
from discreet.report.explorer import COUNTS, MEASURES, Explorer
from discreet.report.plot import png
from discreet.report.record import Made, Sign, signature_of
from discreet.report.text import (
    UNVERIFIABLE,
    Headline,
    calibration_words,
    counted_words,
    headlines,
    holds_counts,
    interval_column,
    plain_claim,
    titled,
)
from discreet.statistic import Grouped

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

    from discreet.report.evaluation import Evaluation
    from discreet.report.fairness import Fairness
    from discreet.report.receipt import Receipt

SUFFIXES: Final = (".html", ".json", ".txt")


@dataclass(frozen=True, eq=False)
class Page:
    """What the file says: one evaluation, or several of one release side by side."""

    parts: Mapping[str, Evaluation]
    claim: Claim
    summary: Mapping[str, Estimate] = field(default_factory=dict)
    """A table over all parts: averages, differences."""
    verdict: str = ""
    models: tuple[str, ...] = ()
    """What two models are called, when the parts are these."""
    sentences: Callable[[Evaluation], Sequence[str]] = lambda _: ()
    pictures: Callable[[Evaluation], Mapping[str, Figure]] = lambda _: {}
    """Further pictures of a part, by what they show."""
    gap: Callable[[str, float], Estimate] | None = None
    """How far the parts lie apart in a measure at a threshold: the largest gap of groups,
    the first model less the second. None where parts share examples in unknown ways."""
    fairness: Callable[[float], Fairness] | None = None
    """All gaps between groups at a threshold, where the parts are groups."""
    made: Made = field(default_factory=Made)
    release: Mapping[str, Any] | None = None
    """The record of what was released; None where there is none or it is left out."""
    curves: bool = True
    """Whether curves and the slider are shown, from which all counts can be worked out."""

    @property
    def first(self) -> Evaluation:
        """The part that stands for all where they agree."""
        return next(iter(self.parts.values()))

    @property
    def others(self) -> list[Evaluation]:
        """The other parts, where each example is in one part alone."""
        plan = self.first.plan
        disjoint = plan is not None and isinstance(plan.statistic, Grouped)
        return list(self.parts.values())[1:] if disjoint else []

    @property
    def drawn(self) -> dict[str, Evaluation]:
        """The parts that have curves."""
        return {
            name: part
            for name, part in self.parts.items()
            if part.fit.has_curves and part.refusal is None
        }

    @property
    def title(self) -> str:
        """What is measured."""
        plan = self.first.plan
        if self.models:
            return " and ".join(self.models)
        return plan.model.name if plan is not None and plan.model.name else "Classifier"


class Showable(Protocol):
    """A result that can be saved."""

    def page(self, made: Made | None = None, *, record: bool = True) -> Page:
        """Return the report, made on a day, with or without what was released."""
        ...

    def to_dict(
        self, made: Made | None = None, *, record: bool = True
    ) -> dict[str, Any]:
        """Return everything as plain values."""
        ...

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim."""
        ...


def save(
    result: Showable,
    path: str | Path,
    sign: Sign | None = None,
    *,
    record: bool = True,
) -> None:
    """Save a result in the form that the file's name asks for.

    ``sign`` is the coordinator's: it signs the digest of the release in the file, where
    ``record`` keeps it there.
    """
    found = check_suffix(path)
    match found.suffix:
        case ".html":
            page = result.page(Made.today(), record=record)
            content = render(page, signature=signature_of(page.release, sign))
        case ".json":
            content = signed_json(result, sign, record=record)
        case _:
            content = result.to_text(wide=True) + "\n"
    found.write_text(content, encoding="utf-8")


def signed_json(
    result: Showable, sign: Sign | None = None, *, record: bool = True
) -> str:
    """Return everything as JSON, with the coordinator's signature of the release."""
    found = result.to_dict(Made.today(), record=record)
    signature = signature_of(found["release"], sign)
    if signature is not None:
        found["release"]["signature"] = signature
    return json.dumps(found, indent=1, allow_nan=False)


def check_suffix(path: str | Path) -> Path:
    """Return the path of a report, or say which kinds there are."""
    found = Path(path)
    if found.suffix not in SUFFIXES:
        raise InputError("a report is saved as .html, .json or .txt")
    return found


def render(
    page: Page,
    *,
    signature: str | None = None,
    receipts: Sequence[Receipt] = (),
) -> str:
    """Return the HTML of a page; the same page always gives the same bytes.

    ``signature`` is the coordinator's, of the record's digest; ``receipts`` are the
    sites'.
    """
    explorer = Explorer(page.drawn, page.gap) if page.drawn else None
    plan = page.first.plan
    record = page.release
    promise, *claim = str(page.claim).splitlines()
    return render_template(
        "report.html.j2",
        title=page.title,
        question=_question(page),
        facts={**counted_words(page.first, page.others), **_made(page)},
        headlines=[_headline(h) for h in _headlines(page)],
        verdict=page.verdict,
        promises=plain_claim(page.claim),
        calibration=_calibration(page),
        holding=holds_counts(plan, curves=page.curves),
        explorer=None
        if explorer is None or not page.curves
        else explorer_panel(explorer, page.models),
        fairness=None if explorer is None else _gaps(explorer, page),
        data=None
        if explorer is None or not page.curves
        else script_json({"signed": bool(page.models), **explorer.data()}),
        names=list(page.parts),
        summary=estimate_table(page.summary) if page.summary else None,
        tables=[
            estimate_table(shown_measures(part), name)
            for name, part in page.parts.items()
        ],
        pictures=[
            (shows, base64.b64encode(png(figure, 100)).decode())
            for part in page.parts.values()
            for shows, figure in page.pictures(part).items()
        ],
        thresholds=[
            found
            for name, part in page.parts.items()
            for found in rate_tables(part, name)
        ],
        notes=[
            (name, line)
            for name, part in page.parts.items()
            for line in page.sentences(part)
        ],
        promise=promise.removeprefix("Claim: "),
        claim=claim,
        plan="" if plan is None else dumps(plan),
        digest="" if plan is None else plan.digest().hex(),
        record=None
        if record is None
        else script_json(marked(record, signature, receipts)),
        receipts=receipts,
        record_digest="" if record is None else record["digest"],
        releases=[] if record is None else record["releases"],
        versions=page.made.versions,
        unverifiable="" if record else UNVERIFIABLE,
        **page_parts("report.js"),
    )


def marked(
    record: Mapping[str, Any], signature: str | None, receipts: Sequence[Receipt]
) -> dict[str, Any]:
    """Add what is not part of the release: who signed, who was charged."""
    signed = {} if signature is None else {"signature": signature}
    charged = {"receipts": [r.to_dict() for r in receipts]} if receipts else {}
    return {**record, **signed, **charged}


def _question(page: Page) -> str:
    many = len(page.parts) > 1
    who = "the models tell" if page.models else "it tells"
    where = " in each group or class" if many and not page.models else ""
    sites = page.first.expected
    pooled = (
        "at one site" if sites == 1 else f"over {sites} sites, without pooling data"
    )
    return f"How well {who} positives from negatives{where}, measured {pooled}."


def _made(page: Page) -> dict[str, str]:
    version = f"discreet {page.made.discreet}"
    made = f"{page.made.on}, with {version}" if page.made.on else version
    return {"Privacy": f"{page.claim.loss}, {page.claim.setting}", "Made": made}


def _headlines(page: Page) -> list[Headline]:
    if len(page.parts) == 1:
        return headlines(page.first)
    found = []
    for name, part in page.parts.items():
        found += [h._replace(title=f"{h.title}, {name}") for h in headlines(part)[:1]]
    return found[:6]


def _headline(shown: Headline) -> dict[str, Any]:
    low, high = shown.found.interval()
    known = shown.found.value == shown.found.value
    unit = known and 0 <= low <= high <= 1
    return {
        "title": shown.title,
        "value": f"{shown.found.value:.3f}" if known else "undefined",
        "interval": f"{low:.3f} to {high:.3f}" if known else "",
        "sentence": shown.sentence,
        "bar": (200 * low, 200 * max(high - low, 0.01), 200 * shown.found.value)
        if unit
        else None,
    }


def _calibration(page: Page) -> list[tuple[str, str]]:
    return [
        (name, calibration_words(part))
        for name, part in page.parts.items()
        if part.calibratable
    ]


def _gaps(explorer: Explorer, page: Page) -> dict[str, Any] | None:
    """Return the gaps between groups that have curves, at the threshold shown first."""
    if page.fairness is None or len(page.drawn) < 2:
        return None
    at = explorer.thresholds[explorer.start]
    untold = {k: v.refusal for k, v in page.parts.items() if k not in page.drawn}
    return gap_table(page.fairness(at), at, untold)


_TEMPLATES: Final = Path(__file__).parent / "templates"


def page_parts(script_name: str) -> dict[str, str]:
    """Return the style, the script and the policy that allows these two alone."""
    style, script = _text("report.css"), _text(script_name)
    return {"style": style, "script": script, "policy": _policy(style, script)}


def render_template(name: str, **values: Any) -> str:
    """Fill in a template; every value is escaped unless it says that it is safe."""
    return _template(name).render(**values)


def _policy(style: str, script: str) -> str:
    """Allow this script and this style, and nothing else at all."""
    hashed = {
        kind: base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for kind, content in (("script", script), ("style", style))
    }
    return (
        f"default-src 'none'; script-src 'sha256-{hashed['script']}'; "
        f"style-src 'sha256-{hashed['style']}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


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


def explorer_panel(explorer: Explorer, models: Sequence[str]) -> dict[str, Any]:
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
        and explorer.first.calibratable
        and explorer.first.recalibrated is not None,
        "measures": [
            {
                "name": name,
                "title": MEASURES[name],
                "cells": [_cell(e) for e in explorer.shown(name)],
                "gap": _gap(explorer, name) if several else None,
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


def _cell(found: Estimate) -> tuple[str, str]:
    return _between(found.value, found.interval())


def _count(found: Estimate) -> tuple[str, str]:
    low, high = (f"{end:,.0f}" for end in found.interval())
    return f"{found.value:,.0f}", "" if low == high else f"[{low}, {high}]"


def _gap(explorer: Explorer, name: str) -> tuple[str, str]:
    value, interval = _cell(explorer.gap_at(name, explorer.start))
    return value, interval if explorer.gap is not None else ""


def gap_table(
    found: Fairness, at: float, untold: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the gaps between groups at a threshold, and which groups are unsure."""
    rows = []
    for row in found.rows():
        gaps = [g for g in row["gaps"] if g.difference == g.difference]
        widest = max(gaps, key=lambda g: abs(g.difference), default=None)
        rows.append(
            {
                "criterion": row["criterion"],
                "title": row["title"],
                "largest": _cell(row["largest"]),
                "between": f"{widest.first}, {widest.second}" if widest else "",
                "pairs": [
                    (g.first, g.second, _between(g.difference, g.interval),
                     _between(g.ratio, g.ratio_interval))
                    for g in gaps
                ],
            }
        )  # fmt: skip
    return {"threshold": at, "rows": rows, "unsure": {**found.small(), **untold}}


def _between(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    if math.isnan(value):
        return "undefined", ""
    return f"{value:.3f}", f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def shown_measures(part: Evaluation) -> dict[str, Estimate]:
    """Return what is in the big table: all that was asked for, one row a meaning.

    AUPR is average precision but for ties: it is shown where the two differ.
    """
    shown = dict(part.metrics)
    areas = [shown.get(name) for name in ("average_precision", "aupr")]
    if all(e is not None for e in areas):
        first, second = (f"{e.value:.4f}" for e in areas if e is not None)
        if first == second:
            del shown["aupr"]
    return titled(shown) if shown else {}


def rate_tables(part: Evaluation, name: str) -> list[dict[str, Any]]:
    """Return all thresholds of the plan as one table."""
    found = part.at_thresholds()
    if not found:
        return []
    titles = list(found[0].rates())
    rows = []
    for at in found:
        rates = at.rates()
        rows.append((f"{at.threshold:g}", [_cell(rates[title]) for title in titles]))
    return [{"name": name, "titles": titles, "rows": rows}]


def estimate_table(rows: Mapping[str, Estimate], name: str = "") -> dict[str, Any]:
    """Return estimates as the rows of a table."""
    interval, cells_of = interval_column(rows)
    written = {title: cells_of(found) for title, found in rows.items()}
    return {"name": name, "interval": interval, "rows": written}
