r"""Reports of phones and browsers: one example, one private symbol, one message.

    report = discreet.phone.randomize(parameters, score=0.83, label=1)
    send(report.encode())

A client follows ``docs/reports.md``, which defines the parameters, the sampling and the
bytes. This module needs the standard library alone, and no NumPy. ``clients/js`` is its
twin for browsers, and :class:`discreet.noise.arc.CircularArc` the vectorised one; all three
follow ``vectors/reports``.

**Privacy.** The client's cell x (label and bin of the score) gives the symbol o with
probability n/W if the arc of L cells that starts at o holds x, else D/W. W does not depend
on x, and :math:`n/D \le e^\varepsilon`: so no report tells two examples apart by more than
:math:`e^\varepsilon`, whoever reads it. The client itself checks n/D against epsilon, and
:class:`Budget` bounds how many reports a person sends.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, Final, NoReturn, Self, TypeAlias

from discreet.codec.parsing import read_json, whole
from discreet.errors import BudgetError, InputError, PlanError

VERSION: Final = 1
"""Of the parameters and of a report's bytes."""
DENOMINATOR: Final = 2**32
"""D: the odds of the arc are a multiple of 1/D, less than 2/D below e^epsilon."""
MAX_EPSILON: Final = 16
"""Beyond it a symbol tells the cell with odds of nine million to one."""
FEWEST_BINS, MOST_BINS = 4, 128
"""Fewer are not decoded; of more a symbol would not fit a byte."""
MOST_WEIGHT: Final = 2**62
"""W stays below it, so that 64-bit words draw below W with few rejections."""
MOST_REPORTS: Final = 1000
MOST_DAYS: Final = 3660
ID_SIZE: Final = 16
REPORT_SIZE: Final = 1 + 8 + ID_SIZE + 1
"""Bytes of a report: version, plan, id, symbol."""
_PLAN: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[0-9a-f]{32}")
_MOST_DIGITS: Final = 30
_DIGITS: Final = re.compile(rf"0|[1-9][0-9]{{0,{_MOST_DIGITS - 1}}}")
_KEYS: Final = frozenset(
    {
        *("discreet", "version", "plan", "epsilon", "edges", "odds", "length"),
        *("reports_per_person", "period_days"),
    }
)
_DAY: Final = 86_400
_PLANS_PART: Final = 16
"""Hexadecimal digits of the plan's digest in a report."""

_TURN: Final = threading.Lock()
"""Questions wait for each other: two that read one memory would both be answered."""

Draw: TypeAlias = Callable[[int], bytes]
"""Return that many fresh random bytes."""


def arc_length(bins: int, epsilon: Fraction) -> int:
    r"""Return the arc's length L, :math:`2B\varepsilon^{-0.7}/4` rounded.

    At least 1 and below B: arcs of B cells would show how the classes differ in each bin
    and never what they add up to. Decided in rationals,
    :math:`(L - 1/2)^{10} \varepsilon^7 \le (B/2)^{10}`, so that every client and every
    reader gets the same number.
    """
    power, rounded = epsilon**7, 0
    while rounded < bins and Fraction(2 * rounded + 1, bins) ** 10 * power <= 1:
        rounded += 1
    return max(1, min(rounded, bins - 1))


def exp_below(x: Fraction, scale: int) -> int:
    r"""Return an integer in :math:`(s e^x - 2, s e^x]`, s the scale, x positive.

    A partial sum of :math:`\sum x^k/k!` is below :math:`e^x`, and it is stopped
    when what is left is below 1/s: the terms then at least halve.
    """
    term, partial, k = Fraction(1), Fraction(1), 0
    while k < 2 * x or 2 * scale * term >= 1:
        k += 1
        term *= x / k
        partial += term
    return int(partial * scale)


def uniform_below(bound: int, entropy: Draw) -> int:
    """Return a uniform integer below a bound: 64-bit words, by rejection.

    A word w is accepted if the whole block of ``bound`` integers that it lies in is
    below 2^64; then w modulo ``bound`` is uniform.
    """
    while True:
        word = int.from_bytes(entropy(8), "little")
        rest = word % bound
        if word - rest <= 2**64 - bound:
            return rest


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a client needs to know of a plan; public, and checked by the client.

    Args:
        plan: the SHA-256 of the plan, 64 hexadecimal digits.
        epsilon: the loss of one report.
        edges: the edges between the bins, in increasing order: one fewer than bins.
        likely: n, the weight of each symbol whose arc holds the client's cell.
        unlikely: D, the weight of every other symbol.
        length: L, the cells of an arc.
        reports_per_person: how many reports a person sends at most, in a period.
        period_days: the length of a period; None means the plan's whole life.
    """

    plan: str
    epsilon: Fraction
    edges: tuple[float, ...]
    likely: int
    unlikely: int
    length: int
    reports_per_person: int = 1
    period_days: int | None = None

    def __post_init__(self) -> None:
        if _PLAN.fullmatch(self.plan) is None:
            _refuse("the plan's digest has 64 hexadecimal digits")
        digits = len(str(max(self.epsilon.as_integer_ratio())))
        if not 0 < self.epsilon <= MAX_EPSILON or digits > _MOST_DIGITS:
            _refuse(
                f"epsilon is above 0 and at most {MAX_EPSILON}, and is written with at "
                f"most {_MOST_DIGITS} digits"
            )
        if not FEWEST_BINS <= self.bins <= MOST_BINS:
            _refuse(f"there are between {FEWEST_BINS} and {MOST_BINS} bins")
        increasing = all(
            a < b for a, b in zip(self.edges, self.edges[1:], strict=False)
        )
        if not increasing or not all(map(math.isfinite, self.edges)):
            _refuse("edges are finite numbers in increasing order")
        if not 1 <= self.unlikely <= DENOMINATOR or self.likely < self.unlikely:
            _refuse(f"odds are n/D with 1 <= D <= {DENOMINATOR} and n >= D")
        if self.likely > exp_below(self.epsilon, self.unlikely):
            _refuse(
                "the odds exceed e^epsilon: such a report is less private than said"
            )
        if not 1 <= self.length < self.bins:
            _refuse("an arc has at least one cell and fewer cells than there are bins")
        if self.total_weight >= MOST_WEIGHT:
            _refuse("the weights are too large for 64-bit words")
        whole(
            self.reports_per_person, "reports of a person", least=1, most=MOST_REPORTS
        )
        if self.period_days is not None:
            whole(self.period_days, "the days of a period", least=1, most=MOST_DAYS)

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Read parameters from JSON.

        Raises:
            PlanError: what is wrong with them.
        """
        table = read_json(text, "the parameters")
        if not isinstance(table, dict) or set(table) != _KEYS:
            _refuse(f"the parameters hold {', '.join(sorted(_KEYS))}, and nothing else")
        if table["discreet"] != "report parameters" or _other(table["version"]):
            _refuse(f"this client reads report parameters of version {VERSION}")
        if not isinstance(table["plan"], str) or not isinstance(table["edges"], list):
            _refuse("the plan is a text, and the edges are a list")
        if not all(type(e) in (int, float) for e in table["edges"]):
            _refuse("edges are numbers")
        epsilon, odds = _pair(table["epsilon"]), _pair(table["odds"])
        return cls(
            table["plan"],
            Fraction(*epsilon),
            tuple(float(e) for e in table["edges"]),
            *odds,
            whole(table["length"], "the length of an arc"),
            table["reports_per_person"],
            table["period_days"],
        )

    def write(self) -> str:
        """Return the parameters as JSON, which ``read`` reads."""
        document = {
            "discreet": "report parameters",
            "version": VERSION,
            "plan": self.plan,
            "epsilon": [str(part) for part in self.epsilon.as_integer_ratio()],
            "odds": [str(self.likely), str(self.unlikely)],
            "length": self.length,
            "edges": list(self.edges),
            "reports_per_person": self.reports_per_person,
            "period_days": self.period_days,
        }
        return json.dumps(document, indent=1) + "\n"

    @property
    def bins(self) -> int:
        """B, the number of bins."""
        return len(self.edges) + 1

    @property
    def cells(self) -> int:
        """2B: two classes, every bin; as many symbols."""
        return 2 * self.bins

    @property
    def total_weight(self) -> int:
        """W, the sum of the weights of all symbols, whatever the cell."""
        return self.length * self.likely + (self.cells - self.length) * self.unlikely

    def cell(self, score: float, label: int | bool) -> int:
        """Return the cell of an example: its bin, plus B if it is positive.

        The bin is the number of edges at or below the score. A score outside the
        plan's range, or infinite, falls into the first or the last bin.
        """
        if label not in (0, 1):
            raise InputError("a label is 0 or 1: of the negative or the positive class")
        number: object = score
        if not isinstance(number, Real) or number != number:  # noqa: PLR0124 - NaN alone
            raise InputError("a score is a number")
        # NumPy would compare a float32 with an edge rounded to it.
        try:
            double = float(number)
        except OverflowError:
            raise InputError("a score is a number that a double holds") from None
        return bisect_right(self.edges, double) + self.bins * int(label)

    def symbol(self, cell: int, drawn: int) -> int:
        """Return the symbol of a cell and an integer below W.

        The first L n integers go, n each, to the arcs that hold the cell (they start 0
        to L - 1 before it); the others, D each, to the arcs that start after it.
        """
        inside = self.length * self.likely
        if drawn < inside:
            return (cell - drawn // self.likely) % self.cells
        return (cell + 1 + (drawn - inside) // self.unlikely) % self.cells


def _other(version: object) -> bool:
    return type(version) is not int or version != VERSION


def _refuse(reason: str) -> NoReturn:
    raise PlanError(f"these are no parameters to send reports by: {reason}")


def _pair(value: object) -> tuple[int, int]:
    """Read two whole numbers, written as texts: JSON's own have 53 bits in browsers."""
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(isinstance(v, str) and _DIGITS.fullmatch(v) for v in value)
        or value[1] == "0"
    ):
        _refuse("epsilon and odds are two whole numbers each, written as texts")
    return int(value[0]), int(value[1])


@dataclass(frozen=True, slots=True)
class Report:
    """What one client sends: a symbol, and a random id that tells repeats apart.

    Args:
        plan: the first 16 hexadecimal digits of the plan's digest.
        id: 32 hexadecimal digits, drawn at random; equal when a report is sent again.
        symbol: the private symbol.
    """

    plan: str
    id: str
    symbol: int

    def encode(self) -> bytes:
        """Return the report's 26 bytes: version, plan, id, symbol."""
        head = bytes([VERSION]) + bytes.fromhex(self.plan + self.id)
        return head + bytes([self.symbol])

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Read the bytes of one report.

        Raises:
            InputError: it has another length or version.
        """
        if len(raw) != REPORT_SIZE or raw[0] != VERSION:
            raise InputError(
                f"a report has {REPORT_SIZE} bytes and begins with its version {VERSION}"
            )
        return cls(raw[1:9].hex(), raw[9:-1].hex(), raw[-1])

    def fields(self) -> dict[str, Any]:
        """Return the report as plain values, the columns of a table of reports."""
        return {"plan": self.plan, "id": self.id, "symbol": self.symbol}


def randomize(
    parameters: Parameters,
    score: float,
    label: int | bool,
    *,
    entropy: Draw = secrets.token_bytes,
) -> Report:
    """Return the private report of one example.

    Two calls of the same example cost twice epsilon: use :class:`Budget` to repeat an
    answer instead. Whether an application sends must not depend on score or label.

    Args:
        parameters: the plan's, which ``discreet phone parameters`` writes.
        score: the model's score, on the plan's scale.
        label: 1 for the positive class, 0 for the negative.
        entropy: secret bytes; the operating system's, but in a test.

    Raises:
        InputError: the score is no number, or the label is neither 0 nor 1.
    """
    cell = parameters.cell(score, label)
    identity = entropy(ID_SIZE).hex()
    drawn = uniform_below(parameters.total_weight, entropy)
    return Report(
        parameters.plan[:_PLANS_PART], identity, parameters.symbol(cell, drawn)
    )


class Budget:
    """A client's own budget: so many reports of a person by plan and period.

    Args:
        parameters: the plan's.
        storage: where answers are remembered, such as a ``shelve``: texts by name. It is
            the promise: a client whose storage is lost may send again.
        clock: seconds since 1970.

    >>> from fractions import Fraction
    >>> likely = exp_below(Fraction(1), DENOMINATOR)
    >>> edges = tuple(k / 8 for k in range(1, 8))
    >>> parameters = Parameters("0" * 64, Fraction(1), edges, likely, DENOMINATOR, 4)
    >>> budget = Budget(parameters, {})
    >>> first = budget.report(0.8, 1, about="message 17")
    >>> budget.report(0.8, 1, about="message 17") == first
    True
    >>> budget.report(0.3, 0, about="message 18") is None
    True
    """

    def __init__(
        self,
        parameters: Parameters,
        storage: MutableMapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
        entropy: Draw = secrets.token_bytes,
    ) -> None:
        self._parameters = parameters
        self._storage = storage
        self._clock = clock
        self._entropy = entropy

    def report(self, score: float, label: int | bool, *, about: str) -> Report | None:
        """Return the report to send about one example; None when none is left.

        A question that was answered before gets the same report again, whatever score
        and label are now, and costs nothing more. A new one is stored before it is
        returned, so that a crash never leads to a second report.

        Args:
            score: the model's score.
            label: 1 or 0.
            about: names the example, such as the id of a message; it stays here.

        Raises:
            BudgetError: what is remembered was damaged.
        """
        with _TURN:
            return self._report(score, label, about)

    def _report(self, score: float, label: int | bool, about: str) -> Report | None:
        name = f"discreet-reports-{self._parameters.plan[:_PLANS_PART]}"
        remembered = self._remembered(name)
        answers = remembered["answers"]
        key = hashlib.sha256(about.encode()).hexdigest()
        plan = self._parameters.plan[:_PLANS_PART]
        if key in answers:
            _, identity, symbol = answers[key]
            return Report(plan, identity, symbol)
        period = max(self._period(), remembered["period"])  # a clock put back
        spent = sum(1 for answer in answers.values() if answer[0] == period)
        if spent >= self._parameters.reports_per_person:
            return None
        report = randomize(self._parameters, score, label, entropy=self._entropy)
        answers[key] = [period, report.id, report.symbol]
        remembered["period"] = period
        self._storage[name] = json.dumps(remembered)
        if callable(sync := getattr(self._storage, "sync", None)):
            sync()  # a shelve's index is on disk only then
        return report

    def _period(self) -> int:
        days = self._parameters.period_days
        return 0 if days is None else int(self._clock() // (_DAY * days))

    def _remembered(self, name: str) -> dict[str, Any]:
        text = self._storage.get(name)
        if text is None:
            return {"version": VERSION, "period": 0, "answers": {}}
        table = read_json(text, "what is remembered of reports", error=BudgetError)
        if not _is_memory(table):
            raise BudgetError(
                "what is remembered of reports was damaged: no further report is sent"
            )
        return dict(table)


def _is_memory(table: object) -> bool:
    if not isinstance(table, Mapping) or _other(table.get("version")):
        return False
    answers, period = table.get("answers"), table.get("period")
    return (
        type(period) is int
        and isinstance(answers, dict)
        and all(map(_is_answer, answers.values()))
    )


def _is_answer(value: object) -> bool:
    """Tell whether this is a period, an id and a symbol."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    period, identity, symbol = value
    return (
        type(period) is int
        and isinstance(identity, str)
        and _ID.fullmatch(identity) is not None
        and type(symbol) is int
        and 0 <= symbol < 2 * MOST_BINS
    )
