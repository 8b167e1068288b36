"""A dataclass is its document's schema: what it does not say is refused in a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, Literal

import pytest

from discreet.codec.documents import (
    Text,
    canonical,
    from_table,
    tagged,
    to_table,
    typed,
    written,
)
from discreet.codec.parsing import Amount, read_json
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.registry import Registry


class Shape:
    name = ""


@dataclass(frozen=True)
class Square(Shape):
    side: int

    name = "square"

    def __post_init__(self):
        if self.side < 1:
            raise InputError("a side is at least 1")


@dataclass(frozen=True)
class Dot(Shape):
    name = "dot"


KINDS = Registry[type[Shape]]("shape")
for each in (Square, Dot):
    KINDS.add(each.name, each)
tagged(Shape, "shape", KINDS)


@dataclass(frozen=True)
class Inner:
    given: frozenset[int]


Left = Literal["left", "both"]
Right = Literal["right"]


@dataclass(frozen=True, kw_only=True)
class Everything:
    count: int
    rate: float
    title: str
    sure: bool
    share: Fraction
    epsilon: Amount
    raw: bytes
    pair: tuple[str, int]
    many: tuple[float, ...]
    names: frozenset[str]
    counts: Mapping[str, int]
    side: Left | Right
    shape: Shape
    shapes: tuple[Shape, ...]
    inner: Inner
    anything: Any
    code: Annotated[int, Text(hex, lambda text: int(text, 16))]
    maybe: int | None = None
    size: int = field(default=2, metadata=written(key="width", left_out=True))
    here: str = field(default="", metadata=written(supplied="place"))


@dataclass(frozen=True)
class Cap:
    sites: int = 3
    groups: int = field(default=1, metadata=written(left_out=True))


VALUE = Everything(
    count=-3,
    rate=0.5,
    title="a",
    sure=True,
    share=Fraction(1, 3),
    epsilon=Fraction(1, 10),
    raw=b"\x00\xff",
    pair=("a", 1),
    many=(1.0, 2.5),
    names=frozenset("ba"),
    counts={"x": 1},
    side="both",
    shape=Square(2),
    shapes=(Dot(), Square(1)),
    inner=Inner(frozenset({1})),
    anything=[1, {"a": 2}],
    code=255,
    here="there",
)
TABLE = {
    "count": -3,
    "rate": 0.5,
    "title": "a",
    "sure": True,
    "share": "1/3",
    "epsilon": "0.1",
    "raw": "00ff",
    "pair": ["a", 1],
    "many": [1.0, 2.5],
    "names": ["a", "b"],
    "counts": {"x": 1},
    "side": "both",
    "shape": {"shape": "square", "side": 2},
    "shapes": [{"shape": "dot"}, {"shape": "square", "side": 1}],
    "anything": [1, {"a": 2}],
    "code": "0xff",
}
SUPPLIED = {"place": "there", frozenset[int]: lambda: frozenset({1})}


def read(table, **options):
    return from_table(Everything, table, "the thing", supplied=SUPPLIED, **options)


def test_every_kind_of_value_survives_its_table():
    assert to_table(VALUE, without=[frozenset[int]]) == TABLE
    assert read(TABLE) == VALUE
    assert read(read_json(canonical(TABLE), "it")) == VALUE


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("count", 1.0, "count in the thing must be a whole number"),
        ("count", True, "whole number"),
        ("count", 2**60, "between"),
        ("rate", "0.5", "must be a number"),
        ("rate", float("nan"), "must be a number"),
        ("rate", 2**60, "between"),
        ("rate", True, "must be a number"),
        ("title", 3, "must be a text"),
        ("sure", 1, "true or false"),
        ("share", 0.5, "written as a text"),
        ("share", "secret", "decimal number"),
        ("epsilon", "1e999999999", "too large"),
        ("raw", "00FF", "lower-case hexadecimal"),
        ("raw", "0", "lower-case hexadecimal"),
        ("raw", "00 ff", "lower-case hexadecimal"),
        ("pair", ["a"], "a list of 2"),
        ("pair", {}, "must be a list"),
        ("many", [0.5, "secret"], "many in the thing must be a number"),
        ("names", ["a", "a"], "each value once"),
        ("counts", [1], "must be a table"),
        ("counts", {"x": "secret"}, "whole number"),
        ("side", "secret", "side in the thing is one of left, both, right"),
        ("side", ["left"], "is one of"),
        ("shape", {"side": 1}, "lacks the key 'shape'"),
        ("shape", {"shape": "secret"}, "unknown shape; known are square, dot"),
        ("shape", {"shape": ["dot"]}, "unknown shape"),
        ("shape", {"shape": "dot", "side": 1}, "shape in the thing has unknown keys"),
        ("shape", {"shape": "square", "side": 0}, "a side is at least 1"),
        ("code", "secret", "wrong kind"),
        ("maybe", "secret", "whole number"),
        ("size", 3, "unknown keys: size; known are count"),
        ("here", "secret", "unknown keys"),
        ("x\x1b[2J", 1, r"unknown keys: x\?\[2J;"),
    ],
)
def test_what_the_schema_does_not_say_is_one_sentence_without_the_value(
    key, value, message
):
    for error in (PlanError, ReleaseError):
        with pytest.raises(error, match=message) as raised:
            read(TABLE | {key: value}, error=error)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("key", TABLE)
def test_a_missing_key_is_named(key):
    with pytest.raises(PlanError, match=f"the thing lacks the key '{key}'"):
        read({k: v for k, v in TABLE.items() if k != key})


def test_a_default_may_be_missing_only_where_it_is_left_out_or_the_reader_allows_it():
    assert to_table(Cap()) == {"sites": 3}
    assert from_table(Cap, {"sites": 3}, "a cap") == Cap()
    with pytest.raises(PlanError, match="lacks the key 'sites'"):
        from_table(Cap, {}, "a cap")
    assert from_table(Cap, {}, "a cap", defaults=True) == Cap()


def test_no_document_is_a_table_of_another_kind():
    for bad in (None, [], "secret", 3):
        with pytest.raises(PlanError, match="the thing must be a table"):
            read(bad)


def test_a_type_that_documents_do_not_hold_is_a_mistake_of_the_schema():
    with pytest.raises(TypeError, match="do not hold"):
        from_table(complex, 1j, "it")


def test_typed_values_tell_types_apart_and_write_floats_in_hex():
    assert typed((0.1, float("inf"), Fraction(1, 2), b"a", frozenset("ba"))) == [
        *((0.1).hex(), "inf", "0.5", "61", ["a", "b"])
    ]
    assert typed(Square(1)) == {"type": "Square", "side": 1}
    assert typed(Cap()) == {"type": "Cap", "sites": 3}
    assert typed(Cap(3, 2))["groups"] == 2
    with pytest.raises(PlanError, match="cannot hold a complex"):
        typed(1j)
