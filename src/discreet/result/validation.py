"""What a validation asks of an evaluation beside its metrics, from the same release.

Every measure as a row of a table, thresholds that reach an aim, and curves over all
thresholds. Nothing here asks a site again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from discreet.errors import NotReleasedError
from discreet.estimate.estimate import Estimate
from discreet.estimate.reading import AnyReading, Reading
from discreet.metrics.finding import Aim, FoundThreshold, find_threshold
from discreet.metrics.measured import tidy
from discreet.metrics.rates import RATES
from discreet.metrics.table import METRICS
from discreet.metrics.thresholds import AtThreshold
from discreet.optional import load


class Validation(ABC):
    """An evaluation's measures beyond the usual few."""

    reading: AnyReading

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Estimate]:
        """Metrics over all thresholds, by name."""

    @abstractmethod
    def at_thresholds(self) -> tuple[AtThreshold, ...]:
        """Return the measures at each of the plan's thresholds."""

    @abstractmethod
    def _counted(self, what: str) -> Reading:
        """Return the reading of a histogram, or say how to get one."""

    def _curved(self, what: str) -> Reading:
        """Return a reading that tells the classes apart, or say why there is none."""
        reading = self._counted(what)
        if reading.refusal is not None:
            raise NotReleasedError(f"there is no {what}: {reading.refusal}")
        return reading

    def rows(self) -> list[dict[str, Any]]:
        """Return every measure as one tidy row: over all thresholds, then at the plan's.

        Measures that the scores do not define stand there too, with the reason.
        """
        found = [
            tidy(n, METRICS[n].title, self.metrics[n])
            for n in (METRICS if isinstance(self.reading, Reading) else self.metrics)
        ]
        for at in self.at_thresholds():
            found += [
                tidy(n, RATES[n].title if n in RATES else n, at[n], at.threshold)
                for n in at.estimates
            ]
        return found

    def to_frame(self) -> Any:
        """Return ``rows`` as a pandas ``DataFrame``, one row a measure."""
        return load("pandas", "frames").DataFrame(self.rows())

    def threshold(
        self,
        *,
        sensitivity: float | None = None,
        specificity: float | None = None,
        precision: float | None = None,
        alert_rate: float | None = None,
        youden: bool = False,
        cost_ratio: float | None = None,
    ) -> FoundThreshold:
        """Find the threshold of one aim, with its interval and all measures there.

        ``cost_ratio`` is how many false alarms a miss costs as much as.
        """
        aim = Aim.of(
            sensitivity=sensitivity,
            specificity=specificity,
            precision=precision,
            alert_rate=alert_rate,
            youden=youden,
            cost_ratio=cost_ratio,
        )
        return find_threshold(self._curved("threshold"), aim)
