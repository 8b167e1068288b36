"""A result in plain words: what a number means, and what was promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Fit
from discreet.privacy.claim import Claim
from discreet.privacy.loss import ApproxDP, PureDP

if TYPE_CHECKING:
    from discreet.plan.plan import Plan
    from discreet.report.evaluation import Evaluation


UNVERIFIABLE: Final = (
    "This report does not hold the record of its release, so its numbers cannot be "
    "computed again: discreet verify cannot check it."
)


class Headline(NamedTuple):
    """One number that matters, and what it means."""

    title: str
    found: Estimate
    sentence: str


_AREAS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "auc": (
        "AUC",
        lambda share: (
            "Of two people of whom one is positive, the model gives the positive one "
            f"the higher score {share} of the time; chance is 50%."
        ),
    ),
    "average_precision": (
        "Average precision",
        lambda share: (
            "Going down the list from the highest score, on average "
            f"{share} of those seen so far are positive."
        ),
    ),
}


def headlines(result: Evaluation) -> list[Headline]:
    """Return the two or three numbers that matter first."""
    found = []
    for name, (title, sentence) in _AREAS.items():
        if name in result.metrics and (name == "auc" or not result.at_thresholds()):
            estimate = result.metrics[name]
            found.append(Headline(title, estimate, sentence(_share(estimate))))
    for at in result.at_thresholds()[:1]:
        where = f"at {at.threshold:g}"
        found.append(
            Headline(
                f"Sensitivity {where}",
                at["recall"],
                f"Of all positives, {_share(at['recall'])} score {at.threshold:g} or "
                "more.",
            )
        )
        found.append(
            Headline(
                f"Precision {where}",
                at["precision"],
                f"Of all that score {at.threshold:g} or more, "
                f"{_share(at['precision'])} are positive.",
            )
        )
    return found


def _share(found: Estimate) -> str:
    return "an unknown share" if math.isnan(found.value) else f"{found.value:.1%}"


def calibration_words(result: Evaluation) -> str:
    """Say how far predictions are off, and what recalibration would change."""
    effect = result.recalibration()
    before = (
        "On average a predicted probability is off by "
        f"{100 * effect.ece_before.value:.1f} percentage points"
    )
    if result.calibrator.name == "identity":
        return f"{before}; recalibration would not make it better."
    after = 100 * effect.ece_after.value
    return (
        f"{before}; recalibrated from this same release, by {after:.1f} on new examples "
        "of the same kind."
    )


def counted_words(result: Evaluation, others: Sequence[Evaluation]) -> dict[str, str]:
    """Say who took part and how many examples and positives there are.

    ``others`` are further disjoint parts of the same examples, such as groups.
    """
    sites = f"{result.contributors} of {result.expected}"
    if result.site_names:
        sites += f": {', '.join(result.site_names)}"
    found = {"Sites": sites}
    if isinstance(result.fit, Fit):
        seen = [part.observed for part in (result, *others)]
        about = "" if seen[0].exact else "about "
        positives = sum(part.total_positives for part in seen)
        total = positives + sum(part.total_negatives for part in seen)
        kind = ", effective: they have weights" if result.weighted else ""
        found["Examples"] = f"{about}{total:,.0f}{kind}"
        share = f" ({positives / total:.1%})" if total > 0 else ""
        found["Positives"] = f"{about}{positives:,.0f}{share}"
    return found


def exact_sums(plan: Plan | None) -> bool:
    """Whether the sites' sums were released as they are, without noise."""
    return plan is not None and plan.privacy.protects is None


def holds_counts(plan: Plan | None, *, curves: bool) -> str:
    """Say what whoever receives a report of exact sums gets with it."""
    if not exact_sums(plan):
        return ""
    if curves:
        return (
            "This file holds every number that the sites revealed, added up over all "
            "sites, exact and without noise: pass it on only to those who may see them. "
            "A report made with --no-record leaves them out."
        )
    return (
        "The sums that the sites revealed, which are exact, are left out of this file, and "
        "with them the curves, from which they could be worked out."
    )


def plain_claim(claim: Claim) -> list[str]:
    """Say the claim to somebody who never read about differential privacy."""
    match claim.loss:
        case PureDP(epsilon):
            factor = math.exp(min(float(epsilon), 50.0))
            promise = (
                f"Whatever is read from this page, it would have been read almost as "
                f"likely without any one {_unit(claim)}: the chance differs by a factor of "
                f"at most {factor:,.2f} (epsilon {float(epsilon):g})."
            )
        case ApproxDP(epsilon, delta):
            factor = math.exp(min(float(epsilon), 50.0))
            promise = (
                f"Whatever is read from this page, it would have been read almost as "
                f"likely without any one {_unit(claim)}: the chance differs by a factor of "
                f"at most {factor:,.2f} (epsilon {float(epsilon):g}), but for a "
                f"probability of {float(delta):g}."
            )
        case _:
            promise = (
                "The numbers are exact: no noise was added. Whoever knows all the data "
                "but one person's could work that one out."
            )
    found = [promise, claim.trust.value]
    if claim.setting != "deployed":
        found.append(
            "This was computed in one place, as a simulation: the promise is what the "
            "same plan would keep between real sites."
        )
    return found


def _unit(claim: Claim) -> str:
    return "person's part" if claim.unit is None else claim.unit.kind
