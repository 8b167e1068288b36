r"""A site's answer to one round: the one place where data meets randomness.

The order is fixed: policy, stored answer, charge, data, clip, noise, store, send. Nothing
that depends on the data leaves outside a charge, not even as a refusal: rows that do
not fit the plan have a rule (``Examples.fitted``), and a retry gets the stored bytes
whatever the data now say. ``admit`` checks the policy and the caps, in a session and
before it. ``check_data`` is for the operator before joining: inside a session its refusal
would tell the coordinator something about the data.

*Bounded contributions.* At most k examples of a subject or client count. Which rows a
subject keeps is decided by its own rows alone, whatever their order in a file or table.
Of its m rows, sorted by score, label, time and group, the r-th (from 1) is kept when m <= k,
or when

.. math:: (r k + h) \bmod m < k,
   \qquad h = (48271\, x \bmod (2^{31} - 1)) \bmod m

with x the subject's number (a hash of a text that is no whole number). That is
systematic sampling: exactly k rows, spread over the subject's scores, and with h even
over subjects each row has the chance k/m. So adding or removing a subject changes nobody
else's rows, a second round or a retry keeps the same ones, and a database can do it by a
window function (``discreet.data.pushdown.bounded``), since all numbers are whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.arrays import BoolVector, IntVector
from discreet.data.batches import RawBatch
from discreet.data.cells import numbers
from discreet.data.examples import Batch, Examples
from discreet.data.labels import LabelCode
from discreet.data.pushdown import MULTIPLIER, PRIME
from discreet.data.python_model import IN_PROCESS
from discreet.entropy import child
from discreet.errors import InputError
from discreet.failures import is_of_the_system, sentence
from discreet.label.response_keys import ResponseKeys
from discreet.label.response_keys import answer as flipped_counts
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import SiteAccount, Use, answer_once
from discreet.privacy.loss import fraction_of
from discreet.privacy.unit import Unit
from discreet.session.messages import to_bytes, to_numbers
from discreet.session.policy import Policy, PolicyError
from discreet.statistic.protocol import within_bounds

if TYPE_CHECKING:
    from discreet.session.site import Site

_NEW_SESSION: Final = b""
"""A session that was not charged for anything."""
_EVERYBODY: Final = "0"
"""Under unit client all rows of a site belong to one."""
_WHOLE: Final = re.compile("-?[0-9]{1,19}")
"""Whole numbers that a database has too."""


def respond(
    site: Site,
    plan: Plan,
    resolved: ResolvedRound,
    *,
    session: bytes,
    signed: bool = False,
) -> IntVector:
    """Charge, count, add noise, store, and only then return what is sent.

    The account is charged before the data is read, and the answer is stored before it
    is sent: a retry of the same session and round gets the same bytes, because fresh
    noise on the same counts would average out.

    Args:
        site: the data, the policy, the account and the entropy.
        plan: the agreed parameters.
        resolved: the round, resolved from the plan and the earlier releases.
        session: names one run of the plan; a retry has the same.
        signed: nothing of it can be revealed before this site signs.
    """
    site.policy.check(plan)
    check_scored(plan, site.examples(plan))
    population = site.policy.population
    if plan.privacy.reusable:
        if site.response_key is None:
            raise PolicyError(
                "the plan flips labels: this site needs a key for its flips"
            )
        held = site.examples(plan)
        return flipped_counts(
            held if site.strict else held.fitted(),
            ResponseKeys(site.response_key, site.account),
            plan,
            resolved,
            session=session,
            population=population,
            entropy=site.entropy,
        )
    mechanism = plan.privacy.mechanism_for(resolved, plan.cohort)
    use = use_of(plan, resolved, session=session, population=population, signed=signed)

    def protected() -> bytes:
        exact = _counted(
            site.examples(plan), plan, resolved, strict=site.strict, log=site.log
        )
        exact = confined(exact, plan, resolved, log=site.log)
        noise = child(site.entropy, f"noise of round {resolved.index}")
        return to_bytes(mechanism.protect(exact, entropy=noise))

    return to_numbers(answer_once(site.account, use, protected))


def _counted(
    examples: Examples,
    plan: Plan,
    resolved: ResolvedRound,
    *,
    strict: bool,
    log: Callable[[str], None],
) -> IntVector:
    if strict:
        return exact_counts(examples, plan, resolved)
    unit = plan.privacy.protects
    # Who may see how many rows there are would see that one is missing.
    fitted = examples.fitted(every_row=unit is not None and unit.relation == "replace")
    resolved.statistic.count(fitted.emptied())  # wrong columns: whatever the rows are
    try:
        kept = bounded(fitted, unit)
        exact = resolved.statistic.count(kept)
    except Exception as error:
        if unit is None or is_of_the_system(error):
            raise
        # The budget is spent, and to decline now would tell that some row led here.
        log(
            f"counting failed ({sentence(error, doing='counting')}); zeros were "
            "counted instead, with the plan's noise: this site is missing in the result"
        )
        return np.zeros(resolved.statistic.size, dtype=np.int64)
    if unit is None:
        resolved.statistic.takes(exact)
    aside = fitted.set_aside + (0 if kept is fitted else kept.set_aside)
    if aside:
        log(f"{aside} rows did not fit the plan; its rule for such rows was used")
    most = plan.cohort.max_examples_per_site
    if most is not None and len(fitted) > most:
        # An answer that is withheld for what the data hold would tell it.
        log(
            f"there are more than the {most:,} examples of a site that the plan expects"
        )
    return exact


def confined(
    exact: IntVector, plan: Plan, resolved: ResolvedRound, *, log: Callable[[str], None]
) -> IntVector:
    """Clip a site's numbers to the statistic's own range, before noise is added.

    The noise is sized for that range. A number outside of it is a mistake in the
    statistic, and to refuse would tell that the data led there: the log alone says so.
    """
    kept = within_bounds(exact, resolved.statistic.bounds(plan.privacy.protects))
    if not np.array_equal(kept, exact):
        log(
            f"what was counted left the range of the statistic "
            f"{resolved.statistic.name!r} and was clipped to it: please report this as a "
            "mistake in discreet, or in the plan's own statistic"
        )
    return kept


def exact_counts(examples: Examples, plan: Plan, resolved: ResolvedRound) -> IntVector:
    """Count one round's statistic: this validates every row, and draws nothing."""
    exact = resolved.statistic.count(bounded(examples, plan.privacy.protects))
    if plan.privacy.protects is None:
        resolved.statistic.takes(exact)
    floor = plan.cohort.min_examples_per_site
    if floor and len(examples) < floor:
        raise InputError(
            f"this site has fewer than the {floor} examples that the plan asks for"
        )
    most = plan.cohort.max_examples_per_site
    if most is not None and len(examples) > most:
        raise InputError(
            f"this site has more than the {most:,} examples that the plan allows a site: "
            "send a sample of them, or agree on a larger bound"
        )
    return exact


def use_of(
    plan: Plan,
    resolved: ResolvedRound,
    *,
    session: bytes,
    population: str,
    sites: Sequence[str] | None = None,
    signed: bool = False,
) -> Use:
    """Return what the account is charged for; the data has no part in it.

    ``sites`` are who is in the sum; by default the plan's roster.
    """
    if sites is None:
        sites = () if plan.roster is None else plan.roster.keys()
    unit = plan.privacy.protects
    protects = "exact sum" if unit is None else str(unit)
    return Use(
        population,
        session,
        resolved.index,
        resolved.loss,
        plan=plan.digest(),
        sites=tuple(sorted(sites)),
        note=": ".join(part for part in (plan.model.name, protects) if part),
        unit=unit,
        asked=plan.asked(),
        signed=signed,
        purpose=plan.purpose,
        coordinator="" if plan.roster is None else plan.roster.coordinator_text,
    )


def admit(
    plan: Plan,
    policy: Policy,
    ledger: SiteAccount,
    *,
    session: bytes | None = None,
) -> None:
    """Check policy and caps; read no data, charge nothing, send nothing.

    Args:
        plan: the agreed parameters.
        policy: the site's rules.
        ledger: what was spent; opened with the limits of the policy.
        session: the run, when it may have been charged already: its charges are not
            counted twice.

    Raises:
        PolicyError: the plan is not allowed here.
        BudgetError: the whole plan would exceed the population's cap.
    """
    policy.check(plan)
    # What a later round counts is not known yet; what it costs is.
    counted = plan.resolve(0, []).statistic
    uses = [
        use_of(
            plan,
            ResolvedRound(i, counted, fraction_of(plan.privacy.loss, r.budget)),
            session=session or _NEW_SESSION,
            population=policy.population,
        )
        for i, r in enumerate(plan.rounds)
    ]
    ledger.check(uses)


def check_scored(plan: Plan, examples: Examples) -> None:
    """Refuse scores of another origin than the plan's; no row is read.

    Raises:
        InputError: another model file made them, or the site brought them as a column.
    """
    model = plan.model
    if model.scoring is None or plan.rehearsal:
        return
    if examples.scored_by != (model.digest or IN_PROCESS):
        raise InputError(
            f"the plan's scores are made at each site by the model file {model.digest}: "
            "score the rows with it (model=, --model), and leave out a column of scores"
        )


def check_data(plan: Plan, policy: Policy | None, examples: Examples) -> None:
    """Count once and discard the counts: for the operator, before joining.

    Raises:
        PolicyError: there are fewer examples than the policy asks for.
        InputError: the data is not what the plan counts.
    """
    check_scored(plan, examples)
    if plan.protocol.counts_alone:
        exact_counts(examples, plan, plan.resolve(0, []))
    if policy is not None and len(examples) < policy.examples:
        raise PolicyError(
            f"this site has fewer than the {policy.examples} examples that its policy "
            "asks for"
        )


def bounded(examples: Examples, unit: Unit | None) -> Examples:
    """Return the examples with at most ``unit.max_examples`` of each unit."""
    if unit is None or unit.kind not in ("subject", "client"):
        return examples
    in_place = examples.bounded_in_place(unit.examples, alone=unit.kind == "subject")
    if in_place is not None:
        return in_place
    classes = examples.label_code.classes
    wholes = _kept(examples, unit)
    kept = Examples.from_source(
        lambda: iter(wholes),
        labels=LabelCode(classes=classes),
        scores=examples.scores,
        columns=examples.columns,
        label_columns=examples.label_columns,
        name=examples.name,
        timed=examples.timed,
    )
    kept.lenient = examples.lenient
    return kept


def _kept(examples: Examples, unit: Unit) -> list[RawBatch]:
    """Read everything once; return the rows that count, of each label by itself."""
    batches: dict[int, list[Batch]] = {}
    subjects: dict[int, list[str]] = {}
    for batch in examples.batches():
        names_of_rows = _subjects(batch, unit, lenient=examples.lenient)
        known = np.array([name is not None for name in names_of_rows], dtype=np.bool_)
        examples.set_aside += int(np.count_nonzero(~known))
        batches.setdefault(batch.which, []).append(batch.where(known))
        named = (name for name in names_of_rows if name is not None)
        subjects.setdefault(batch.which, []).extend(named)
    return [_chosen(own, subjects[k], unit, examples) for k, own in batches.items()]


def _chosen(
    batches: list[Batch], subjects: list[str], unit: Unit, examples: Examples
) -> RawBatch:
    """Return the rows of one label that count."""
    names, code = _coded(subjects)
    seed = np.array([_seed(name) for name in names], dtype=np.int64)
    rows = _joined(batches)
    groups = [] if rows.groups is None else [_in_order(rows.groups.tolist())]
    amounts = [] if rows.amounts is None else [numbers(rows.amounts)]
    times = [] if rows.times is None else [rows.times]
    own = [*amounts, *groups, *times, rows.labels, *reversed(rows.scores)]
    order = np.lexsort([*own, code])
    kept = np.zeros(len(rows), dtype=np.bool_)
    kept[order] = _places(code[order], seed, unit.examples)
    chosen, classes = rows.some(kept), examples.label_code.classes
    labels = chosen.labels
    if classes is not None:
        labels = np.array(classes, dtype=object)[labels]
    return RawBatch(
        chosen.scores,
        labels,
        chosen.groups,
        chosen.subjects,
        amounts=chosen.amounts,
        worded=True,
        times=chosen.times,
        which=chosen.which,
    )


def _places(code: IntVector, seed: IntVector, most: int) -> BoolVector:
    """Return which rows are kept, of rows that are sorted by subject."""
    many = np.bincount(code, minlength=seed.size)
    ranks = np.arange(code.size) - (np.cumsum(many) - many)[code] + 1
    m = many[code]
    h = (seed * MULTIPLIER % PRIME)[code] % m
    kept: BoolVector = (m <= most) | ((ranks * most + h) % m < most)
    return kept


def _joined(batches: list[Batch]) -> Batch:
    def column(parts: list[Any]) -> Any:
        return None if parts[0] is None else np.concatenate(parts)

    return Batch(
        tuple(column(list(c)) for c in zip(*(b.scores for b in batches), strict=True)),
        column([b.labels for b in batches]),
        column([b.groups for b in batches]),
        column([b.subjects for b in batches]),
        amounts=column([b.amounts for b in batches]),
        times=column([b.times for b in batches]),
        which=batches[0].which,
    )


def _coded(texts: list[str]) -> tuple[list[str], IntVector]:
    """Return the different texts, and which of them each one is."""
    places: dict[str, int] = {}
    code = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(code, dtype=np.int64)


def _in_order(groups: list[str | None]) -> IntVector:
    """Return each group's place in the order of all, so that no text sets a width."""
    names, code = _coded([group or "" for group in groups])
    place = {name: k for k, name in enumerate(sorted(names))}
    return np.array([place[name] for name in names], dtype=np.int64)[code]


def _subjects(batch: Batch, unit: Unit, *, lenient: bool) -> list[str | None]:
    """Return the subject of each row, None for a missing one if the reader is lenient."""
    if unit.kind == "client":
        return [_EVERYBODY] * len(batch)
    if batch.subjects is None and not lenient:
        raise InputError(
            "the plan protects subjects, but the examples carry no subject "
            "column; name it with subject="
        )
    if batch.subjects is None:
        return [None] * len(batch)
    named: list[str | None] = batch.subjects.tolist()
    missing = named.count(None)
    if missing and not lenient:
        raise InputError(
            f"{missing} of {len(batch)} rows name no subject; a row without one "
            "cannot be bounded"
        )
    return named


def _seed(subject: str) -> int:
    """Return a subject's number; of a text that is no whole number, a hash."""
    if _WHOLE.fullmatch(subject):
        return int(subject) % PRIME
    digest = hashlib.blake2b(subject.encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % PRIME
