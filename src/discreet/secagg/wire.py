"""Reading and writing bytes: big-endian, exact lengths, nothing left over.

Every blob starts with the version of the format and a tag that says what it is.
A count is read first and must fit the bytes that follow, so a short message can
never make the reader allocate a large one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import lt
from typing import Final

import numpy as np

from discreet.secagg.errors import MalformedMessageError

VERSION: Final = 3
DIGEST_SIZE: Final = 32
NONCE_SIZE: Final = 32
SESSION_SIZE: Final = 32
MAX_SITES: Final = 100_000
"""No list on the wire is longer."""
MAX_SITE: Final = 2**32 - 1
"""Site numbers are 32-bit and positive: they are Shamir's points, and 0 is taken."""


class Writer:
    """Collects the fields of one blob."""

    def __init__(self, tag: int) -> None:
        self._parts = [bytes((VERSION, tag))]

    def fixed(self, value: bytes, size: int) -> Writer:
        """Add a field whose size the reader knows."""
        if len(value) != size:
            raise ValueError(f"a field of {size} bytes got {len(value)}")
        self._parts.append(value)
        return self

    def number(self, value: int) -> Writer:
        """Add a 32-bit number."""
        self._parts.append(value.to_bytes(4, "big"))
        return self

    def sites(self, sites: Iterable[int]) -> Writer:
        """Add a set of site numbers in increasing order: one set, one encoding."""
        ordered = sorted(sites)
        self.number(len(ordered))
        self._parts.append(struct.pack(f">{len(ordered)}I", *ordered))
        return self

    def records(self, records: Iterable[tuple[int, bytes]], size: int) -> Writer:
        """Add a map from site numbers to fields of one size, in increasing order."""
        ordered = sorted(records)
        self.number(len(ordered))
        wrong = {len(value) for _, value in ordered} - {size}
        if wrong:
            raise ValueError(f"a field of {size} bytes got {wrong.pop()}")
        record = struct.Struct(f">I{size}s")
        self._parts += [record.pack(site, value) for site, value in ordered]
        return self

    def blobs(self, blobs: Iterable[tuple[int, bytes]]) -> Writer:
        """Add a map from site numbers to fields of any size, in increasing order."""
        ordered = sorted(blobs)
        self.number(len(ordered))
        for site, value in ordered:
            self.number(site).number(len(value))
            self._parts.append(value)
        return self

    def rest(self, value: bytes) -> Writer:
        """Add a last field that runs to the end."""
        self._parts.append(value)
        return self

    def done(self) -> bytes:
        """Return the blob."""
        return b"".join(self._parts)


class Reader:
    """Takes one blob apart; raises ``MalformedMessageError`` and nothing else."""

    def __init__(self, raw: bytes, tag: int, what: str) -> None:
        self._raw = raw
        self._at = 2
        self._what = what
        if len(raw) < 2:
            raise self._error("is empty")
        if raw[0] != VERSION:
            raise self._error(f"has version {raw[0]}, this end speaks {VERSION}")
        if raw[1] != tag:
            raise self._error(f"was expected, a message with tag {raw[1]} came")

    def fixed(self, size: int) -> bytes:
        """Read a field of known size."""
        end = self._at + size
        if end > len(self._raw):
            raise self._error("ends too early")
        value = self._raw[self._at : end]
        self._at = end
        return value

    def number(self) -> int:
        """Read a 32-bit number."""
        return int.from_bytes(self.fixed(4), "big")

    def count(self, size: int) -> int:
        """Read how many fields of ``size`` bytes follow, and check that they fit."""
        count = self.number()
        if count > MAX_SITES:
            raise self._error(f"lists {count} entries, at most {MAX_SITES} can be")
        if count * size > len(self._raw) - self._at:
            raise self._error("ends too early")
        return count

    def sites(self) -> tuple[int, ...]:
        """Read a set of site numbers."""
        count = self.count(4)
        sites = struct.unpack(f">{count}I", self.fixed(4 * count))
        self.check_order(sites)
        return sites

    def records(self, size: int) -> dict[int, bytes]:
        """Read a map from site numbers to fields of one size."""
        raw = self.fixed(self.count(4 + size) * (4 + size))
        found = dict(struct.iter_unpack(f">I{size}s", raw))
        self.check_order(site for (site,) in struct.iter_unpack(f">I{size}x", raw))
        return found

    def blobs(self) -> dict[int, bytes]:
        """Read a map from site numbers to fields of any size."""
        pairs = [
            (self.number(), self.fixed(self.number())) for _ in range(self.count(8))
        ]
        self.check_order([site for site, _ in pairs])
        return dict(pairs)

    def check_order(self, sites: Iterable[int]) -> None:
        """Refuse site numbers that are zero, repeated or out of order."""
        found = tuple(sites)
        if not all(map(lt, (0, *found), found)):
            raise self._error("lists sites that repeat or do not increase")

    def rest(self) -> bytes:
        """Read everything that is left."""
        return self.fixed(len(self._raw) - self._at)

    def done(self) -> None:
        """Check that nothing is left."""
        left = len(self._raw) - self._at
        if left:
            raise self._error(f"has {left} bytes too many")

    def _error(self, problem: str) -> MalformedMessageError:
        return MalformedMessageError(f"{self._what} {problem}")


def listed(sites: Sequence[int]) -> bytes:
    """Return a set of sites as bytes to hash or sign."""
    if len(sites) > MAX_SITES:
        raise ValueError(f"at most {MAX_SITES} sites can be listed")
    return np.array(sites, dtype=">u4").tobytes()
