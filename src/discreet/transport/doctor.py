"""What a site and a coordinator check before a session: files, keys, clock, network.

Everything that can fail later is checked now, each thing on its own. So an operator
reads all that is to be mended at once, before any site is asked or charged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from discreet.data.examples import Examples
from discreet.errors import DiscreetError, InputError
from discreet.plan.cohort import fingerprint
from discreet.plan.plan import Plan
from discreet.privacy.account import Limits
from discreet.privacy.ledger import Ledger
from discreet.secret_files import check_secret, read_secret
from discreet.session.checkup import (
    Check,
    Note,
    check_folder,
    check_proxy,
    check_room,
    check_writable,
    proxy_of,
)
from discreet.session.coordinator import NO_ROSTER
from discreet.session.policy import Policy
from discreet.session.preview import CONFIRM, OwnRows, own_rows
from discreet.session.rehearsal import check_agreed
from discreet.session.respond import admit, check_data
from discreet.transport.addresses import (
    EVERYWHERE,
    UnreachableError,
    check_known,
    host_and_port,
    listening_socket,
)
from discreet.transport.joining import SiteRuntime, interrupted_session, limits_of
from discreet.transport.keys import (
    CA,
    CA_KEY,
    CERTIFICATE,
    IDENTITY,
    SERVER_KEY,
    CoordinatorKeys,
    PublicFile,
    SiteKeys,
    certificate_in,
    check_dates,
    hosts_of,
    public_file_in,
    read_certificate,
)


def joining_checks(
    keys: SiteKeys, ledger: Path, runtime: SiteRuntime
) -> Iterator[tuple[str, Check]]:
    """Return the checks of a site that has no plan yet."""
    coordinator = keys.coordinator()

    def check_keys() -> str:
        keys.identity()
        return "readable by their owner alone"

    def check_coordinator() -> str:
        try:
            runtime.fetch_plan(keys, coordinator.address)
        except UnreachableError as error:
            return Note(f"not tried yet: {error}")
        return f"{coordinator.address} is reached"

    def check_ledger() -> str:
        with Ledger(ledger) as opened:
            opened.verify()
        return "intact"

    yield "keys", check_keys
    yield "trust", lambda: _trusted_until(coordinator)
    yield "ledger", check_ledger
    yield "disk", lambda: check_room(ledger.absolute().parent)
    yield "address", lambda: _looked_up(coordinator.address)
    yield "proxy", lambda: _proxied(coordinator.address)
    yield "coordinator", check_coordinator


def _trusted_until(coordinator: PublicFile) -> str:
    authority = read_certificate(coordinator.authority.encode(), "the authority")
    check_dates(
        authority,
        "the coordinator's authority",
        remedy="ask for its new public file, and run `discreet keys trust`",
        now=datetime.now(UTC),
    )
    return f"trusted until {authority.not_valid_after_utc:%Y-%m-%d}"


def _looked_up(address: str) -> str:
    host, port = host_and_port(address)
    if proxy_of(os.environ, host) is not None:
        return Note(f"{host} is looked up by the proxy")
    check_known(host, port)
    return f"{host} is known"


def _proxied(address: str) -> str:
    return check_proxy(os.environ, host_and_port(address)[0])


@dataclass(frozen=True)
class SiteDoctor:
    """Checks one site; each function is called when its result is checked.

    Args:
        plan: reads the plan.
        policy: reads the policy.
        examples: reads the data as the plan expects it.
        keys: the folder of keys.
        ledger: the ledger's path.
        runtime: how the site reaches the coordinator.
        coordinator: where it listens; by default as its public file says.
        confirms: asks the operator whether odd rows are meant; nobody is asked by
            default, and odd rows fail.
    """

    plan: Callable[[], Plan]
    policy: Callable[[], Policy]
    examples: Callable[[Plan], Examples]
    keys: Path
    ledger: Path
    runtime: SiteRuntime
    coordinator: str | None = None
    confirms: Callable[[str], bool] = lambda _: False

    def checks(
        self, *, connect: bool, charged: bool = True
    ) -> Iterator[tuple[str, Check]]:
        """Return the checks.

        Joining tries the connection by itself; a rehearsal charges nothing.
        """
        yield "plan", self._check_plan
        yield "policy", self._check_policy
        yield "data", self._check_data
        yield "own rows", lambda: str(self._own_rows)
        yield "plausible", self._check_own_rows
        yield "keys", self._check_keys
        yield "roster", self._check_roster
        yield "trust", self._check_authority
        yield "ledger", self._check_ledger
        if charged:
            yield "budget", self._check_budget
        yield "disk", lambda: check_room(self.ledger.absolute().parent)
        yield "address", lambda: _looked_up(self.address)
        yield "proxy", lambda: _proxied(self.address)
        if connect:
            yield "coordinator", self._check_coordinator

    @cached_property
    def _plan(self) -> Plan:
        return self.plan()

    @cached_property
    def _policy(self) -> Policy:
        return self.policy()

    @cached_property
    def _examples(self) -> Examples:
        if self._plan.model.scoring is not None:
            self._policy.check(self._plan)  # before a model file is run
        return self.examples(self._plan)

    @cached_property
    def _own_rows(self) -> OwnRows:
        return own_rows(self._plan, self._examples)

    @cached_property
    def _keys(self) -> SiteKeys:
        return SiteKeys(self.keys)

    @property
    def _limits(self) -> Limits:
        return limits_of(self._policy, self._keys.revoked())

    def _check_plan(self) -> str:
        self._plan.protocol.check(self._plan)
        check_agreed(self._plan, rehearsing=False)
        roster = self._plan.roster
        who = "no roster" if roster is None else f"{len(roster.sites)} sites"
        return f"{self._plan.digest().hex()[:16]}, {who}"

    def _check_policy(self) -> str:
        self._policy.check(self._plan)
        return "it allows the plan"

    def _check_data(self) -> str:
        check_data(self._plan, self._policy, self._examples)
        return "columns, kinds and floors fit the plan"

    def _check_own_rows(self) -> str:
        concerns = "; ".join(self._own_rows.concerns())
        if not concerns:
            return "prevalence and AUC are what can be expected"
        if self.confirms(f"{self._own_rows}: {concerns}."):
            return Note(f"confirmed by the operator: {concerns}")
        raise InputError(f"{concerns}. Nothing was sent; {CONFIRM}")

    @property
    def address(self) -> str:
        """Where the coordinator is reached."""
        return self.coordinator or self._keys.coordinator().address

    def _check_keys(self) -> str:
        self._keys.identity()
        return "readable by their owner alone"

    def _check_roster(self) -> str:
        roster = self._plan.roster
        self._keys.revoked().check(self._plan)
        if roster is None:
            return Note("the plan has none: nobody can tell which sites are in a sum")
        own = self._keys.identity().public_key().public_bytes_raw()
        if own not in {site.key for site in roster.sites}:
            raise InputError(
                f"this site's identity ({fingerprint(own)}) is not in the plan's "
                "roster: is this the folder of another site, or the plan an older one?"
            )
        public = public_file_in(self.keys)
        if public.identity != own or public.name != roster.name_of(own):
            raise InputError(
                "the public file in this folder is not the one in the roster: send "
                "it again, and compare fingerprints by voice"
            )
        return f"this site is {public.name!r}"

    def _check_authority(self) -> str:
        trusted, roster = self._keys.coordinator(), self._plan.roster
        if roster is not None and roster.coordinator not in {None, trusted.identity}:
            raise InputError(
                "the plan's roster names another coordinator than the one that this "
                "site trusts: run `discreet keys trust` with its public file"
            )
        return _trusted_until(trusted)

    def _check_ledger(self) -> str:
        with Ledger(self.ledger, limits=self._limits) as ledger:
            ledger.verify()
        return "intact"

    def _check_budget(self) -> str:
        with Ledger(self.ledger, limits=self._limits) as ledger:
            session = interrupted_session(self._plan, self.ledger)
            admit(self._plan, self._policy, ledger, session=session)
        if session is None:
            return "it can pay for the plan"
        return Note("it goes on with the session that it was in")

    def _check_coordinator(self) -> str:
        try:
            ahead = self.runtime.probe(
                self._keys, self.address, plan=self._plan.digest()
            )
        except UnreachableError as error:
            if error.worth_seconds:
                return Note(
                    f"{error} Until then its certificate, its clock and this site's "
                    "signature cannot be tried"
                )
            raise
        reached = (
            "reached by this certificate; it runs this plan and accepts the signature"
        )
        if ahead is None:
            return reached
        return f"{reached}; clocks differ by {abs(ahead):.0f} s"


@dataclass(frozen=True)
class CoordinatorDoctor:
    """Checks a coordinator.

    Args:
        plan: reads the plan.
        keys: the folder of keys.
        host: the address to listen at.
        port: the port to listen at.
        files: the files that are written in the end.
        folders: the folders that are written into in the end.
        unauthenticated: whether a plan without a roster is meant.
        tls: whether its port shows a certificate; a reverse proxy may do so instead.
    """

    plan: Callable[[], Plan]
    keys: Path
    host: str
    port: int
    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    unauthenticated: bool = False
    tls: bool = True

    def checks(self) -> Iterator[tuple[str, Check]]:
        """Return the checks."""
        yield "plan", self._check_plan
        yield "keys", self._check_keys
        yield "roster", self._check_roster
        if self.tls:
            yield "certificate", self._check_certificate
            yield "names", self._check_names
        yield "port", self._check_port
        yield "outputs", self._check_outputs
        yield "disk", lambda: check_room(self.keys.absolute())

    @cached_property
    def _plan(self) -> Plan:
        return self.plan()

    @cached_property
    def _keys(self) -> CoordinatorKeys:
        return CoordinatorKeys(self.keys)

    def _check_plan(self) -> str:
        self._plan.protocol.check(self._plan)
        check_agreed(self._plan, rehearsing=False)
        if self._plan.roster is not None:
            return f"{self._plan.digest().hex()[:16]}, {len(self._plan.roster.sites)} sites"
        if not self.unauthenticated:
            raise InputError(NO_ROSTER)
        return Note("no roster: the claim names unauthenticated sites as not protected")

    def _check_keys(self) -> str:
        for name in (CA_KEY, SERVER_KEY, IDENTITY):
            check_secret(self._keys.folder / name, what="the secret")
        return "readable by their owner alone"

    def _check_roster(self) -> str:
        roster = self._plan.roster
        self._keys.revoked().check(self._plan)
        if not self._keys.admitted(self._plan):
            raise InputError(
                "the plan has no roster, and this folder no site's public file: "
                "`discreet roster` takes them"
            )
        if roster is None or roster.coordinator is None:
            return Note("it names no coordinator: invitations are not signed")
        own = self._keys.identity().public_key().public_bytes_raw()
        if own != roster.coordinator:
            raise InputError(
                f"the plan's roster names another coordinator than {self.keys}: is "
                "this the folder that the roster was made with?"
            )
        return "this folder is the roster's coordinator"

    def _check_certificate(self) -> str:
        warning = self._keys.check_dates()
        own = self._keys.certificate()
        authority = certificate_in(self.keys, CA)
        try:
            own.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            raise InputError(
                f"{CERTIFICATE} is not signed by {CA}, which the sites trust: run "
                "`discreet keys renew`"
            ) from None
        raw = read_secret(self.keys / SERVER_KEY, what="the server key")
        key = load_pem_private_key(raw, password=None)
        if key.public_key() != own.public_key():
            raise InputError(
                f"{SERVER_KEY} does not belong to {CERTIFICATE}: run `discreet keys "
                "renew`"
            )
        end = f"holds until {own.not_valid_after_utc:%Y-%m-%d}"
        return end if warning is None else Note(warning)

    def _check_names(self) -> str:
        names = hosts_of(self._keys.certificate())
        unknown = []
        for name in names:
            try:
                check_known(name, self.port)
            except DiscreetError:
                unknown.append(name)
        text = f"sites reach it as {', '.join(names)}"
        if unknown:
            return Note(f"{text}; this machine's DNS does not know {unknown[0]}")
        if self.host not in {*names, *EVERYWHERE}:
            return Note(f"{text}, and not as {self.host}, where it listens")
        return text

    def _check_port(self) -> str:
        listening_socket(self.host, self.port).close()
        return f"{self.host}:{self.port} is free"

    def _check_outputs(self) -> str:
        for path in self.files:
            check_writable(path)
        for path in self.folders:
            check_folder(path)
        return "they can be written" if self.files or self.folders else "none was asked"
