# ruff: noqa: INP001 - a script beside its data, not a package
"""Write the test vectors of clients' reports into ``vectors/reports``.

    python vectors/generate_reports.py

Everything is worked out from fixed bytes, so that the files come out the same each time. A
change in them is a change of the format and needs a new version byte (``docs/reports.md``).

    report_*.json    parameters, and examples with the entropy drawn and the report sent
    bad_*.json       parameters that every client refuses

``entropy`` holds the bytes in the order in which a client draws them. ``score_bits`` is the
score as the 8 bytes of a double, the most significant first; ``score`` is for people.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.phone import (
    DENOMINATOR,
    ID_SIZE,
    Parameters,
    arc_length,
    exp_below,
    randomize,
)

HERE = Path(__file__).resolve().parent / "reports"
PLAN = hashlib.sha256(b"a plan of reports").hexdigest()
Document = dict[str, Any]


def warped(bins: int) -> tuple[float, ...]:
    """Return edges that are fine at both ends, as multiples of 2^-20."""
    places = [k / bins for k in range(1, bins)]
    odds = [(u / (1 - u)) ** 1.5 for u in places]
    return tuple(round(o / (1 + o) * 2**20) / 2**20 for o in odds)


def parameters(
    epsilon: Fraction,
    edges: tuple[float, ...],
    *,
    reports: int = 1,
    days: int | None = None,
) -> Parameters:
    """Return the parameters that a plan of these edges gives."""
    return Parameters(
        PLAN,
        epsilon,
        edges,
        exp_below(epsilon, DENOMINATOR),
        DENOMINATOR,
        arc_length(len(edges) + 1, epsilon),
        reports,
        days,
    )


def sets() -> dict[str, Parameters]:
    """Return the parameters of the vectors by name."""
    third = tuple(-6 + 12 * k / 33 for k in range(1, 33))
    return {
        "one": parameters(Fraction(1), warped(32)),
        "two_and_a_half": parameters(Fraction(5, 2), warped(32), reports=3, days=30),
        "third_logits": parameters(Fraction(1, 3), third),
        "sixteen": parameters(Fraction(16), warped(32)),
        "four_bins": parameters(Fraction(2), (0.25, 0.5, 0.75)),
        "most_bins": parameters(Fraction(5), tuple(k / 128 for k in range(1, 128))),
        "small_numbers": Parameters(PLAN, Fraction(2), (0.25, 0.5, 0.75), 5, 1, 2),
    }


def scores(chosen: Parameters) -> list[float]:
    """Return scores at, below and above edges, and outside every range."""
    first, last = chosen.edges[0], chosen.edges[-1]
    middle = chosen.edges[len(chosen.edges) // 2]
    return [
        *(first, math.nextafter(first, -math.inf), math.nextafter(first, math.inf)),
        *(middle, math.nextafter(middle, -math.inf), last),
        *(0.0, -0.0, 5e-324, 1.0, 0.3, 7.5, -7.5, math.inf, -math.inf, 1e308),
    ]


def words(chosen: Parameters, name: str) -> list[bytes]:
    """Return what is drawn after the id: ends of ranges, refused words, any bytes."""
    weight, inside = chosen.total_weight, chosen.length * chosen.likely
    ends = [0, chosen.likely - 1, chosen.likely, inside - 1, inside, weight - 1]
    top = 2**64 // weight * weight
    ends += [weight, top - 1]
    found = [(word % 2**64).to_bytes(8, "little") for word in ends]
    if top < 2**64:  # words beyond the last whole block are drawn again
        found += [
            b"\xff" * 8 + bytes(8),
            top.to_bytes(8, "little") + b"\xff" * 8 + (5).to_bytes(8, "little"),
        ]
    for k in range(6):
        found.append(hashlib.sha256(f"{name} {k}".encode()).digest()[:8])
    return found


def case(chosen: Parameters, score: float, label: int, drawn: bytes) -> Document:
    """Return one example and its report."""
    bits = struct.pack(">d", score).hex()
    identity = hashlib.sha256(drawn + bits.encode() + bytes([label])).digest()
    entropy = identity[:ID_SIZE] + drawn
    left = list(entropy)

    def draw(size: int) -> bytes:
        taken = bytes(left[:size])
        del left[:size]
        if len(taken) < size:
            raise ValueError("a vector has too little entropy")
        return taken

    report = randomize(chosen, score, label, entropy=draw)
    return {
        "score": repr(score),
        "score_bits": bits,
        "label": label,
        "entropy": entropy[: len(entropy) - len(left)].hex(),
        **report.fields(),
        "bytes": report.encode().hex(),
    }


def good(name: str, chosen: Parameters) -> Document:
    """Return a file of reports."""
    drawn, places = words(chosen, name), scores(chosen)
    cases = [
        case(chosen, score, k % 2, drawn[k % len(drawn)])
        for k, score in enumerate(places)
    ]
    cases += [
        case(chosen, places[(5 * k) % len(places)], label, word)
        for k, word in enumerate(drawn)
        for label in (0, 1)
    ]
    return {"parameters": chosen.write(), "cases": cases}


def bad() -> dict[str, tuple[str, str]]:
    """Return the texts that are no parameters, and why."""
    base = json.loads(sets()["one"].write())
    likely = int(base["odds"][0])

    def changed(**other: object) -> str:
        return json.dumps(base | other)

    without = {key: value for key, value in base.items() if key != "odds"}
    edges = base["edges"]
    return {
        "version": (changed(version=2), "another version"),
        "kind": (changed(discreet="plan"), "not of reports"),
        "missing_key": (json.dumps(without), "the odds are missing"),
        "unknown_key": (changed(comment="hello"), "a key that is not known"),
        "plan": (changed(plan="0" * 63), "a digest of 63 digits"),
        "plan_capitals": (changed(plan="A" * 64), "a digest in capitals"),
        "odds_too_large": (
            changed(odds=[str(likely + 1), str(2**32)]),
            "odds above what epsilon allows",
        ),
        "odds_of_twice_epsilon": (
            changed(odds=[str(exp_below(Fraction(2), 2**32)), str(2**32)]),
            "the odds of another epsilon",
        ),
        "odds_below_one": (changed(odds=["1", "2"]), "the arc is the less likely"),
        "odds_zero": (changed(odds=["1", "0"]), "a zero denominator"),
        "odds_numbers": (changed(odds=[likely, 2**32]), "numbers instead of texts"),
        "odds_signed": (changed(odds=["+11", "5"]), "a sign"),
        "odds_zeros_first": (changed(odds=["011", "005"]), "leading zeros"),
        "odds_digits": (changed(odds=["1" * 31, "1" * 31]), "31 digits"),
        "odds_fine": (changed(odds=["2" + "0" * 20, "1" + "0" * 20]), "D above 2^32"),
        "epsilon_zero": (changed(epsilon=["0", "1"]), "no epsilon"),
        "epsilon_over_zero": (changed(epsilon=["1", "0"]), "a zero denominator"),
        "epsilon_large": (changed(epsilon=["17", "1"]), "epsilon above 16"),
        "epsilon_number": (changed(epsilon=1), "a number instead of two texts"),
        "edges_falling": (changed(edges=[*edges[:5], edges[3], *edges[6:]]), "order"),
        "edges_equal": (
            changed(edges=[*edges[:5], edges[4], *edges[6:]]),
            "an edge twice",
        ),
        "edges_text": (changed(edges=[*edges[:-1], "0.99"]), "a text among the edges"),
        "edges_truth": (changed(edges=[False, *edges[1:]]), "a truth value"),
        "edges_few": (changed(edges=edges[:2], length=1), "3 bins"),
        "edges_many": (changed(edges=list(range(128))), "129 bins"),
        "edges_infinite": (
            changed(edges=edges).replace(repr(edges[-1]), "1e999"),
            "inf",
        ),
        "length_zero": (changed(length=0), "an empty arc"),
        "length_half": (changed(length=32), "an arc of half the circle"),
        "weight": (
            json.dumps(
                json.loads(sets()["sixteen"].write())
                | {"edges": [k / 128 for k in range(1, 128)], "length": 127}
            ),
            "weights that 62 bits do not hold",
        ),
        "reports_none": (changed(reports_per_person=0), "no report of a person"),
        "reports_many": (changed(reports_per_person=1001), "too many reports"),
        "reports_half": (changed(reports_per_person=1.5), "half a report"),
        "period": (changed(period_days=0), "an empty period"),
        "period_text": (changed(period_days="30"), "a text instead of a number"),
        "list": ("[]", "no object"),
        "no_json": ("{", "no JSON"),
    }


def main() -> None:
    """Write all files."""
    HERE.mkdir(exist_ok=True)
    for name, chosen in sets().items():
        _write(f"report_{name}", good(name, chosen))
    for name, (text, why) in bad().items():
        _write(f"bad_{name}", {"why": why, "parameters": text})


def _write(name: str, document: Document) -> None:
    text = json.dumps(document, indent=1) + "\n"
    (HERE / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
