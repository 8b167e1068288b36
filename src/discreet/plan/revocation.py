"""Revoked keys: whose signature counts no longer, since when, and which key follows.

The owner of a key revokes it with the key itself, and its next key signs along: so nobody
can name another member's key as the next one. A key that was lost cannot sign; whoever
hears of it by voice writes the revocation down unsigned.

Each member keeps the revocations that it knows of in one file beside its keys. A plan
whose roster holds one of these keys is refused. Old signatures do not become false, they
stop being evidence: a thief can sign anything and write any date.

A member that rotates its key stays the same member. Exact sums are compared by who is in
them (:mod:`discreet.privacy.account`), so ``RevokedKeys.same_site`` names each later key
by its first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, Self, TypeAlias

import tomli_w

from discreet.codec.documents import Text, from_table, to_table, written
from discreet.codec.parsing import name, read_text, read_toml
from discreet.errors import InputError, PlanError
from discreet.plan.cohort import fingerprint, key_from_text, key_text
from discreet.plan.plan import Plan
from discreet.secagg.keys import signature_holds

REVOKED: Final = "revoked.toml"
"""The file of the revocations that a member knows of, beside its keys."""
SUFFIX: Final = ".revoked.toml"
"""Of the file that the owner of a revoked key sends to the others."""
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_STATEMENT: Final = b"discreet revocation\0"

Sign: TypeAlias = Callable[[bytes], bytes]
_Key: TypeAlias = Annotated[bytes, Text(key_text, key_from_text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """One key that counts no longer.

    Args:
        name: how the others call its owner.
        key: the revoked key.
        since: the day from which its signatures are no evidence, as YYYY-MM-DD.
        successor: the owner's next key, if there is one.
        signature: of the revoked key; empty where it was lost.
        successor_signature: of the next key; empty where there is none.
    """

    name: str
    key: _Key
    since: str
    successor: _Key | None = None
    signature: bytes = field(default=b"", metadata=written(left_out=True))
    successor_signature: bytes = field(default=b"", metadata=written(left_out=True))

    def __post_init__(self) -> None:
        name(self.name, "the name in a revocation", error=InputError)
        try:
            known = bool(_DAY.fullmatch(self.since)) and date.fromisoformat(self.since)
        except ValueError:
            known = False
        if not known:
            raise InputError("a revocation has a day, written YYYY-MM-DD")
        if self.successor == self.key:
            raise InputError("a revoked key does not follow itself")
        for key, signature in (
            (self.key, self.signature),
            (self.successor, self.successor_signature),
        ):
            if signature and (
                key is None or not signature_holds(key, signature, self._statement())
            ):
                raise InputError(
                    f"the revocation of {self.name}'s key is not signed by its keys: "
                    "ask for it again"
                )

    def _statement(self) -> bytes:
        texts = (
            self.name.encode(),
            self.key,
            self.since.encode(),
            self.successor or b"",
        )
        sized = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
        return _STATEMENT + sized

    def signed(self, old: Sign, new: Sign | None = None) -> Self:
        """Return it with the signatures of the revoked key and of the next one."""
        statement = self._statement()
        following = b"" if new is None else new(statement)
        return replace(self, signature=old(statement), successor_signature=following)

    @property
    def proven(self) -> bool:
        """Whether all keys that it names have signed it."""
        followed = self.successor is None or bool(self.successor_signature)
        return bool(self.signature) and followed

    def __str__(self) -> str:
        return (
            f"a key of {self.name} that was revoked on {self.since} "
            f"({fingerprint(self.key)})"
        )


@dataclass(frozen=True, slots=True)
class RevokedKeys:
    """The revocations that a member knows of, or that one owner sent to the others."""

    revoked: tuple[Revocation, ...] = ()

    @classmethod
    def beside(cls, folder: Path) -> Self:
        """Read those of a folder of keys; without the file there are none."""
        path = folder / REVOKED
        return cls.read(path) if path.exists() else cls()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a member's own file, or the file that one owner sent."""
        what = "the file of revoked keys"
        table = read_toml(read_text(path, what), what, error=InputError)
        return from_table(cls, table, what, error=InputError)

    @classmethod
    def sent(cls, path: Path) -> Self:
        """Read a file that the owner of keys sent: each signed, one after the other."""
        read = cls.read(path)
        linked = all(r.successor == after.key for r, after in pairwise(read.revoked))
        if not (read.revoked and linked and all(r.proven for r in read.revoked)):
            raise InputError(
                f"{path.name} is not signed by the keys that it names: a lost key is "
                "revoked by its text, ed25519:KEY, after a call to its owner"
            )
        return read

    def dumps(self) -> str:
        """Write it as a file."""
        return tomli_w.dumps(to_table(self))

    def leading_to(self, revocation: Revocation) -> Self:
        """Return a revocation and those of its owner's earlier keys, oldest first.

        The owner sends all of them: whoever missed one learns of it with the next.
        """
        chain, seen = [revocation], {revocation.key}
        while before := next(
            (r for r in self.revoked if r.successor == chain[0].key and r.proven), None
        ):
            if before.key in seen:
                break
            seen.add(before.key)
            chain.insert(0, before)
        return replace(self, revoked=tuple(chain))

    def adding(self, revocation: Revocation) -> Self:
        """Return these and one more; of two about one key the later one stays."""
        others = (r for r in self.revoked if r.key != revocation.key)
        return replace(self, revoked=(*others, revocation))

    def of(self, key: bytes | None) -> Revocation | None:
        """Return the revocation of a key, None if it counts."""
        return next((r for r in self.revoked if r.key == key), None)

    def reasons(self, plan: Plan) -> Iterator[str]:
        """Yield which keys of a plan's roster count no longer."""
        if plan.roster is None:
            return
        members = (site.key for site in plan.roster.sites)
        for key in (plan.roster.coordinator, *members):
            revocation = self.of(key)
            if revocation is not None:
                yield (
                    f"the plan's roster holds {revocation}: ask for a plan with a new "
                    "roster"
                )

    def check(self, plan: Plan) -> None:
        """Refuse a plan whose roster holds a revoked key.

        Raises:
            PlanError: names it.
        """
        for reason in self.reasons(plan):
            raise PlanError(reason)

    def same_site(self) -> dict[str, str]:
        """Return the first key of its owner for each later key, as texts.

        Only for keys whose successors were proven, or written down by this member.
        """
        before = {r.successor: r.key for r in self.revoked if r.successor is not None}
        first: dict[str, str] = {}
        for key in before:
            oldest, seen = key, {key}
            while oldest in before and before[oldest] not in seen:
                oldest = before[oldest]
                seen.add(oldest)
            first[key_text(key)] = key_text(oldest)
        return first
