"""What a curator publishes: an estimate that carries its claim."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Final

from discreet.curator.interval import NoSampling, ReleasedScalar
from discreet.entropy import Entropy, Seeded
from discreet.errors import InputError, UndefinedMetricWarning
from discreet.estimate.estimate import (
    Binning,
    Estimate,
    Interval,
    Normal,
    NotYet,
    ScalarLaw,
    Unusable,
    Usable,
)
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Unit

ROW: Final = Unit("row", "replace")
"""One example replaced: the number of examples is public, the class counts not."""

LEAST_SIGNAL: Final = 10.0
"""Epsilon times the smaller class, below which every mechanism is near useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateEstimate(Estimate):
    """A released value, its error sources, its claim and what made it.

    ``sampling`` and ``noise`` are summaries for tables; ``interval`` uses the laws
    themselves, which have heavier tails than a normal one.
    """

    claim: Claim
    mechanism: str
    released: ReleasedScalar
    positives: float | None = None
    """The number of positives as released or declared, if either was."""
    notes: tuple[str, ...] = ()

    def interval(
        self, level: float = 0.95, *, worst_case_binning: bool = False
    ) -> Interval:
        """Return the interval: noise and sampling convolved. There are no bins."""
        del worst_case_binning
        if not 0 < level < 1:
            raise InputError("the level of an interval lies strictly between 0 and 1")
        if math.isnan(self.value):
            return Interval(math.nan, math.nan)
        return self.released.interval(level)

    def __str__(self) -> str:
        lines = [f"{self.value:.4f}"]
        if not math.isnan(self.value):
            low, high = self.interval()
            lines[0] += f", 95% interval [{low:.4f}, {high:.4f}] from "
            lines[0] += " and ".join(s for s in self.covers if s != "binning")
        if isinstance(self.status, Unusable):
            lines.append(f"Unusable: {self.status.reason}.")
        lines.append(f"Mechanism: {self.mechanism}.")
        lines += [f"Note: {note}." for note in self.notes]
        return "\n".join([*lines, str(self.claim)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is not known is null."""
        found = Estimate.to_dict(self)
        if not math.isfinite(self.released.noise_sd):
            found["noise_sd"] = None
        return found | {
            "mechanism": self.mechanism,
            "notes": list(self.notes),
            "claim": self.claim.to_dict(),
        }


def private_estimate(
    released: ReleasedScalar,
    *,
    claim: Claim,
    mechanism: str,
    positives: float | None,
    refusal: str | None,
    notes: tuple[str, ...] = (),
) -> PrivateEstimate:
    """Cut the value to 0 .. 1 and summarise its errors; refuse when told to."""
    value = min(max(released.value, 0.0), 1.0)
    sampling: ScalarLaw | NotYet
    if isinstance(released.sampling, NoSampling):
        sampling = NotYet("the class counts are private and were not released")
    else:
        sampling = Normal(released.sampling.sd(value))
    status: Usable | Unusable = Usable()
    if refusal is not None:
        status, value = Unusable(refusal), math.nan
        warnings.warn(
            f"the released value is withheld (NaN): {refusal}",
            UndefinedMetricWarning,
            stacklevel=4,
        )
    return PrivateEstimate(
        value=value,
        sampling=sampling,
        noise=Normal(released.noise_sd),
        binning=Binning(value, value, 0.0),
        status=status,
        claim=claim,
        mechanism=mechanism,
        released=released,
        positives=positives,
        notes=notes,
    )


def curator_claim(
    loss: Loss, *, what: str, rows: int, entropy: Entropy, record: str
) -> Claim:
    """Return the claim of one release by a trusted curator."""
    return Claim(
        unit=ROW,
        loss=loss,
        trust=Trust.CURATOR,
        computational=False,
        setting="seeded" if isinstance(entropy, Seeded) else "deployed",
        discloses=(what, f"the number of examples, {rows:,}"),
        not_protected=(
            "the same person in several rows",
            "how long the release took to compute",
            record,
        ),
    )


def too_little(epsilon: float, positives: float, rows: int) -> str | None:
    """Say so when the smaller class is too small for this epsilon.

    ``positives`` is the released or declared number, never the private one.
    """
    minority = max(min(positives, rows - positives), 0.0)
    if epsilon * minority >= LEAST_SIGNAL:
        return None
    return (
        f"epsilon times the smaller class is about {epsilon * minority:.2g}, below "
        f"{LEAST_SIGNAL:g}: noise of any mechanism would hide the value; use more "
        "examples or a larger epsilon"
    )
