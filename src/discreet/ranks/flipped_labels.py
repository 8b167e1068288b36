"""A site's labels, flipped once: the same flips for every model, one charge.

A flip is a function of a secret key, the set of labels and the example's id. The
set is part of it because one flip on two different labels of the same example would
show whether they agree: a corrected label, an added example or a new order of rows
without ids is another set, with fresh flips for all and a charge of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import CodeVector, IntVector
from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.statistic.protocol import check_binary

_SET_DOMAIN: Final = b"discreet/1/label-set"
_CHARGE_DOMAIN: Final = b"discreet/1/label-charge"


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The labels of a site's examples by their ids, in the order of the rows."""

    labels: CodeVector
    ids: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.ids) != self.labels.size:
            raise InputError(
                f"{self.labels.size} labels need as many ids, got {len(self.ids)}"
            )
        if len(set(self.ids)) != len(self.ids):
            raise InputError("the ids of the examples must differ")

    @classmethod
    def of(cls, examples: Examples) -> LabelSet:
        """Take the labels; the ids are the subjects where each has one example.

        Otherwise an example's id is the number of its row: then another order of
        the same rows is another label set.
        """
        check_binary(examples)
        subjects: list[object] = []
        named = True
        labels = []
        for batch in examples.batches():
            labels.append(batch.labels)
            named = named and batch.subjects is not None
            if batch.subjects is not None:
                subjects.extend(batch.subjects.tolist())
        every = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int64)
        if named and len(set(subjects)) == every.size:
            return cls(every, tuple(f"subject {s}".encode() for s in subjects))
        return cls(every, tuple(b"row %d" % i for i in range(every.size)))

    @cached_property
    def digest(self) -> bytes:
        """One hash of which example has which label, whatever their order."""
        rows = sorted(zip(self.ids, self.labels.tolist(), strict=True))
        parts = [b"%d %d %b" % (label, len(i), i) for i, label in rows]
        return hashlib.sha256(b"".join(parts)).digest()

    def flipped(self, response: RandomizedResponse, key: ResponseKey) -> IntVector:
        """Return the labels to use instead: the same whenever they are asked for."""
        return response.flip(self.labels, self.ids, key=self._own(key))

    def charge(self, response: RandomizedResponse, key: ResponseKey) -> bytes:
        """Return what two uses of the same flips have in common."""
        loss = str(response.loss()).encode()
        return hmac.digest(self._own(key).secret, _CHARGE_DOMAIN + loss, "sha256")

    def _own(self, key: ResponseKey) -> ResponseKey:
        return ResponseKey(hmac.digest(key.secret, _SET_DOMAIN + self.digest, "sha256"))
