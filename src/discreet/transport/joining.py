"""A whole site: its data, its rules and its keys, joining a coordinator."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import DiscreetError, InputError
from discreet.failures import sentence
from discreet.noise.response import ResponseKey
from discreet.plan.plan import Plan
from discreet.plan.revocation import RevokedKeys
from discreet.privacy.account import RETENTION_DAYS, Limits
from discreet.privacy.ledger import Held, Ledger
from discreet.secret_files import (
    SecretExistsError,
    read_secret,
    remove_unfinished,
    write_secret,
)
from discreet.session.messages import Ending, EndNotice, Kind, Message
from discreet.session.policy import Policy, load
from discreet.session.rehearsal import (
    check_agreed,
    made_up,
    throwaway_folder,
    throwaway_ledger,
)
from discreet.session.respond import admit, check_data
from discreet.session.retrying import WAIT_SECONDS
from discreet.session.site import Site
from discreet.session.state import Progress, after_refusal, memory_beside
from discreet.transport.addresses import (
    SilenceError,
    TransportError,
    UnreachableError,
)
from discreet.transport.keys import POLICY, SiteKeys

Report: TypeAlias = Callable[[str], None]
Answering: TypeAlias = Callable[[Message], Message]
"""Turns one message of the coordinator into its answer."""


class SiteRuntime(Protocol):
    """How a site reaches its coordinator; a transport implements it."""

    def serve(
        self,
        keys: SiteKeys,
        address: str,
        answer: Answering,
        *,
        plan: bytes,
        until: Callable[[], bool],
        wait_seconds: float,
        tell: Callable[[str], None],
        report: Report,
    ) -> None:
        """Connect, and answer messages about a plan (its digest) until ``until`` holds.

        ``tell`` is told of the connection, ``report`` of bytes that are no message.

        Raises:
            UnreachableError: it could not connect.
            SilenceError: no message came for ``wait_seconds``.
        """
        ...

    def fetch_plan(self, keys: SiteKeys, address: str) -> str:
        """Return the plan that a coordinator runs, as its file.

        Raises:
            UnreachableError: as ``probe``.
        """
        ...

    def probe(self, keys: SiteKeys, address: str, *, plan: bytes) -> float | None:
        """Reach a coordinator without joining; return how far this clock is ahead.

        Raises:
            UnreachableError: it cannot be reached, or does not accept the signature.
        """
        ...


class StateStore(Protocol):
    """Keeps a site's state between two messages."""

    def load(self) -> bytes:
        """Return what was saved last, nothing at first."""
        ...

    def save(self, state: bytes) -> None:
        """Keep the state for the next message; the old one is written over."""
        ...


@dataclass(frozen=True, slots=True)
class InFile:
    """On disk, for its owner alone: it outlives a lost connection and a crash."""

    path: Path

    def load(self) -> bytes:
        """Return what was saved last."""
        return self.path.read_bytes() if self.path.exists() else b""

    def save(self, state: bytes) -> None:
        """Replace the file as a whole; an empty state leaves none, nor parts of one."""
        if state:
            write_secret(self.path, state, over=True)
        else:
            self.path.unlink(missing_ok=True)
            remove_unfinished(self.path)


def kept_beside(ledger: Path) -> InFile:
    """Return where a site's state is between two messages."""
    return InFile(ledger.with_name(ledger.name + ".session"))


def response_key_beside(ledger: Path) -> ResponseKey:
    """Return the key of a site's randomized responses, kept beside its ledger.

    It is made once: other responses for the same labels would average out.
    """
    path = ledger.with_name(ledger.name + ".response_key")
    if not path.exists():
        with suppress(SecretExistsError):  # another process was faster
            write_secret(path, SYSTEM(32))
    return ResponseKey(read_secret(path, what="the key of the randomized responses"))


def report_on_stderr(reason: str) -> None:
    """Tell the operator why the site declines."""
    sys.stderr.write(f"discreet: declined: {reason}\n")
    sys.stderr.flush()


def answer_once(
    site_of: Callable[[], Site], message: Message, *, kept: StateStore, report: Report
) -> Message:
    """Answer one message; the state is kept before the answer is returned.

    Args:
        site_of: returns what the site brings, anew for every message.
        message: the coordinator's.
        kept: where the state is between two messages.
        report: told why the site declines.
    """
    state = kept.load()
    try:
        site = site_of()
    except Exception as error:  # noqa: BLE001 - a failure must not tell about data
        report(sentence(error, doing="opening the site"))
        following = after_refusal(state, message)
        reply = message.reply(Kind.DECLINED, site=0)
    else:
        try:
            following, reply = site.answer(state, message, report=report)
        finally:
            site.close()
    kept.save(following)
    return reply


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended for a site."""

    ending: Ending
    declined: bool
    """Whether this site refused to take part, or to go on."""
    charged: bool
    """Whether the session has been charged to this site's ledger."""


@dataclass
class JoiningSite:
    """A site with its data, ready to join.

    Args:
        plan: the plan that the operator agreed to; no other is answered.
        examples: the data.
        policy: what the operator allows.
        ledger: the path of the ledger.
        keys: the site's folder of keys.
        entropy: where keys, masks and noise come from.
        report: told why the site declines.
        answered: told after each answer, with its number among the round's steps.
        tell: told of the connection.
        note: told what the site notes about its own rows, for its operator alone.
        rehearse: take part in a rehearsal of the plan, and in nothing else: the data
            and the ledger are laid aside for made-up ones.

    Its state is kept beside the ledger until the session is over, so that neither a
    lost connection nor a crash loses what was charged.
    """

    plan: Plan
    examples: Examples = field(repr=False)
    policy: Policy
    ledger: Path
    keys: SiteKeys
    entropy: Entropy = field(default=SYSTEM, repr=False)
    report: Report = report_on_stderr
    answered: Callable[[Message, int], None] | None = None
    tell: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    rehearse: bool = False
    _session: bytes | None = field(default=None, init=False)
    _declined: bool = field(default=False, init=False)
    _steps: dict[bytes, int] = field(default_factory=dict, init=False)
    _ending: Ending | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.rehearse:
            self.plan = self.plan.rehearsed()
            self.examples = made_up(self.plan)
            self.ledger = throwaway_ledger(throwaway_folder() / "ledger.sqlite")
        check_agreed(self.plan, rehearsing=self.rehearse)

    def check(self) -> None:
        """Refuse now what would be refused later: keys, policy, data, floors, caps."""
        self.keys.revoked().check(self.plan)
        self.plan.protocol.check(self.plan)
        with self._open_ledger() as ledger:
            session = interrupted_session(self.plan, self.ledger)
            admit(self.plan, self.policy, ledger, session=session)
        check_data(self.plan, self.policy, self.examples)

    def join(
        self,
        runtime: SiteRuntime,
        address: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        checked: bool = False,
    ) -> Ended:
        """Connect, and answer until the coordinator tells how the session ended.

        With ``checked``, ``check`` is not called again.

        Raises:
            TransportError: it could not connect, or the coordinator fell silent.
        """
        if not checked:
            self.check()
        with only_process(self.ledger):
            return self._served(runtime, address, wait_seconds)

    def charged(self) -> bool:
        """Whether the session that this site is in, or was in, has been charged."""
        progress = kept_progress(self.ledger)
        if progress is None or progress.plan_digest != self.plan.digest():
            return False
        with self._open_ledger() as ledger:
            uses = ledger.uses(self.policy.population)
        return any(use.session == progress.charged_as for use in uses)

    def _served(self, runtime: SiteRuntime, address: str, wait_seconds: float) -> Ended:
        try:
            runtime.serve(
                self.keys,
                address,
                self._answer,
                plan=self.plan.digest(),
                until=lambda: self._ending is not None,
                wait_seconds=wait_seconds,
                tell=self.tell,
                report=self.report,
            )
        except TransportError as error:
            mended = isinstance(error, UnreachableError) and not error.worth_seconds
            raise type(error)(
                f"{error}; {self.standing(mended_first=mended)}"
            ) from error
        if self._ending is None:
            raise SilenceError(f"the session was left; {self.standing()}")
        ended = Ended(self._ending, self._declined, self.charged())
        kept_beside(self.ledger).save(b"")
        return ended

    def standing(self, *, mended_first: bool = False) -> str:
        """Say whether a session that has not ended is charged, and how to go on.

        With ``mended_first`` repeating the command alone would not help.
        """
        if self.rehearse:
            return "nothing was charged: this was a rehearsal"
        if self.charged():
            return (
                "this session is charged, and the coordinator did not say how it ended: "
                "run the same command again to go on, without a second charge"
            )
        if mended_first:
            return "nothing was charged"
        return "nothing was charged: run the same command again to go on"

    def _open_ledger(self) -> Ledger:
        return Ledger(self.ledger, limits=limits_of(self.policy, self.keys.revoked()))

    def _answer(self, message: Message) -> Message:
        kept = kept_beside(self.ledger)
        answer = answer_once(self._site, message, kept=kept, report=self.report)
        self._note(message, answer)
        return answer

    def _site(self) -> Site:
        identity, response_key = self.keys.identity(), response_key_beside(self.ledger)
        # The ledger is opened when nothing else can fail: the site closes it.
        return Site(
            lambda _: self.examples,
            self.policy,
            self._open_ledger(),
            self.entropy,
            memory_beside(self.ledger),
            self.plan,
            identity,
            response_key,
            log=self.note,
            rehearsal=self.rehearse,
            revoked=self.keys.revoked(),
        )

    def _note(self, message: Message, answer: Message) -> None:
        if answer.kind is Kind.END:
            # A session that ended before this site was asked is its end, too.
            own = message.plan_digest == self.plan.digest()
            if own and self._session in {None, message.session}:
                self._ending = EndNotice.decode(message.body).ending
            return
        if message.session != self._session:
            self._session, self._steps = message.session, self._answered_before(message)
        self._declined = answer.kind is Kind.DECLINED
        if message.digest() not in self._steps:
            if message.kind is Kind.INVITE:
                self._steps = {}
            self._steps[message.digest()] = len(self._steps) + 1
            if self.answered is not None:
                self.answered(answer, self._steps[message.digest()])

    def _answered_before(self, message: Message) -> dict[bytes, int]:
        """Return the steps that this site had answered before it was started again."""
        progress = kept_progress(self.ledger)
        if progress is None or progress.session != message.session:
            return {}
        before = [
            about
            for about, reply in progress.replies.items()
            if about != message.digest() and reply.round == message.round
        ]
        return {about: number for number, about in enumerate(before, 1)}


def limits_of(policy: Policy, revoked: RevokedKeys) -> Limits:
    """Return what a site's ledger enforces, with members that rotated their keys."""
    return replace(policy.limits(), same_site=revoked.same_site())


@contextmanager
def only_process(ledger: Path) -> Iterator[None]:
    """Refuse a second process of a site, while a first one has its ledger."""
    path = ledger.with_name(ledger.name + ".lock")
    with path.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                "this site takes part already: end its other process, which uses "
                f"{ledger}"
            ) from None
        yield


def purge_site(path: Path, days: int | None = None) -> list[Held]:
    """Erase what a site still stores of sessions that nobody went on with for so long.

    That is their answers in the ledger, and the keys of the session that was left in a
    file beside it. Return what was erased. Without ``days`` the policy beside the ledger
    says how long.

    Raises:
        InputError: a process of this site takes part in a session.
    """
    if days is None:
        policy = path.with_name(POLICY)
        days = load(policy).retention_days if policy.exists() else RETENTION_DAYS
    with only_process(path), Ledger(path) as ledger:
        erased = ledger.purge_old(days)
        ledger.purge(())  # also what a crash left in free space
        held = {each.session for each in ledger.held()}
        kept, progress = kept_beside(path), kept_progress(path)
        aged = _days_since_written(kept.path) >= days
        remove_unfinished(kept.path)
        if aged and (progress is None or progress.charged_as not in held):
            kept.save(b"")
    return erased


def _days_since_written(path: Path) -> float:
    """Return how long ago a file was written; of one that is not there, 0."""
    try:
        return max(time.time() - path.stat().st_mtime, 0.0) / 86_400
    except FileNotFoundError:
        return 0.0


def interrupted_session(plan: Plan, ledger: Path) -> bytes | None:
    """Return the session of a plan that this site was in when it was ended.

    It was charged already: a site whose budget is spent by this very session may
    resume it.
    """
    progress = kept_progress(ledger)
    if progress is None or progress.ending is not None:
        return None
    return progress.charged_as if progress.plan_digest == plan.digest() else None


def kept_progress(ledger: Path) -> Progress | None:
    """Return how far a site was in the session that it was in last, None if in none."""
    try:
        return Progress.decode(kept_beside(ledger).path.read_bytes())
    except (OSError, DiscreetError):
        return None
