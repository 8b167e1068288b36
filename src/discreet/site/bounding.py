"""Bounded contributions: at most c examples a subject or client.

Which rows a subject keeps is decided by that subject's own rows alone: the i-th of
them enters a reservoir of c with probability c/i, with coins hashed from the
subject's name and i. So adding or removing a subject changes nobody else's rows,
and a second round or a retry keeps the same ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from discreet.data.examples import Batch, Columns, Examples
from discreet.data.labels import LabelCode
from discreet.errors import InputError
from discreet.privacy.unit import Unit

_EVERYBODY: Final = None
"""Under unit client all rows of a site belong to one."""
_NOBODY: Final = object()
"""Whom a row belongs to that names no subject."""


def bounded(examples: Examples, unit: Unit | None) -> Examples:
    """Return the examples with at most ``unit.max_examples`` of each unit."""
    if unit is None or unit.kind not in ("subject", "client"):
        return examples
    most = unit.examples
    kept = _chosen(examples, unit, most)
    found = Examples.from_source(
        lambda: _filtered(examples, unit, kept),
        labels=LabelCode(classes=examples.label_code.classes),
        scores=examples.scores,
        columns=examples.columns,
        name=examples.name,
    )
    found.lenient = examples.lenient
    return found


def _chosen(examples: Examples, unit: Unit, most: int) -> dict[object, frozenset[int]]:
    """Read everything once; return the ordinals that each subject keeps."""
    reservoirs: dict[object, list[int]] = {}
    seen: Counter[object] = Counter()
    for batch in examples.batches():
        for subject in _subjects(batch, unit, lenient=examples.lenient):
            if subject is _NOBODY:
                continue  # it cannot be bounded: it is left out
            i = seen[subject]
            seen[subject] += 1
            kept = reservoirs.setdefault(subject, [])
            if i < most:
                kept.append(i)
                continue
            place = _hashed(subject, i) % (i + 1)
            if place < most:
                kept[place] = i
    return {subject: frozenset(kept) for subject, kept in reservoirs.items()}


def _filtered(
    examples: Examples, unit: Unit, kept: dict[object, frozenset[int]]
) -> Iterator[Columns]:
    classes = examples.label_code.classes
    named = None if classes is None else np.array(classes, dtype=object)
    seen: Counter[object] = Counter()
    for batch in examples.batches():
        mask = np.zeros(len(batch), dtype=np.bool_)
        subjects = _subjects(batch, unit, lenient=examples.lenient)
        examples.set_aside += subjects.count(_NOBODY)
        for row, subject in enumerate(subjects):
            if subject is not _NOBODY:
                mask[row] = seen[subject] in kept[subject]
                seen[subject] += 1
        yield Columns(
            tuple(column[mask] for column in batch.scores),
            batch.labels[mask] if named is None else named[batch.labels[mask]],
            None if batch.groups is None else batch.groups[mask],
            None if batch.subjects is None else batch.subjects[mask],
        )


def _subjects(batch: Batch, unit: Unit, *, lenient: bool) -> list[object]:
    """Return whom each row belongs to; of nobody's row a lenient reader says so."""
    if unit.kind == "client":
        return [_EVERYBODY] * len(batch)
    if batch.subjects is None and not lenient:
        raise InputError(
            "the plan protects subjects, but the examples carry no subject "
            "column; name it with subject="
        )
    if batch.subjects is None:
        return [_NOBODY] * len(batch)
    named = [_named(subject) for subject in batch.subjects.tolist()]
    missing = named.count(_NOBODY)
    if missing and not lenient:
        raise InputError(
            f"{missing} of {len(batch)} rows name no subject; a row without one "
            "cannot be bounded"
        )
    return named


def _named(subject: object) -> object:
    missing = subject is None or subject != subject  # noqa: PLR0124 - NaN
    return _NOBODY if missing else subject


def _hashed(subject: object, i: int) -> int:
    text = f"{type(subject).__name__}:{subject}:{i}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
