"""Label privacy at a site: sums of public ranks.

The scores are public and cost nothing. The charge comes after the ranks, before a label
is looked at, and the stored answer goes out again whatever the data then say.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.label.rank_terms import RankSumTerms
from discreet.label.route import RankSite
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import Account, answer_once
from discreet.session.messages import Kind, Message
from discreet.session.progress import Progress
from discreet.session.respond import use_of
from discreet.statistic.protocol import check_binary


def rank_site(
    examples: Examples,
    account: Account,
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    entropy: Entropy,
) -> RankSite:
    """Return the half that answers this round; ``session`` names it in the account."""
    check_binary(examples)
    if examples.columns != 1 or examples.scores != plan.facts.scores:
        raise InputError(
            f"the plan ranks one column of scores of kind {plan.facts.scores.kind} in "
            f"{plan.facts.scores}; declare the data so"
        )
    scores, labels = examples.to_arrays()
    use = use_of(plan, this, session=session, population=population)
    return RankSite(
        RankSumTerms.of(this.statistic, this.loss),
        scores,
        lambda: labels.astype(np.int64),
        entropy,
        partial(answer_once, account, use),
    )


def ranked(
    half: RankSite, progress: Progress, message: Message
) -> tuple[Progress, Message]:
    """Answer an invitation with the scores, and their ranks with protected sums."""
    state, body = half.receive(progress.conversation, message.body)
    reply = message.reply(Kind.STEP, site=progress.site, body=body)
    return replace(progress, conversation=state), reply
