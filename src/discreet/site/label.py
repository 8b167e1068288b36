"""Label privacy at a site: flips that stay, and sums of public ranks.

The scores are public and cost nothing. The charge comes after the ranks, before a label
is looked at, and the stored answer goes out again whatever the data then say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.noise.response import ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account, answer_once
from discreet.ranks.label_custody import LabelCustody, answer
from discreet.ranks.rank_terms import RankSumTerms
from discreet.ranks.route import RankSite
from discreet.site.letters import Kind, Letter
from discreet.site.policy import PolicyError
from discreet.site.progress import Progress
from discreet.site.respond import use_of
from discreet.statistic.protocol import check_binary


@dataclass(frozen=True)
class LabelAnswers:
    """What a site answers with about its labels in one round.

    Args:
        plan: what is asked.
        this: the round.
        examples: the site's data; rows that do not fit are left out.
        account: who pays.
        population: whom the data is about.
        entropy: secret bytes.
    """

    plan: Plan
    this: ResolvedRound
    examples: Examples
    account: Account
    population: str
    entropy: Entropy

    def flipped(self, key: ResponseKey | None, *, session: bytes) -> IntVector:
        """Count labels that this site flips by its own key."""
        if key is None:
            raise PolicyError(
                "the plan flips labels: this site needs a key for its flips"
            )
        return answer(
            self.examples,
            LabelCustody(key, self.account),
            self.plan,
            self.this,
            session=session,
            population=self.population,
            entropy=self.entropy,
        )

    def ranked(self, progress: Progress, letter: Letter) -> tuple[Progress, Letter]:
        """Answer an invitation with the scores, and their ranks with protected sums."""
        check_ranked(self.plan, self.examples)
        scores, labels = self.examples.to_arrays()
        use = use_of(
            self.plan,
            self.this,
            session=progress.charged_as,
            population=self.population,
        )
        half = RankSite(
            RankSumTerms.of(self.this.statistic, self.this.loss),
            scores,
            lambda: labels.astype(np.int64),
            self.entropy,
            partial(answer_once, self.account, use),
        )
        state, body = half.receive(progress.conversation, letter.body)
        reply = letter.reply(Kind.STEP, site=progress.site, body=body)
        return replace(progress, conversation=state), reply


def check_ranked(plan: Plan, examples: Examples) -> None:
    """Refuse data that is declared as something else than the plan ranks."""
    check_binary(examples)
    if examples.columns != 1 or examples.scores != plan.facts.scores:
        raise InputError(
            f"the plan ranks one column of scores of kind {plan.facts.scores.kind} in "
            f"{plan.facts.scores}; declare the data so"
        )
