"""A whole site: its data, its rules and its keys, joining a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flwr.app import Context, Message

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import DiscreetError
from discreet.plan.plan import Plan
from discreet.privacy.ledger import Ledger
from discreet.session.messages import Ending, EndNotice, Kind
from discreet.session.messages import Message as SessionMessage
from discreet.session.policy import Policy
from discreet.session.rehearsal import (
    check_agreed,
    made_up,
    throwaway_folder,
    throwaway_ledger,
)
from discreet.session.respond import admit, check_data
from discreet.session.retrying import WAIT_SECONDS
from discreet.session.site import Site
from discreet.session.state import Progress, memory_beside
from discreet.transport.flower.client import (
    InFile,
    Report,
    flip_key,
    handler,
    report_on_stderr,
)
from discreet.transport.flower.keys import SiteKeys
from discreet.transport.flower.serving import SilenceError, serve


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended for a site."""

    ending: Ending
    declined: bool
    """Whether this site refused to take part, or to go on."""


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
        tell: told of the connection, and what the site notes for its operator.
        rehearse: take part in a rehearsal of the plan, and in nothing else: the data
            and the ledger are laid aside for made-up ones.

    Its state is kept beside the ledger until the session is over, so that neither a
    lost connection nor a crash loses what was paid for.
    """

    plan: Plan
    examples: Examples = field(repr=False)
    policy: Policy
    ledger: Path
    keys: SiteKeys
    entropy: Entropy = field(default=SYSTEM, repr=False)
    report: Report = report_on_stderr
    answered: Callable[[SessionMessage, int], None] | None = None
    tell: Callable[[str], None] = lambda _: None
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
        """Refuse now what would be refused later: policy, data, floors, caps."""
        self.plan.protocol.check(self.plan)
        with self._open_ledger() as ledger:
            paid = interrupted_session(self.plan, self.ledger)
            admit(self.plan, self.policy, ledger, session=paid)
        check_data(self.plan, self.policy, self.examples)

    def join(
        self,
        address: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        checked: bool = False,
    ) -> Ended:
        """Connect, and answer until the coordinator says how the session ended.

        ``checked`` says that ``check`` need not be called again.

        Raises:
            ProcessError: it could not connect, or the coordinator fell silent.
        """
        if not checked:
            self.check()
        kept = kept_beside(self.ledger)
        try:
            serve(
                self.keys,
                address,
                handler(self._site, report=self.report, answered=self._note, kept=kept),
                until=lambda: self._ending is not None,
                wait_seconds=wait_seconds,
                tell=self.tell,
            )
        except SilenceError as error:
            if self._session is None:
                raise
            raise SilenceError(
                f"{error}; the coordinator did not say how it ended"
            ) from error
        if self._ending is None:
            raise SilenceError("the coordinator did not say how it ended")
        kept.path.unlink(missing_ok=True)
        return Ended(self._ending, self._declined)

    def _open_ledger(self) -> Ledger:
        return Ledger(self.ledger, limits=self.policy.limits())

    def _site(self, message: Message, context: Context) -> Site:
        del message, context
        identity, response_key = self.keys.identity(), flip_key(self.ledger)
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
            log=self.tell,
            rehearsal=self.rehearse,
        )

    def _note(self, letter: SessionMessage, answer: SessionMessage) -> None:
        if answer.kind is Kind.END:
            # A session that ended before this site was asked is its end, too.
            own = letter.plan_digest == self.plan.digest()
            if own and self._session in {None, letter.session}:
                self._ending = EndNotice.decode(letter.body).ending
            return
        if letter.session != self._session:
            self._session, self._steps = letter.session, self._answered_before(letter)
        self._declined = answer.kind is Kind.DECLINED
        if letter.digest() not in self._steps:
            if letter.kind is Kind.INVITE:
                self._steps = {}
            self._steps[letter.digest()] = len(self._steps) + 1
            if self.answered is not None:
                self.answered(answer, self._steps[letter.digest()])

    def _answered_before(self, letter: SessionMessage) -> dict[bytes, int]:
        """Return the steps that this site had answered before it was started again."""
        progress = _kept_progress(self.ledger)
        if progress is None or progress.session != letter.session:
            return {}
        before = [
            about
            for about, raw in progress.replies.items()
            if about != letter.digest()
            and SessionMessage.decode(raw).round == letter.round
        ]
        return {about: number for number, about in enumerate(before, 1)}


def kept_beside(ledger: Path) -> InFile:
    """Return where a site's state is between two letters."""
    return InFile(ledger.with_name(ledger.name + ".session"))


def interrupted_session(plan: Plan, ledger: Path) -> bytes | None:
    """Return the session of a plan that this site was in when it was ended.

    What it has paid for is not counted twice: a site whose budget is spent by the
    very session that it goes on with may go on.
    """
    progress = _kept_progress(ledger)
    if progress is None or progress.ending is not None:
        return None
    return progress.charged_as if progress.plan_digest == plan.digest() else None


def _kept_progress(ledger: Path) -> Progress | None:
    try:
        return Progress.decode(kept_beside(ledger).path.read_bytes())
    except (OSError, DiscreetError):
        return None
