r"""The account: what a population was charged, checked before anything is sent.

*Exact sums together.* A coordinator that has exact sums over the sets
:math:`S_1, \dots, S_m` of sites has every combination
:math:`\sum_i a_i \mathbf 1_{S_i}` of them too. One that is not zero on few sites only
shows these few alone, so an account refuses the sum that would complete it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Protocol, TypeAlias

from discreet.codec.documents import written
from discreet.errors import BudgetError
from discreet.privacy.composition import About, Spent, charged_total
from discreet.privacy.loss import Loss, Unbounded
from discreet.privacy.unit import Unit

_Vector: TypeAlias = list[Fraction]

_MOST_COMBINATIONS: Final = 20_000
"""How many groups of sites are checked, some seconds, before giving up."""
_TOO_MANY: Final = (
    "this exact sum and the earlier ones can be combined in too many ways to check; "
    "use a plan with noise"
)


@dataclass(frozen=True, slots=True)
class Use:
    """A site's intent to release something about a population, once.

    A retry has an equal one whatever the data now say: otherwise it would tell whether
    the data changed.
    """

    population: str
    session: bytes
    round: int
    loss: Loss
    intent: bytes = b""
    """What the use is for, where no plan says it; never anything about the data."""
    plan: bytes = b""
    """The plan's digest."""
    sites: tuple[str, ...] = ()
    """Who is in the sum, by stable ids such as keys; empty when it is not known."""
    reusable: bytes | None = None
    """Set for a message that is a fixed function of the data and a kept secret: a
    digest of the data, the secret and the loss. The same message says nothing new
    the second time, so it is charged once a population."""
    note: str = ""
    """What people call this use: the model, the unit."""
    unit: Unit | None = None
    """Whose loss it is; None for an exact sum, or when it is not known."""
    asked: bytes = b""
    """A digest of what is counted, whatever the plan calls it: how often it was
    answered, and exact sums of the same counts, are recognised by it."""
    signed: bool = field(default=False, compare=False)
    """Whether nothing of it can be revealed before this site signs who is in the sum:
    an exact secure sum, whose message is under masks until then."""
    others: tuple[tuple[str, ...], ...] = field(
        default=(), compare=False, metadata=written(supplied="settled")
    )
    """The sites of further sums that were signed with it: those of other groups."""
    purpose: str = field(default="", compare=False, metadata=written(left_out=True))
    """What the plan says that the result is for."""
    coordinator: str = field(default="", compare=False, metadata=written(left_out=True))
    """The text of the key of the plan's coordinator."""

    @property
    def question(self) -> bytes:
        """What is counted; the plan stands for it where that is not known."""
        return self.asked or self.plan

    @property
    def about(self) -> About:
        """The loss and whose it is."""
        return self.unit, self.loss


@dataclass(frozen=True, slots=True)
class Permit:
    """Proof that a use was charged. Issued only by an account."""

    use: Use


CHANGED: Final = (
    "this round was already charged for another plan or other data; start a new session"
)
FOREIGN_PERMIT: Final = "this permit was not issued by this account"
ANOTHER_MESSAGE: Final = "another message was already recorded for this round"
PURGED: Final = (
    "this session is over here: its stored answers were purged, and another answer would "
    "be new noise for an old charge; start a new session"
)
RETENTION_DAYS: Final = 30
"""How long answers of a session are stored whose end nobody told."""


class Account(Protocol):
    """Charge first, then store the message, then send; a retry resends it."""

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, or raise ``BudgetError`` and charge nothing."""
        ...

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes, before they are sent."""
        ...

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer, to resend unchanged."""
        ...


class SiteAccount(Account, Protocol):
    """An account that a site also asks before it joins a session, and after its end."""

    def purge(self, sessions: Iterable[bytes]) -> None:
        """Erase the stored answers of sessions that are over."""
        ...

    def purge_old(self) -> Sequence[object]:
        """Erase the answers of sessions that nobody went on with for long."""
        ...

    def check(self, uses: Sequence[Use]) -> None:
        """Raise what ``reserve`` would for these uses in turn; charge nothing."""
        ...

    def check_patience(self) -> None:
        """Raise ``BudgetError`` when this site declined too often today."""
        ...

    def note_refusal(self) -> None:
        """Count that this site declined."""
        ...


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that a population may spend. None: no limit."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    exact_sums: int | None = None

    def allows(self, spent: Spent) -> bool:
        """Whether a total stays within every limit."""
        pairs = (
            (spent.epsilon, self.epsilon),
            (spent.delta, self.delta),
            (Fraction(spent.exact_sums), self.exact_sums),
        )
        return all(limit is None or used <= limit for used, limit in pairs)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account enforces. Without arguments no charge is refused."""

    cap: Cap = field(default_factory=Cap)
    sessions_per_plan: int | None = None
    fewest_sites: int = 1
    """How many sites any combination of exact sums on a population is about."""
    refusals_per_day: int = 20
    """How often a site may decline on one day before it stops listening."""
    retention_days: int = RETENTION_DAYS
    """How long answers of a session are stored whose end nobody told."""
    same_site: Mapping[str, str] = field(default_factory=dict)
    """The first id of a site for each of its later ones, such as rotated keys."""


def charged(use: Use, earlier: Iterable[Use]) -> bool:
    """Whether a use costs anything, after the earlier ones.

    A reusable message that was charged before, at the same loss, is free.
    """
    return use.reusable is None or not any(
        e.reusable == use.reusable
        and e.loss == use.loss
        and e.population == use.population
        for e in earlier
    )


def paid(uses: Iterable[Use], population: str) -> list[Use]:
    """Return those uses of a population that cost something, in their order."""
    same = [use for use in uses if use.population == population]
    return [use for k, use in enumerate(same) if charged(use, same[:k])]


def spent_by(uses: Iterable[Use], population: str) -> Spent:
    """Return what a population was charged, as it is compared with a cap."""
    return charged_total(use.about for use in paid(uses, population))


def refusal(
    use: Use, earlier: Sequence[Use], limits: Limits, *, compared: Sequence[Use] = ()
) -> str | None:
    """Return why a use cannot be charged after the earlier ones, None if it can.

    One rule for every account. Earlier uses of other populations do not matter.
    ``compared`` cost nothing any more but the session that they took.
    """
    same = [e for e in earlier if e.population == use.population]
    if charged(use, same) and not limits.cap.allows(
        spent_by([*same, use], use.population)
    ):
        return (
            f"{use.loss} would exceed the cap of population {use.population!r}; "
            "nothing was charged or sent"
        )
    most = limits.sessions_per_plan
    if most is not None and use.question:
        took = [*same, *(e for e in compared if e.population == use.population)]
        answered = {e.session for e in took if e.question == use.question}
        if len(answered | {use.session}) > most:
            return (
                f"this was already answered in {most} sessions, as many as the policy "
                "allows, under whatever name; nothing was charged or sent"
            )
    if isinstance(use.loss, Unbounded):
        reason = difference(use, [use.sites], same, limits)
        return None if reason is None else f"{reason}; nothing was charged or sent"
    return None


def difference(
    use: Use,
    sums: Iterable[tuple[str, ...]],
    earlier: Iterable[Use],
    limits: Limits,
) -> str | None:
    """Return why sums of one session show too much after earlier ones, None if not.

    ``sums`` are the sites of each sum without noise that a session reveals.
    """
    known: list[tuple[str, ...]] = []
    first = limits.same_site

    def members(sites: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(first.get(site, site) for site in sites))

    for e in earlier:
        exact = isinstance(e.loss, Unbounded) and e.population == use.population
        if exact and e.session != use.session:
            known += map(members, (e.sites, *e.others))
    for sites in map(members, sums):
        reason = shows_few_sites(sites, known, limits.fewest_sites)
        if reason is not None:
            return reason
        known.append(sites)
    return None


def check_same_counts(use: Use, earlier: Iterable[tuple[Use, bool]]) -> None:
    """Refuse an exact answer that differs from an earlier one to the same question.

    The difference of the two would show what changed. The check follows the charge,
    which covers what a refusal tells. ``earlier`` are answered uses, each with whether
    its answer was the same.
    """
    if not isinstance(use.loss, Unbounded):
        return
    question = (use.population, use.question, use.round)
    for e, same in earlier:
        alike = (e.population, e.question, e.round) == question
        exact = isinstance(e.loss, Unbounded) and e.session != use.session
        if alike and exact and not same:
            raise BudgetError(
                "the data changed since an earlier exact sum of the same counts, and "
                "the difference of the two would show what changed; nothing was sent"
            )


@dataclass(slots=True)
class MemoryAccount:
    """An account that lives as long as its process: simulation and tests."""

    cap: Cap = field(default_factory=Cap)
    _uses: dict[tuple[bytes, int], Use] = field(default_factory=dict)
    _messages: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    _purged: set[bytes] = field(default_factory=set)

    def reserve(self, use: Use) -> Permit:
        """Charge for a use, or raise ``BudgetError`` and charge nothing."""
        key = (use.session, use.round)
        self._check_open(use.session)
        if key not in self._uses:
            self.check([use])
            self._uses[key] = use
        if use != self._uses[key]:
            raise BudgetError(CHANGED)
        return Permit(use)

    def record(self, permit: Permit, message: bytes) -> None:
        """Store the outgoing bytes; the first ones stay."""
        key = (permit.use.session, permit.use.round)
        self._check_open(permit.use.session)
        if self._uses.get(key) != permit.use:
            raise BudgetError(FOREIGN_PERMIT)
        if key not in self._messages:
            sent = [(self._uses[k], m == message) for k, m in self._messages.items()]
            check_same_counts(permit.use, sent)
        if self._messages.setdefault(key, message) != message:
            raise BudgetError(ANOTHER_MESSAGE)

    def replay(self, session: bytes, round: int) -> bytes | None:  # noqa: A002
        """Return the stored bytes of an earlier answer."""
        self._check_open(session)
        return self._messages.get((session, round))

    def purge(self, sessions: Iterable[bytes]) -> None:
        """End sessions: nothing of them is sent again.

        What was sent stays in memory, to be compared with, and goes with the process.
        """
        charged_sessions = {session for session, _ in self._uses}
        self._purged |= charged_sessions & set(sessions)

    def purge_old(self) -> Sequence[object]:
        """Erase nothing: no session outlives the process."""
        return ()

    def _check_open(self, session: bytes) -> None:
        if session in self._purged:
            raise BudgetError(PURGED)

    def check(self, uses: Sequence[Use]) -> None:
        """Raise what ``reserve`` would for these uses in turn; charge nothing."""
        earlier = list(self._uses.values())
        for use in uses:
            self._check_open(use.session)
            if (use.session, use.round) not in self._uses:
                reason = refusal(use, earlier, Limits(self.cap))
                if reason is not None:
                    raise BudgetError(reason)
                earlier.append(use)

    def check_patience(self) -> None:
        """Never: whoever simulates declines nothing."""

    def note_refusal(self) -> None:
        """Keep no count of refusals."""

    def uses(self, population: str) -> list[Use]:
        """Return what was charged to a population, in order."""
        return [use for use in self._uses.values() if use.population == population]

    def spent(self, population: str) -> Spent:
        """Return what a population was charged so far."""
        return spent_by(self._uses.values(), population)


def answer_once(account: Account, use: Use, make: Callable[[], bytes]) -> bytes:
    """Charge, make the message, store it, and only then return it to be sent.

    A retry gets the stored bytes, whatever the data now say and also when the budget
    is used up: fresh noise on the same data would average out, and a refusal would
    tell that something changed. ``make`` is called at most once a session and round,
    after the charge.
    """
    stored = account.replay(use.session, use.round)
    if stored is not None:
        return stored
    permit = account.reserve(use)
    message = make()
    account.record(permit, message)
    return message


def shows_few_sites(
    sites: Collection[str], earlier: Sequence[Collection[str]], fewest: int
) -> str | None:
    """Return why a sum must not be given after earlier ones, None if it may.

    Pairs have a stricter rule: see :func:`few_sites_differ`. Any number of sums is
    searched for a combination over fewer than ``fewest`` sites.
    """
    if fewest <= 1:
        return None
    for other in earlier:
        reason = few_sites_differ(sites, other, fewest)
        if reason is not None:
            return reason
    try:
        shown = combine_to_few([sites, *earlier], fewest)
    except _TooManyError:
        return _TOO_MANY
    if not shown:
        return None
    return (
        f"this exact sum and {len(earlier)} earlier ones combine to a sum over fewer "
        f"than {fewest} sites"
    )


def few_sites_differ(
    sites: Collection[str], earlier: Collection[str], fewest: int
) -> str | None:
    r"""Return why two exact sums must not both be given, None if they may.

    The difference of sums over A and B is what :math:`A \setminus B` holds minus
    what :math:`B \setminus A` holds. Each side must be empty or have ``fewest``
    sites: padding one side with sites that the coordinator invented, whose counts
    it knows, hides nothing. An unknown set could be any.
    """
    if not sites or not earlier:
        return (
            "an exact sum over unknown sites cannot be told from an earlier one; use a "
            "plan with a roster, or one with noise"
        )
    for side in (set(sites) - set(earlier), set(earlier) - set(sites)):
        if 0 < len(side) < fewest:
            few = "1 site" if len(side) == 1 else f"{len(side)} sites"
            return (
                f"this exact sum differs from an earlier one by {few}, and the "
                f"difference of the two would show these alone; it takes {fewest} or none"
            )
    return None


class _TooManyError(Exception):
    """There are too many groups of sites to check."""


def combine_to_few(sums: Sequence[Collection[str]], fewest: int) -> bool:
    r"""Whether a combination of sums is not zero on fewer than ``fewest`` sites only.

    Sites that are in the same sums stay together: they are one column of the 0/1
    matrix M of sums, with their number as its weight. A vector v is a combination
    of the rows of M when it is orthogonal to the kernel of M. So with a basis of the
    kernel as the rows of B, some v that is zero outside the columns T exists exactly
    when the columns T of B are linearly dependent, and the search is for a
    dependent set of columns that weighs less than ``fewest``. Exact rationals.

    >>> combine_to_few(["abc", "bcd", "ad"], 2)  # first - second + third = 2 a
    True
    """
    sets = [frozenset(s) for s in sums]
    everybody = sorted(set().union(*sets))
    weights = Counter(tuple(site in s for s in sets) for site in everybody)
    patterns = list(weights)
    rows = [[Fraction(p[i]) for p in patterns] for i in range(len(sets))]
    columns = _kernel_columns(rows, len(patterns))
    small = [
        (weights[p], column)
        for p, column in zip(patterns, columns, strict=True)
        if weights[p] < fewest
    ]
    tried = 0

    def dependent(start: int, left: int, chosen: list[tuple[int, _Vector]]) -> bool:
        nonlocal tried
        for j in range(start, len(small)):
            weight, column = small[j]
            if weight > left:
                continue
            tried += 1
            if tried > _MOST_COMBINATIONS:
                raise _TooManyError
            rest = _reduced(column, chosen)
            lead = next((i for i, x in enumerate(rest) if x), None)
            if lead is None:
                return True
            if dependent(j + 1, left - weight, [*chosen, (lead, rest)]):
                return True
        return False

    return dependent(0, fewest - 1, [])


def _kernel_columns(rows: list[_Vector], width: int) -> list[_Vector]:
    """Return the columns of a basis of the kernel of a matrix, given by its rows."""
    reduced: list[tuple[int, _Vector]] = []  # pivot and row; zero at other pivots
    for row in rows:
        rest = _reduced(row, reduced)
        pivot = next((i for i, x in enumerate(rest) if x), None)
        if pivot is None:
            continue
        rest = [x / rest[pivot] for x in rest]
        reduced = [(p, _reduced(r, [(pivot, rest)])) for p, r in reduced]
        reduced.append((pivot, rest))
    pivots = dict(reduced)
    free = [j for j in range(width) if j not in pivots]
    return [
        [-pivots[j][f] for f in free]
        if j in pivots
        else [Fraction(f == j) for f in free]
        for j in range(width)
    ]


def _reduced(vector: _Vector, basis: Sequence[tuple[int, _Vector]]) -> _Vector:
    """Subtract multiples of vectors so that each one's leading place is zero."""
    rest = vector
    for lead, other in basis:
        if rest[lead]:
            factor = rest[lead] / other[lead]
            rest = [x - factor * y for x, y in zip(rest, other, strict=True)]
    return rest
