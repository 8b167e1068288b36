"""An evaluation that has only a few numbers: no curve, no counts, no calibration.

Rank sums under label privacy and areas under multi-party computation open single
values. Asking for more than was opened is an error that names the way to get it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from discreet.errors import NotReleasedError
from discreet.estimate.estimate import Estimate
from discreet.metrics.names import Metric
from discreet.privacy.claim import Claim
from discreet.result.page import Page, Section, save
from discreet.result.text import METRIC_TITLES, metric_table, titled

JSON_VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class ScalarEvaluation:
    """Some metrics of the pooled data, each with its errors, and the claim.

    Args:
        metrics: what was opened.
        claim: what was promised to whom.
        contributors: how many sites the values rest on.
        expected: how many sites were asked.
        remedy: how to get what was not opened, the end of a sentence.
        notes: what a reader should know about these values.
        facts: how the values were obtained (rows, bytes, rounds), for the report.
    """

    metrics: Mapping[Metric, Estimate]
    claim: Claim
    contributors: int
    expected: int
    remedy: str
    notes: tuple[str, ...] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve."""
        return self.metric("auc")

    @property
    def average_precision(self) -> Estimate:
        """Average precision."""
        return self.metric("average_precision")

    @property
    def aupr(self) -> Estimate:
        """Area under the PR curve by trapezoids, from recall 0 and precision 1."""
        return self.metric("aupr")

    @property
    def brier(self) -> Estimate:
        """Brier score."""
        return self.metric("brier")

    def metric(self, metric: Metric) -> Estimate:
        """Return a metric by its name."""
        if metric not in self.metrics:
            self._refuse(METRIC_TITLES[metric])
        return self.metrics[metric]

    def at(self, threshold: float) -> NoReturn:
        """Refuse: no counts at a threshold were opened."""
        del threshold
        self._refuse("the confusion counts")

    def roc_curve(self) -> NoReturn:
        """Refuse: no curve was opened."""
        self._refuse("the ROC curve")

    def precision_recall_curve(self) -> NoReturn:
        """Refuse: no curve was opened."""
        self._refuse("the PR curve")

    def det_curve(self) -> NoReturn:
        """Refuse: no curve was opened."""
        self._refuse("the DET curve")

    def plot(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there is nothing to draw."""
        self._refuse("a curve")

    def calibrate(self, scores: object) -> NoReturn:
        """Refuse: no calibration map can be made."""
        del scores
        self._refuse("a calibration map")

    @property
    def ece(self) -> NoReturn:
        """Refuse: calibration was not opened."""
        self._refuse("the calibration error")

    def _refuse(self, what: str) -> NoReturn:
        has = ", ".join(titled(self.metrics))
        raise NotReleasedError(
            f"{what} was not released, only {has}; {self.remedy}"
        ) from None

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table, the counts and the claim."""
        del wide
        return "\n".join(
            [
                metric_table(titled(self.metrics)),
                *self._sentences(),
                self._count_line(),
                str(self.claim),
            ]
        )

    def _sentences(self) -> tuple[str, ...]:
        cautions = dict.fromkeys(e.caution for e in self.metrics.values() if e.caution)
        return tuple(f"Note: {note}." for note in (*self.notes, *cautions))

    def _count_line(self) -> str:
        counted = "site" if self.expected == 1 else "sites"
        facts = [f"{name} {value}" for name, value in self.facts.items()]
        return ", ".join([f"{self.contributors} of {self.expected} {counted}", *facts])

    def to_dict(self) -> dict[str, Any]:
        """Return every number as plain values."""
        return {
            "version": JSON_VERSION,
            "metrics": {m: e.to_dict() for m, e in self.metrics.items()},
            "sites": {"contributed": self.contributors, "expected": self.expected},
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "claim": self.claim.to_dict(),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return every number as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Save the result: .html, .json or .txt."""
        save(
            path,
            html=self._page,
            json=lambda: self.to_json(indent=1),
            text=lambda: self.to_text(wide=True),
        )

    def _page(self) -> Page:
        section = Section(
            {"Released": titled(self.metrics)}, self._count_line(), self._sentences()
        )
        return Page("Evaluation", (section,), self.claim)
