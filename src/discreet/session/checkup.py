"""A check-up: many checks, each with its own finding, and no traceback.

A check returns its result as a text or as a ``Note``, or raises: then
the error's own sentence says what is wrong and what to do. No finding holds a value of
the data: what nobody foresaw goes through ``failures.sentence``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from discreet.errors import InputError
from discreet.failures import sentence

ENOUGH_BYTES: Final = 50 * 2**20
"""A ledger grows by kilobytes a session; below this a disk is about to be full."""
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


class Note(str):
    """A finding that is no failure, and worth knowing."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    state: Literal["ok", "note", "fails"]
    text: str

    def __str__(self) -> str:
        return f"{self.state:<6}{self.check:<13}{self.text}"


Check: TypeAlias = Callable[[], str]


def examine(checks: Iterable[tuple[str, Check]]) -> list[Finding]:
    """Run every check, whatever fails; failures of one cause are reported once."""
    findings: list[Finding] = []
    for name, check in checks:
        try:
            text = check()
        except Exception as error:  # noqa: BLE001 - the next check runs, too
            text = sentence(error, doing=f"checking {name}")
            before = next((f for f in findings if f.text == text), None)
            if before is None:
                findings.append(Finding(name, "fails", text))
            else:
                text = f"not looked at: mend the {before.check} first"
                findings.append(Finding(name, "note", text))
        else:
            note = isinstance(text, Note)
            findings.append(Finding(name, "note" if note else "ok", text))
    return findings


def failures(findings: Iterable[Finding]) -> list[Finding]:
    """Return what must be mended."""
    return [finding for finding in findings if finding.state == "fails"]


def require(findings: Iterable[Finding], tell: Callable[[str], None]) -> None:
    """Refuse to go on when something fails; tell all of it when it is several.

    Raises:
        InputError: the one failure, or how many there are.
    """
    failed = failures(findings)
    if len(failed) == 1:
        raise InputError(failed[0].text)
    if failed:
        for finding in failed:
            tell(str(finding))
        raise InputError(f"{len(failed)} checks fail, see above; nothing was asked")


def check_room(folder: Path) -> str:
    """Check the free space on the disk of a folder."""
    free = shutil.disk_usage(folder).free
    if free < ENOUGH_BYTES:
        raise InputError(
            f"the disk of {folder} has {free // 2**20} MB left, and "
            f"{ENOUGH_BYTES // 2**20} are asked for: make room, or a ledger could not "
            "be charged"
        )
    return f"{free // 2**20:,} MB are free"


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written in the end."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}: make it first")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path} may not be written over: choose another file")
    _try_folder(path.parent)


def check_folder(path: Path) -> None:
    """Refuse a folder that could not be made or filled in the end."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder")
    nearest = path
    while not nearest.is_dir():
        nearest = nearest.parent
    _try_folder(nearest)


def _try_folder(folder: Path) -> None:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"nothing can be written into {folder} ({os.strerror(error.errno or 0)})"
        ) from None


def proxy_of(environment: Mapping[str, str], host: str) -> str | None:
    """Return the variable that names a proxy to a host, None if none does."""
    direct = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if proxy_bypass_environment(host, {"no": direct}) or _in_network(direct, host):
        return None
    return next((name for name in _PROXIES if environment.get(name)), None)


def _in_network(direct: str, host: str) -> bool:
    """Whether NO_PROXY names a network that holds an address, as the HTTP client reads it."""
    with suppress(ValueError):  # a name has no network
        address = ip_address(host)
        for entry in direct.split(","):
            with suppress(ValueError):
                named = entry.strip().replace("[", "").replace("]", "")
                if address in ip_network(named, strict=False):
                    return True
    return False


def check_proxy(environment: Mapping[str, str], host: str) -> str:
    """Say whether connections to a host go through a proxy of the environment."""
    variable = proxy_of(environment, host)
    if variable is None:
        return "none is set for this host; the connection is direct"
    return Note(
        f"{variable} is set: the connection goes through that proxy, which must pass "
        "TLS on unopened; NO_PROXY names hosts that are reached directly"
    )
