"""An estimate: a value and, kept apart, the sources of its error."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from statistics import NormalDist
from typing import Any, Final, Literal, NamedTuple, SupportsFloat, TypeAlias

from discreet.errors import InputError, NotReleasedError
from discreet.estimate.intervals import SYMMETRIC, Linear, Shape


class Interval(NamedTuple):
    """Lower and upper end."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Binning:
    """What is lost because scores are known only up to their bin.

    ``low`` and ``high`` are deterministic limits of the value, whatever the
    scores inside the bins (under noise they are estimates); ``typical`` is the
    size that the error usually has. ``below`` and ``above`` are how far the estimator's
    assumed shape may have drawn the value off, on the side where another shape lies.
    """

    low: float
    high: float
    typical: float
    below: float = 0.0
    above: float = 0.0

    @property
    def usual(self) -> float:
        """The error's usual size, on the side where it is larger."""
        return max(self.typical, self.below, self.above)


UNIT: Final = Interval(0.0, 1.0)
ClusterKind: TypeAlias = Literal["site", "subject"]


class Clustered(NamedTuple):
    """What clusters of rows that are alike do to a sampling error."""

    kind: ClusterKind
    factor: float
    """Of the sampling's standard deviation."""
    freedom: float | None = None
    """Degrees of freedom, where the clusters are few."""


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """A value with its error sources: sampling, binning, noise.

    It prints with its interval, and formats, rounds and orders as its value does.

    >>> auc = Estimate(0.9, 0.01, 0.0, Binning(0.899, 0.902, 0.0005))
    >>> auc
    0.900 [0.880, 0.920]
    >>> f"{auc:.2f}", auc > 0.85, round(auc, 1)
    ('0.90', True, 0.9)
    >>> [round(end, 4) for end in auc.interval()]
    [0.8799, 0.9201]
    >>> [round(end, 4) for end in auc.interval(worst_case_binning=True)]
    [0.8794, 0.9216]
    """

    value: float
    sampling: float | None
    """Standard deviation from drawing the examples; None where it is not estimated."""
    noise: float
    """Standard deviation from the release's noise."""
    binning: Binning
    unusable: str | None = None
    """Why the estimate must not be used, if so."""
    support: Interval = UNIT
    shape: Shape = SYMMETRIC
    """How the error changes with the value: decides the interval's two sides."""
    caution: str | None = None
    """Why the interval is wide or less sure than its level, if so."""
    clustered: Clustered | None = None
    """What clusters change, where they were added up."""

    def __post_init__(self) -> None:
        if not (self.noise >= 0 and (self.sampling is None or self.sampling >= 0)):
            raise InputError("a standard deviation cannot be negative")

    @classmethod
    def undefined(cls, reason: str, support: Interval = UNIT) -> Estimate:
        """Return NaN for what the pooled data do not define, with the cause."""
        nan = math.nan
        return cls(nan, None, 0.0, Binning(nan, nan, nan), reason, support)

    def interval(
        self,
        level: float = 0.95,
        *,
        worst_case_binning: bool = False,
        cluster: ClusterKind | None = None,
    ) -> Interval:
        """Combine the known sources: sampling and noise convolved, binning added.

        ``shape`` says how (:mod:`discreet.estimate.intervals`); the ends never
        leave the support. A sampling error that is not estimated is not in it;
        ``covers`` says which sources are. With ``cluster``, rows of one site or one
        subject are taken as alike, not as independent.
        """
        if not 0 < level < 1:
            raise InputError("the level of an interval lies strictly between 0 and 1")
        if math.isnan(self.value):
            return Interval(math.nan, math.nan)
        z = NormalDist().inv_cdf(0.5 + level / 2)
        sampling = self.sampling or 0.0
        if cluster is not None:
            sampling, z = self._over_clusters(cluster, sampling, z, level)
        low, high = self.shape.ends(self.value, sampling, self.noise, z)
        below, above = self.value - self.binning.low, self.binning.high - self.value
        if not worst_case_binning:
            below = min(max(self.binning.typical, self.binning.below), below)
            above = min(max(self.binning.typical, self.binning.above), above)
        least, most = self.support
        return Interval(
            min(max(low - below, least), most), max(min(high + above, most), least)
        )

    def _over_clusters(
        self, cluster: str, sampling: float, z: float, level: float
    ) -> tuple[float, float]:
        if self.clustered is None or self.clustered.kind != cluster:
            raise NotReleasedError(
                f"nothing was added up over clusters of one {cluster}: ask for it in the "
                f"plan, HeterogeneityQuestion(clusters={cluster!r})"
            )
        if self.clustered.freedom is not None:
            from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

            z = float(stdtrit(self.clustered.freedom, 0.5 + level / 2))
        return sampling * self.clustered.factor, z

    @property
    def covers(self) -> tuple[str, ...]:
        """Which sources of error the interval takes into account."""
        sampled = () if self.sampling is None else ("sampling",)
        return (*sampled, "binning", "noise")

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of a multiple of the quantity."""
        return replace(
            self,
            value=self.value * factor,
            sampling=None if self.sampling is None else self.sampling * factor,
            noise=self.noise * factor,
            binning=Binning(*(number * factor for number in astuple(self.binning))),
            support=Interval(self.support.low * factor, self.support.high * factor),
            shape=Linear(self.shape, factor),
        )

    def __float__(self) -> float:
        return self.value

    def __round__(self, digits: int | None = None) -> float:
        return round(self.value, digits)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __lt__(self, other: SupportsFloat) -> bool:
        return self.value < float(other)

    def __le__(self, other: SupportsFloat) -> bool:
        return self.value <= float(other)

    def __gt__(self, other: SupportsFloat) -> bool:
        return self.value > float(other)

    def __ge__(self, other: SupportsFloat) -> bool:
        return self.value >= float(other)

    def __repr__(self) -> str:
        """Write the value and its interval, as many digits as the interval deserves."""
        if math.isnan(self.value):
            return "undefined"
        low, high = self.interval(worst_case_binning=self.sampling is None)
        width = high - low
        digits = 4 if width <= 0 else max(min(1 - math.floor(math.log10(width)), 6), 0)
        value, low_end, high_end = (f"{v:,.{digits}f}" for v in (self.value, low, high))
        return f"{value} [{low_end}, {high_end}]"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes null."""
        plain: dict[str, Any] = {
            "value": _number(self.value),
            "interval95": [_number(end) for end in self.interval()],
            "interval_covers": list(self.covers),
            "sampling_sd": self.sampling,
            "noise_sd": self.noise,
            "binning": {
                "low": _number(self.binning.low),
                "high": _number(self.binning.high),
                "typical": _number(self.binning.usual),
            },
            "unusable": self.unusable,
            "caution": self.caution,
        }
        if self.clustered is not None:
            kind = self.clustered.kind
            ends = [_number(end) for end in self.interval(cluster=kind)]
            plain["clustered"] = {"by": kind, "interval95": ends}
        return plain


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
