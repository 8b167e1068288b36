"""What an evaluation by rank sums promises."""

from __future__ import annotations

from discreet.privacy.claim import Claim, Setting, Trust
from discreet.privacy.unit import LABEL
from discreet.ranks.terms import RankSumTerms

_LIES = "lying sites"
_ALONE = "what a good score says about a label by itself"


def rank_sum_claim(terms: RankSumTerms, setting: Setting) -> Claim:
    """Return the claim of an evaluation under these terms."""
    scores = "every score, in no telling order, and each site's size"
    if terms.aggregation == "secagg":
        return Claim(
            LABEL,
            terms.budget,
            Trust.SUM_ONLY,
            computational=True,
            setting=setting,
            discloses=(scores, "two noisy sums over all sites"),
            not_protected=(_ALONE, _LIES, _AGAIN),
            assumes=(
                f"at most {terms.colluders} sites tell the coordinator their noise",
            ),
        )
    sent = (
        "each site's flipped labels"
        if terms.mechanism == "response-labels"
        else "two noisy sums of each site, or one"
    )
    return Claim(
        LABEL,
        terms.budget,
        Trust.LABELS_ONLY,
        computational=False,
        setting=setting,
        discloses=(scores, sent),
        not_protected=(_ALONE, _LIES, _ONCE if terms.keeps_flips else _AGAIN),
    )


_AGAIN = "a further model on the same labels is charged again"
_ONCE = "the charge covers every model measured on the same labels and key"
