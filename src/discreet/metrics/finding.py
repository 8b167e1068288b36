r"""Finding a threshold: the one that reaches an aim, its interval, and what is there.

An aim is a rate to reach (sensitivity, specificity, precision, alert rate) or a gain to
maximise: Youden's J, or :math:`r\,TP - FP` where a miss costs r false alarms.

- Of the thresholds that reach a rate, the one that costs least is taken: the highest
  with the sensitivity, the lowest with the specificity, the precision or at most the
  alert rate. Its interval holds every threshold whose own interval of that rate (Wilson,
  with the noise of both counts) holds the aim: a test turned around, so it needs no
  density of scores.
- The interval of a best threshold holds every threshold whose gain is not surely less:
  the gain between two thresholds is a sum over the examples between them, of variance
  :math:`\alpha^2 p + \beta^2 n` for the gain :math:`\alpha\,TP - \beta\,FP`, plus noise.

Between two edges a bin's examples are taken as spread evenly. The threshold is chosen on
the very data that judge it: the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Interval
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import noise_variances
from discreet.metrics.measure import Share
from discreet.metrics.table import RATES
from discreet.metrics.thresholds import (
    AtThreshold,
    at_threshold,
    confusion_noise,
    confusion_weights,
    confusions,
    cut_of,
    share_shape,
)
from discreet.vocabulary import did_you_mean, metric_name

AimKind: TypeAlias = Literal[
    "sensitivity", "specificity", "precision", "alert_rate", "youden", "cost_ratio"
]
_KINDS: Final[dict[str, AimKind]] = {
    "recall": "sensitivity",
    "specificity": "specificity",
    "precision": "precision",
    "alert_rate": "alert_rate",
    "youden": "youden",
    "cost_ratio": "cost_ratio",
}
"""Aims by the names of their rows."""
_AIMS: Final = "recall=, specificity=, precision=, alert_rate=, cost_ratio= or 'youden'"
_ROWS: Final = {"sensitivity": "recall"}
"""Where an aim's name is not that of its row."""
_Z: Final = 1.959963984540054
_HALVINGS: Final = 40


@dataclass(frozen=True, slots=True)
class Aim:
    """What a threshold is to reach."""

    kind: AimKind
    target: float

    def __post_init__(self) -> None:
        if self.kind == "cost_ratio":
            if not 0 < self.target < math.inf:
                raise InputError("cost_ratio is a positive number: false alarms a miss")
        elif self.kind != "youden" and not 0 < self.target < 1:
            raise InputError(f"the aim of {self.kind} lies strictly between 0 and 1")

    @classmethod
    def of(cls, aim: str | None, targets: Mapping[str, float]) -> Self:
        """Take the one aim that was given: the name of a gain, or a rate to reach."""
        given: dict[str, float] = {} if aim is None else {aim: True}
        given |= {
            word: value
            for word, value in targets.items()
            if value or (value == 0.0 and not isinstance(value, bool))
        }
        if len(given) != 1:
            raise InputError(f"a threshold has one aim: give one of {_AIMS}")
        ((word, value),) = given.items()
        name = metric_name(word)
        kind = _KINDS.get(name)
        if kind is None:
            near = did_you_mean(name, _KINDS)
            raise InputError(
                f"a threshold has no such aim{near or f'; give one of {_AIMS}'}"
            )
        if kind != "youden" and value is True:
            raise InputError(f"an aim is a number to reach: give {name}=0.8")
        return cls(kind, 1.0 if kind == "youden" else value)

    @property
    def best(self) -> bool:
        """Whether it is a gain to maximise, not a rate to reach."""
        return self.kind in ("youden", "cost_ratio")

    def __str__(self) -> str:
        if self.kind == "youden":
            return "the largest Youden's J"
        if self.kind == "cost_ratio":
            return f"the least cost where a miss costs {self.target:g} false alarms"
        return f"{self.kind.replace('_', ' ')} {self.target:g}"


@dataclass(frozen=True)
class FoundThreshold:
    """A threshold, how sure it is, and every measure there."""

    aim: Aim
    threshold: float
    interval: Interval
    """95%: sampling and noise of the choice itself."""
    at: AtThreshold
    reached: bool
    """Whether any threshold reaches the aim; the nearest is given if none does."""

    @property
    def sentence(self) -> str:
        """What the choice on these data means for the measures there."""
        low, high = self.interval
        choice = (
            f"{self.threshold:.4g} (95% interval {low:.4g} to {high:.4g}) gives "
            f"{self.aim}"
        )
        if not self.reached:
            choice = f"no threshold gives {self.aim}; {self.threshold:.4g} is nearest"
        if self.aim.best:
            return (
                f"{choice}; it was chosen on the data that judge it, so the measures "
                "there are somewhat too good: judge it on new data"
            )
        own = self.at[_ROWS.get(self.aim.kind, self.aim.kind)]
        spread = math.hypot(own.sampling or 0.0, own.noise)
        return (
            f"{choice}; it was chosen on the data that judge it: on new data the aim "
            f"would be met only up to about {_Z * spread:.2g} either way"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "aim": str(self.aim),
            "interval95": list(self.interval),
            "reached": self.reached,
            "sentence": self.sentence,
            **self.at.to_dict(),
        }


def find_threshold(fit: Fit, aim: Aim) -> FoundThreshold:
    """Find the threshold of an aim in the fitted counts."""
    search = _Search(fit)
    threshold, interval, reached = search.best(aim) if aim.best else search.reach(aim)
    stated = 1 / (1 + aim.target) if aim.kind == "cost_ratio" else None
    at = at_threshold(fit, threshold, stated=stated)
    return FoundThreshold(aim, threshold, interval, at, reached)


class _Search:
    """TP, FN, FP, TN at every edge, ascending."""

    def __init__(self, fit: Fit) -> None:
        self.observed, self.atoms = fit.observed, fit.observed.edges.atoms
        self.fit, self.counts = fit, fit.counts
        edges = fit.observed.edges.array
        # A released probability or logit range may end at infinity: nothing lies there.
        self.places = edges[:-1] if self.atoms else edges
        self.fitted = confusions(fit.counts)[::-1]
        self.released = confusions(fit.observed)[::-1]

    def reach(self, aim: Aim) -> tuple[float, Interval, bool]:
        """Return the cheapest threshold that reaches a rate."""
        row = RATES[_ROWS.get(aim.kind, aim.kind)]
        if not isinstance(row.measure, Share):
            raise InputError(f"{aim.kind} is no share of examples")
        share, target = row.measure, aim.target
        rates = np.array([share(c) for c in self.fitted[: self.places.size]])
        ends = np.array([self._ends(share, k) for k in range(len(self.places))])
        sign = -1.0 if aim.kind == "alert_rate" else 1.0
        enough = np.flatnonzero(
            sign * np.nan_to_num(rates, nan=-np.inf) >= sign * target
        )
        from_above = aim.kind == "sensitivity"
        if enough.size:
            k = int(enough[-1] if from_above else enough[0])
            beyond = k + 1 if from_above else k - 1
            threshold = self._crossing(share, target, rates - target, k, beyond)
        else:
            k = int(np.nanargmax(sign * rates))
            threshold = float(self.places[k])
        kept = np.flatnonzero((ends[:, 0] <= target) & (target <= ends[:, 1]))
        first, last = (int(kept[0]), int(kept[-1])) if kept.size else (k, k)
        interval = Interval(
            min(self._edge(ends - target, first, first - 1), threshold),
            max(self._edge(ends - target, last, last + 1), threshold),
        )
        return threshold, interval, bool(enough.size)

    def _crossing(
        self, share: Share, target: float, off: FloatVector, inside: int, outside: int
    ) -> float:
        """Return where the rate that ``at`` reports crosses its aim, by bisection."""
        straight = self._between(off, inside, outside)
        if straight == self.places[inside] or off[inside] * off[outside] >= 0:
            return straight
        near, far = float(self.places[inside]), float(self.places[outside])
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            above = cut_of(self.fit, middle).curved
            confusion = confusion_weights(above) @ self.counts.vector
            if (share(confusion) - target) * off[inside] >= 0:
                near = middle
            else:
                far = middle
        return near

    def _ends(self, share: Share, k: int) -> tuple[float, float]:
        """Return the interval of a rate at one edge."""
        noise = confusion_noise(self.observed, len(self.observed.edges) - k)
        return share_shape(share, self.released[k], self.fitted[k], noise).shares(_Z)

    def _between(self, off: FloatVector, inside: int, outside: int) -> float:
        """Return where a rate crosses its aim between two neighbouring edges."""
        place = float(self.places[inside])
        if not 0 <= outside < off.size or self.atoms or not math.isfinite(off[outside]):
            return place
        step = off[inside] - off[outside]
        other = float(self.places[outside])
        if step == 0 or not math.isfinite(other - place):
            return place
        return place + (other - place) * float(np.clip(off[inside] / step, 0.0, 1.0))

    def _edge(self, ends: FloatArray, inside: int, outside: int) -> float:
        """Return where the interval of a rate stops holding the aim."""
        if not 0 <= outside < len(ends):
            return float(self.places[inside])
        side = 0 if ends[outside, 0] > 0 else 1
        return self._between(ends[:, side], inside, outside)

    def best(self, aim: Aim) -> tuple[float, Interval, bool]:
        """Return the threshold of the greatest gain."""
        tp, fn, fp, tn = self.fitted[: self.places.size].T
        p, n = tp[0] + fn[0], fp[0] + tn[0]
        alpha, beta = 1 / p, 1 / n
        if aim.kind == "cost_ratio":
            alpha, beta = aim.target / (p + n), 1 / (p + n)
        gain = alpha * tp - beta * fp
        k = int(np.argmax(gain))
        variances = np.array(
            [
                alpha**2 * abs(tp[j] - tp[k])
                + beta**2 * abs(fp[j] - fp[k])
                + self._noise_between(j, k, alpha, beta)
                for j in range(gain.size)
            ]
        )
        kept = np.flatnonzero(gain[k] - gain <= _Z * np.sqrt(variances))
        # The best threshold may lie between two edges: their neighbours are kept too.
        first, last = max(int(kept[0]) - 1, 0), min(int(kept[-1]) + 1, gain.size - 1)
        interval = Interval(float(self.places[first]), float(self.places[last]))
        return float(self.places[k]), interval, True

    def _noise_between(self, j: int, k: int, alpha: float, beta: float) -> float:
        between = np.zeros(len(self.observed.edges))
        between[min(j, k) : max(j, k)] = 1.0
        row = np.concatenate([-beta * between, alpha * between])[None, :]
        return float(noise_variances(self.observed, row)[0])
