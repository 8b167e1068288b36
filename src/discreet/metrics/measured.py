"""Estimates by name, each computed when it is first asked for, and rows of all of them.

A release gives some sixty measures and a reader looks at five: nothing is computed that
nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from discreet.estimate.estimate import Estimate


class Measured(Mapping[str, Estimate]):
    """Estimates that are computed at the first look.

    As with ``defaultdict``, iterating and ``in`` know what was asked for, and looking
    up a further name that is ``known`` computes it.

    Args:
        listed: the names that were asked for.
        compute: makes an estimate of a name.
        known: further names that can be looked up.

    >>> found = Measured(["a"], lambda n: Estimate.undefined(n), known=["a", "b"])
    >>> list(found), found["b"].value, "b" in found
    (['a'], nan, False)
    """

    def __init__(
        self,
        listed: Iterable[str],
        compute: Callable[[str], Estimate],
        *,
        known: Iterable[str] = (),
    ) -> None:
        self._listed = tuple(listed)
        self._known = frozenset(self._listed) | frozenset(known)
        self._compute = compute
        self._found: dict[str, Estimate] = {}

    def __getitem__(self, name: str) -> Estimate:
        if name not in self._known:
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = self._compute(name)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __repr__(self) -> str:
        return repr(dict(self))


def tidy(
    name: str, title: str, found: Estimate, threshold: float | None = None
) -> dict[str, Any]:
    """Return an estimate as one row of a tidy table."""
    low, high = found.interval()
    return {
        "measure": name,
        "title": title,
        "threshold": threshold,
        "value": found.value,
        "low": low,
        "high": high,
        "sampling_sd": found.sampling,
        "noise_sd": found.noise,
        "binning_low": found.binning.low,
        "binning_high": found.binning.high,
        "note": found.unusable or found.caution,
    }
