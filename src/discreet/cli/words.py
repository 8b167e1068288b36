"""Errors in the command line's words: what Python calls ``score=`` is ``--score`` here."""

from __future__ import annotations

import re
from typing import Final

_OPTIONS: Final = {
    "classes": "class",
    "groups": "in-group",
    "thresholds": "threshold",
    "group": "group",
    "names": "name",
    "multiclass": "ovo",
}
"""Options that are not called as the keyword is."""
_KEYWORDS: Final = frozenset(
    {
        *_OPTIONS,
        *(
            "score",
            "label",
            "positive",
            "subject",
            "weight",
            "max_weight",
            "kind",
            "low",
            "high",
            "privacy",
        ),
        *("epsilon", "delta", "mechanism", "examples", "prevalence", "bins", "unit"),
        *("random_groups", "max_examples_per_site", "min_survivors", "colluders"),
    }
)
_ASKED: Final = re.compile(
    r"\b([a-z_]+)=('(?P<text>[^']*)'|\[[^\]]*\]|(?P<number>[\d.]*\d))?"
)


def in_options(sentence: str) -> str:
    """Say a sentence about keywords as one about options.

    >>> in_options("declare kind='logit', or more classes with classes=")
    'declare --kind logit, or more classes with --class'
    >>> in_options("privacy='distributed' needs epsilon=, for instance epsilon=1")
    '--privacy distributed needs --epsilon, for instance --epsilon 1'
    """
    return _ASKED.sub(_option, sentence)


def _option(found: re.Match[str]) -> str:
    word = found.group(1)
    if word not in _KEYWORDS:
        return found.group(0)
    value = found.group("text") or found.group("number")
    option = f"--{_OPTIONS.get(word, word).replace('_', '-')}"
    return f"{option} {value}" if value and word != "multiclass" else option
