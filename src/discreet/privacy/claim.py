"""What was promised, to whom, on which assumptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from discreet.privacy.loss import Loss, Unbounded
from discreet.privacy.unit import Unit

Setting: TypeAlias = Literal["deployed", "simulated", "seeded", "REHEARSAL", "own data"]
"""Where the numbers come from; a rehearsal's are made up, and its stamp is loud.

Own data were in one place, with whoever ran this, and no privacy model was named."""

REHEARSAL: Final = (
    "REHEARSAL: every number is made up and says nothing about any model or patient; "
    "nobody was charged. In earnest the claim would be:"
)


class Trust(Enum):
    """Whom a site has to trust, and with what."""

    SUM_ONLY = (
        "A curious coordinator sees only the sum over the sites (secure aggregation)."
    )
    SIGNED_SUM_ONLY = (
        "Even a coordinator that breaks the protocol sees only the sum over the sites "
        "(secure aggregation, signed by the sites of the roster)."
    )
    NOBODY = "Nobody has to be trusted: each message is private on its own."
    LABELS_ONLY = (
        "Nobody has to be trusted with a label: each message is private on its own. "
        "The scores are public: the coordinator sees every score and each site's size."
    )
    CURATOR = "The curator, who holds the data, is trusted."
    COMPUTE_PARTIES = (
        "Three compute parties see shares only; no two of them may collude."
    )
    OWN_DATA = (
        "All rows were in one place, with whoever ran this: nothing had to be hidden, "
        "and nothing is."
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """The privacy claim of an evaluation, printed with every result."""

    unit: Unit | None
    loss: Loss
    trust: Trust
    computational: bool
    setting: Setting
    discloses: tuple[str, ...]
    not_protected: tuple[str, ...]
    assumes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if isinstance(self.loss, Unbounded) or self.unit is None:
            promise = f"{self.loss}."
        else:
            promise = f"{self.loss} for {self.unit}."
        lines = [f"Claim: {promise} {self.trust.value}"]
        if self.setting == "REHEARSAL":
            lines[0] = f"{REHEARSAL} {lines[0]}"
        if self.computational:
            lines.append(
                "Computational: assumes that the cryptography in use is secure."
            )
        match self.setting:
            case "simulated":
                lines.append(
                    "Simulated in one process: the claim is what a deployment of "
                    "this plan would promise, not a protection of this run."
                )
            case "seeded":
                lines.append("Seeded randomness: for tests only, this protects nobody.")
            case "deployed" | "REHEARSAL" | "own data":
                pass
        for word, items in (
            ("Assumes", self.assumes),
            ("Discloses", self.discloses),
            ("Not protected", self.not_protected),
        ):
            if items:
                lines.append(f"{word}: " + "; ".join(items) + ".")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as plain values for JSON."""
        return {
            "unit": None if self.unit is None else str(self.unit),
            "loss": str(self.loss),
            "trust": self.trust.value,
            "computational": self.computational,
            "setting": self.setting,
            "assumes": list(self.assumes),
            "discloses": list(self.discloses),
            "not_protected": list(self.not_protected),
        }
