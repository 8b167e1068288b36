r"""Bounded contributions: at most k examples a subject or client.

Which rows a subject keeps is decided by that subject's own rows alone, whatever their
order in a file or table. Of its m rows, sorted by score, label and group, the r-th
(from 1) is kept when m <= k, or when

.. math:: (r k + h) \bmod m < k,
   \qquad h = (48271\, x \bmod (2^{31} - 1)) \bmod m

with x the subject's number (a hash of a text that is no whole number). That is
systematic sampling: exactly k rows, spread over the subject's scores, and with h
even over subjects each row has the chance k/m. So adding or removing a subject changes
nobody else's rows, a second round or a retry keeps the same ones, and a database can do
it by a window function (``discreet.data.pushdown.bounded``), since all numbers are whole.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.data.batches import RawBatch
from discreet.data.cells import numbers
from discreet.data.examples import Batch, Examples
from discreet.data.labels import LabelCode
from discreet.data.pushdown import MULTIPLIER, PRIME
from discreet.errors import InputError
from discreet.privacy.unit import Unit

_EVERYBODY: Final = "0"
"""Under unit client all rows of a site belong to one."""
_WHOLE: Final = re.compile("-?[0-9]{1,19}")
"""Whole numbers that a database has too."""


def bounded(examples: Examples, unit: Unit | None) -> Examples:
    """Return the examples with at most ``unit.max_examples`` of each unit."""
    if unit is None or unit.kind not in ("subject", "client"):
        return examples
    in_place = examples.bounded_in_place(unit.examples, alone=unit.kind == "subject")
    if in_place is not None:
        return in_place
    classes = examples.label_code.classes
    whole = _kept(examples, unit)
    found = Examples.from_source(
        lambda: iter([whole] if len(whole.labels) else []),
        labels=LabelCode(classes=classes),
        scores=examples.scores,
        columns=examples.columns,
        name=examples.name,
    )
    found.lenient = examples.lenient
    return found


def _kept(examples: Examples, unit: Unit) -> RawBatch:
    """Read everything once; return the rows that count."""
    batches: list[Batch] = []
    subjects: list[str] = []
    for batch in examples.batches():
        named = _subjects(batch, unit, lenient=examples.lenient)
        known = np.array([name is not None for name in named], dtype=np.bool_)
        examples.set_aside += int(np.count_nonzero(~known))
        batches.append(batch.where(known))
        subjects.extend(name for name in named if name is not None)
    if not batches:
        none = np.zeros(0)
        return RawBatch((none,) * examples.columns, none.astype(np.int64))
    names, code = _coded(subjects)
    seed = np.array([_seed(name) for name in names], dtype=np.int64)
    rows = _joined(batches)
    groups = [] if rows.groups is None else [_in_order(rows.groups.tolist())]
    amounts = [] if rows.amounts is None else [numbers(rows.amounts)]
    order = np.lexsort([*amounts, *groups, rows.labels, *reversed(rows.scores), code])
    kept = np.sort(order[_places(code[order], seed, unit.examples)])
    classes = examples.label_code.classes
    labels = rows.labels[kept]
    return RawBatch(
        tuple(column[kept] for column in rows.scores),
        labels if classes is None else np.array(classes, dtype=object)[labels],
        None if rows.groups is None else rows.groups[kept],
        None if rows.subjects is None else rows.subjects[kept],
        amounts=None if rows.amounts is None else rows.amounts[kept],
        worded=True,
    )


def _places(
    code: NDArray[np.int64], seed: NDArray[np.int64], most: int
) -> NDArray[np.bool_]:
    """Say which rows are kept, of rows that are sorted by subject."""
    many = np.bincount(code, minlength=seed.size)
    ranks = np.arange(code.size) - (np.cumsum(many) - many)[code] + 1
    m = many[code]
    h = (seed * MULTIPLIER % PRIME)[code] % m
    kept: NDArray[np.bool_] = (m <= most) | ((ranks * most + h) % m < most)
    return kept


def _joined(batches: list[Batch]) -> Batch:
    def column(parts: list[Any]) -> Any:
        return None if parts[0] is None else np.concatenate(parts)

    return Batch(
        tuple(column(list(c)) for c in zip(*(b.scores for b in batches), strict=True)),
        column([b.labels for b in batches]),
        column([b.groups for b in batches]),
        column([b.subjects for b in batches]),
        amounts=column([b.amounts for b in batches]),
    )


def _coded(texts: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the different texts, and which of them each one is."""
    places: dict[str, int] = {}
    code = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(code, dtype=np.int64)


def _in_order(groups: list[str | None]) -> NDArray[np.int64]:
    """Return each group's place in the order of all, so that no text sets a width."""
    ordered = sorted({"" if group is None else group for group in groups})
    places = {group: k for k, group in enumerate(ordered)}
    return np.array([places[group or ""] for group in groups], dtype=np.int64)


def _subjects(batch: Batch, unit: Unit, *, lenient: bool) -> list[str | None]:
    """Return whom each row belongs to; None is nobody, if the reader is lenient."""
    if unit.kind == "client":
        return [_EVERYBODY] * len(batch)
    if batch.subjects is None and not lenient:
        raise InputError(
            "the plan protects subjects, but the examples carry no subject "
            "column; name it with subject="
        )
    if batch.subjects is None:
        return [None] * len(batch)
    named: list[str | None] = batch.subjects.tolist()
    missing = named.count(None)
    if missing and not lenient:
        raise InputError(
            f"{missing} of {len(batch)} rows name no subject; a row without one "
            "cannot be bounded"
        )
    return named


def _seed(subject: str) -> int:
    """Return a subject's number; of a text that is no whole number, a hash."""
    if _WHOLE.fullmatch(subject):
        return int(subject) % PRIME
    digest = hashlib.blake2b(subject.encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % PRIME
