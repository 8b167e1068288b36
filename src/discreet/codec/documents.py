"""Documents from frozen dataclasses: tables for TOML and JSON, and canonical bytes.

A dataclass is its own schema: a document has a key for each field, of the kind that the
field's type says. ``to_table`` writes, ``from_table`` reads what anybody may have
written: unknown keys, missing keys and values of another kind are refused with one
sentence that quotes no value; the dataclass then validates what it holds.

======================  ==========================================
type of a field         value in a document
======================  ==========================================
int, float, str, bool   itself; a whole number is a float too
Fraction, ``Amount``    decimal text, ``"0.1"`` or ``"1/3"``
bytes                   lower-case hexadecimal
tuple, frozenset        a list; a set's is sorted
Mapping[str, T]         a table
Literal                 one of its values
T or None               left out where it is None
a dataclass             a table; an empty one is left out
a ``tagged`` union      a table with the tag of its kind
Annotated[T, Text()]    what the two functions say
======================  ==========================================

>>> from dataclasses import dataclass, field
>>> @dataclass(frozen=True)
... class Cap:
...     epsilon: Fraction
...     sites: int = field(default=3, metadata=written(key="least_sites"))
>>> to_table(Cap(Fraction(1, 10)))
{'epsilon': '0.1', 'least_sites': 3}
>>> from_table(Cap, {"epsilon": "0.1", "site": 5}, "the cap")
Traceback (most recent call last):
discreet.errors.PlanError: the cap has unknown keys: site; known are epsilon, least_sites
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from functools import cache, partial, reduce
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from discreet.codec.parsing import (
    LONGEST_NAME,
    MOST,
    amount_from_text,
    decimal_text,
    shown,
    whole,
)
from discreet.errors import DiscreetError, PlanError
from discreet.registry import Registry

T = TypeVar("T")
_METADATA: Final = "discreet document"
_UNION_TYPES: Final = (Union, UnionType)
_NOTHING: Final[Mapping[object, Any]] = {}
_SCALARS: Final[Mapping[type, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
}


class Text(NamedTuple):
    """A field's own two functions, beside its type in ``Annotated``."""

    write: Callable[[Any], object]
    read: Callable[[Any], object]
    """May raise any ``DiscreetError``."""


class Written(NamedTuple):
    """How a field stands in a document, where that is not its name and value."""

    key: str = ""
    left_out: bool = False
    supplied: str = ""


def written(*, key: str = "", left_out: bool = False, supplied: str = "") -> Any:
    """Return the metadata of a dataclass's field.

    Args:
        key: its key in the document; the field's name by default.
        left_out: whether it is left out, of digests too, where it has its default.
        supplied: it is never written. Its reader passes it under this name, or it has
            its default.
    """
    return {_METADATA: Written(key, left_out, supplied)}


class _Union(NamedTuple):
    tag: str
    kinds: Registry[Any]


_UNIONS: Final[dict[object, _Union]] = {}


def tagged(union: object, tag: str, kinds: Registry[Any]) -> None:
    """Let a base class or union stand in documents as a table with its kind's name."""
    _UNIONS[union] = _Union(tag, kinds)


def to_table(
    value: object, kind: object = None, *, without: Iterable[type] = ()
) -> dict[str, Any]:
    """Return a dataclass as plain values.

    Args:
        value: the dataclass.
        kind: the tagged union that it stands for, if any.
        without: types of fields that are not written: their reader supplies them.
    """
    return cast("dict[str, Any]", _plain(value, kind or type(value), set(without)))


def from_table(
    kind: Callable[..., T],
    table: object,
    what: str,
    *,
    error: type[DiscreetError] = PlanError,
    supplied: Mapping[object, Any] = _NOTHING,
    defaults: bool = False,
) -> T:
    """Read a dataclass, or one of a tagged union.

    Args:
        kind: the dataclass or the union's base.
        table: what was read from TOML or JSON.
        what: what it is, for errors: "the plan".
        error: what is raised.
        supplied: values that no document holds, by the name in ``written``; by a
            field's type, a function that returns the next one.
        defaults: whether fields that have a default may be missing. Otherwise only
            those may be that ``to_table`` leaves out.
    """
    return cast("T", _read(_Context(error, supplied, defaults), kind, table, what))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _options(each: Field[Any]) -> Written:
    return cast("Written", each.metadata.get(_METADATA, Written()))


def _has_default(each: Field[Any], value: object) -> bool:
    if each.default_factory is not MISSING:
        return bool(value == each.default_factory())
    return bool(value == each.default)


def _required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _one_type(hint: object) -> object:
    """Return a union without None: its one type, or the union as others declare it."""
    kinds = [each for each in get_args(hint) if each is not NoneType]
    return reduce(or_, kinds)


def _text(hint: Any) -> Text:
    return next(each for each in hint.__metadata__ if isinstance(each, Text))


def _plain(value: Any, hint: Any, without: set[type]) -> object:
    """Return a value of a declared type as plain values."""
    origin = get_origin(hint)
    if hint is Any:  # a part that was written before
        plain: object = value
    elif hint in _UNIONS:
        plain = _tagged_table(value, _UNIONS[hint], without)
    elif origin is Annotated:
        plain = _text(hint).write(value)
    elif origin in _UNION_TYPES:
        one = _one_type(hint)
        known = one in _UNIONS or get_origin(one) not in _UNION_TYPES
        plain = _plain(value, one if known else type(value), without)
    elif origin in (tuple, frozenset):
        inner = [each for each in get_args(hint) if each is not ...]
        kinds = inner if len(inner) == len(value) else inner * len(value)
        ordered = sorted(value) if origin is frozenset else value
        plain = [_plain(v, k, without) for v, k in zip(ordered, kinds, strict=True)]
    elif isinstance(value, Mapping):
        inner = get_args(hint)[-1]
        plain = {k: _plain(v, inner, without) for k, v in value.items()}
    elif isinstance(value, Fraction) or hint is Fraction:
        plain = decimal_text(Fraction(value))
    elif isinstance(value, bytes):
        plain = value.hex()
    else:
        plain = _table(value, without) if is_dataclass(value) else value
    return plain


def _tagged_table(value: Any, union: _Union, without: set[type]) -> dict[str, Any]:
    tag, kinds = union
    name = getattr(value, "name", None)
    if name not in kinds:
        name = next(each for each in kinds if kinds[each] is type(value))
    return {tag: name, **_table(value, without)}


def _table(value: Any, without: set[type]) -> dict[str, Any]:
    kind: Any = type(value)
    hints, table = _hints(kind), dict[str, Any]()
    for each in fields(value):
        options, hint = _options(each), hints[each.name]
        held = getattr(value, each.name)
        skipped = held is None or hint in without or options.supplied
        if skipped or (options.left_out and _has_default(each, held)):
            continue
        plain = _plain(held, hint, without)
        if plain != {} or not is_dataclass(held):
            table[options.key or each.name] = plain
    return table


class _Context(NamedTuple):
    """What all values of one document are read with."""

    error: type[DiscreetError]
    supplied: Mapping[object, Any]
    defaults: bool


def _read(context: _Context, hint: Any, given: Any, what: str) -> object:
    """Return a value of a type, or raise."""
    if hint is Any:
        return given
    if hint in _UNIONS:
        return _read_tagged(context, _UNIONS[hint], given, what)
    read = _READERS.get(get_origin(hint) or hint)
    if read is not None:
        return read(context, hint, given, what)
    if not is_dataclass(hint):
        raise TypeError(f"documents do not hold {hint!r}")  # the schema's mistake
    return _read_dataclass(context, cast("type", hint), given, what)


def _read_scalar(context: _Context, hint: Any, given: Any, what: str) -> object:
    if hint is int or (hint is float and type(given) is int):
        return hint(whole(given, what, least=-MOST, error=context.error))
    if type(given) is not hint or given != given:  # noqa: PLR0124 - NaN
        raise context.error(f"{what} must be {_SCALARS[hint]}")
    return given


def _read_bytes(context: _Context, _: Any, given: object, what: str) -> bytes:
    text = cast("str", _read_scalar(context, str, given, what))
    with suppress(ValueError):
        value = bytes.fromhex(text)
        if value.hex() == text:  # fromhex takes spaces and capitals too
            return value
    raise context.error(f"{what} must be lower-case hexadecimal digits")


def _read_text(context: _Context, hint: Any, given: object, what: str) -> object:
    amount = partial(amount_from_text, name=what)
    return _make(context, what, amount if hint is Fraction else _text(hint).read, given)


def _read_literal(context: _Context, hint: Any, given: object, what: str) -> object:
    known = get_args(hint)
    if not isinstance(given, str) or given not in known:
        raise context.error(f"{what} is one of {', '.join(known)}")
    return given


def _read_union(context: _Context, hint: Any, given: object, what: str) -> object:
    one = _one_type(hint)
    kinds = get_args(one)
    if Fraction in kinds:
        one = Fraction
    elif kinds and all(get_origin(kind) is Literal for kind in kinds):
        one = Literal[tuple(each for kind in kinds for each in get_args(kind))]
    return _read(context, one, given, what)


def _read_list(context: _Context, hint: Any, given: object, what: str) -> object:
    origin, inner = get_origin(hint), get_args(hint)
    if not isinstance(given, list):
        raise context.error(f"{what} must be a list")
    kinds = inner[:1] * len(given)
    if origin is tuple and inner[-1] is not ...:
        kinds = inner
    if len(kinds) != len(given):
        raise context.error(f"{what} must be a list of {len(kinds)}")
    values = [
        _read(context, kind, each, what)
        for kind, each in zip(kinds, given, strict=True)
    ]
    if origin is frozenset and len(set(values)) != len(values):
        raise context.error(f"{what} must hold each value once")
    return origin(values)


def _read_map(
    context: _Context, hint: Any, given: object, what: str
) -> dict[str, object]:
    inner = get_args(hint)[-1]
    table = _mapping(context, given, what)
    return {key: _read(context, inner, each, what) for key, each in table.items()}


def _mapping(context: _Context, given: object, what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise context.error(f"{what} must be a table")
    return given


def _read_tagged(context: _Context, union: _Union, given: object, what: str) -> object:
    table = dict(_mapping(context, given, what))
    if union.tag not in table:
        raise context.error(f"{what} lacks the key {union.tag!r}")
    kind = _make(context, what, union.kinds.__getitem__, table.pop(union.tag))
    return _read_dataclass(context, kind, table, what)


def _read_dataclass(context: _Context, kind: type, given: object, what: str) -> object:
    table, hints = _mapping(context, given, what), _hints(kind)
    values: dict[str, Any] = {}
    own: dict[str, Field[Any]] = {}
    for each in fields(kind):
        options, hint = _options(each), hints[each.name]
        if options.supplied in context.supplied:
            values[each.name] = context.supplied[options.supplied]
        elif hint in context.supplied:
            values[each.name] = context.supplied[hint]()
        elif not options.supplied:
            own[options.key or each.name] = each
    refuse_unknown(table, own, what, context.error)
    for key, each in own.items():
        hint = hints[each.name]
        if key in table:
            values[each.name] = _read(context, hint, table[key], f"{key} in {what}")
        elif NoneType in get_args(hint):
            values[each.name] = None
        elif is_dataclass(hint) and hint not in _UNIONS:
            values[each.name] = _read(context, hint, {}, f"{key} in {what}")
        elif not (_options(each).left_out or context.defaults) or _required(each):
            raise context.error(f"{what} lacks the key {key!r}")
    return _make(context, what, lambda _: kind(**values), None)


def _make(context: _Context, what: str, make: Callable[[Any], T], given: object) -> T:
    """Make a value; what it refuses is raised as the reader's own error."""
    try:
        return make(given)
    except context.error:
        raise
    except DiscreetError as err:
        raise context.error(f"{what}: {err}") from None
    except (TypeError, ValueError, ArithmeticError):
        raise context.error(f"{what} holds a value of the wrong kind") from None


_READERS: Final[Mapping[Any, Callable[[_Context, Any, Any, str], object]]] = {
    **dict.fromkeys(_SCALARS, _read_scalar),
    bytes: _read_bytes,
    Fraction: _read_text,
    Annotated: _read_text,
    Literal: _read_literal,
    Union: _read_union,
    UnionType: _read_union,
    tuple: _read_list,
    frozenset: _read_list,
    Mapping: _read_map,
}


def refuse_unknown(
    table: Mapping[str, Any],
    known: Iterable[str],
    what: str,
    error: type[DiscreetError],
) -> None:
    """Refuse keys that would be passed over: whoever wrote them meant something."""
    unknown = sorted(set(table) - set(known))
    if unknown:
        names = shown(", ".join(map(str, unknown)))[:LONGEST_NAME]
        raise error(f"{what} has unknown keys: {names}; known are {', '.join(known)}")


def canonical(document: object) -> bytes:
    """Return the one byte string of plain values: sorted JSON without spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def typed(value: object) -> Any:
    """Return a value with the names of its types and floats in hex, to be digested.

    It covers all that a dataclass holds, realised numbers too, whatever its document
    says; a field that is ``left_out`` at its default is not there.
    """
    match value:
        case None | bool() | str() | int():
            plain: Any = value
        case float():
            plain = value.hex() if math.isfinite(value) else str(value)
        case Fraction():
            plain = decimal_text(value)
        case bytes():
            plain = value.hex()
        case frozenset():
            plain = sorted(value)
        case tuple():
            plain = [typed(v) for v in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            held = {f.name: (f, getattr(value, f.name)) for f in fields(value)}
            plain = {"type": type(value).__name__} | {
                name: typed(v)
                for name, (f, v) in held.items()
                if not (_options(f).left_out and _has_default(f, v))
            }
        case _:
            raise PlanError(f"a plan cannot hold a {type(value).__name__}")
    return plain
