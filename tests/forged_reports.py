"""Reports with one thing changed: every leaf and key of JSON, every piece of a page."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

_DOUBLED: Final = "the key that is doubled"
_ELEMENTS: Final = re.compile(
    r"(?P<code><(?P<kind>script|style)[^>]*>.*?</(?P=kind)>)|(?P<tag><[^>]*>)"
    r"|(?P<text>[^<]+)",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r'([\w:-]+)="([^"]*)"')
_TOKEN: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?|[^\W\d]+|[^\w\s]")


class Forged(NamedTuple):
    """A way to forge a file: what kind of thing is changed, where, and the text."""

    what: str
    where: str
    text: Callable[[], str]


def forged_documents(text: str) -> Iterator[Forged]:
    """Yield a document with one leaf or one key changed."""
    document = json.loads(text)
    for path, value in _places(document):
        where = ".".join(map(str, path))
        found: list[tuple[str, Callable[[Any, Any], None]]] = []
        if not isinstance(value, dict | list):
            found += [(what, _replaced(new)) for what, new in _other_values(value)]
        if isinstance(path[-1], int):
            found += [("item deleted", _deleted), ("item doubled", _item_doubled)]
        else:
            found += [
                ("key deleted", _deleted),
                ("key renamed", _renamed),
                ("key added", _key_added),
                ("key emptied", _replaced({} if value != {} else [])),
                ("key doubled", _key_doubled),
            ]
        for what, change in found:
            yield Forged(what, where, partial(_after, document, path, change))


def _after(document: Any, path: tuple, change: Callable[[Any, Any], None]) -> str:
    """Return the text of a document after a change; only what is on its way is copied."""
    forged = holder = document.copy()
    for step in path[:-1]:
        holder[step] = holder[step].copy()
        holder = holder[step]
    change(holder, path[-1])
    return json.dumps(forged).replace(json.dumps(_DOUBLED), json.dumps(path[-1]))


def _replaced(new: Any) -> Callable[[Any, Any], None]:
    return lambda holder, key: holder.__setitem__(key, new)


def _deleted(holder: Any, key: Any) -> None:
    del holder[key]


def _item_doubled(holder: list, place: int) -> None:
    holder.insert(place, holder[place])


def _renamed(holder: dict, key: str) -> None:
    holder[f"{key}."] = holder.pop(key)


def _key_added(holder: dict, key: str) -> None:
    holder[f"{key}, approved"] = True


def _key_doubled(holder: dict, _: str) -> None:
    """Put the key before all others, so that most readers take the true value."""
    rest = dict(holder)
    holder.clear()
    holder.update({_DOUBLED: "forged", **rest})


def _places(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    inside: Any = ()
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in inside:
        yield (*path, key), inner
        yield from _places(inner, (*path, key))


def _other_values(value: Any) -> list[tuple[str, Any]]:
    """Return what a leaf could be forged to, by its type."""
    if isinstance(value, bool):
        return [("bool", not value), ("bool", int(value)), ("bool", None)]
    if value is None:
        return [("null", 0.5), ("null", "approved"), ("null", False)]
    if isinstance(value, int):
        return [("integer", value + 1), ("integer", float(value)), ("integer", None)]
    if isinstance(value, float):
        moved = value + 1e-5 * max(abs(value), 1.0)
        return [("float", moved), ("float", str(value)), ("float", None)]
    return [("string", f"{value}."), ("string", value[:-1] or "x"), ("string", None)]


def forged_pages(text: str, *, code: bool = True) -> Iterator[Forged]:
    """Yield a page with one word, number, attribute, tag or piece of code changed.

    ``code`` is what is alike on every page: the style, the script, all punctuation.
    """
    alike = re.compile("style|script|.*sign")
    return (f for f in _every_piece(text) if code or not alike.match(f.what))


def _every_piece(text: str) -> Iterator[Forged]:
    for element in _ELEMENTS.finditer(text):
        start, end = element.span()
        code = element["code"]
        if code and 'type="application/json"' in code:
            record = 'id="release-record"' in code
            yield from _pieces(text, start, end, "record" if record else "data")
        elif code:
            yield from _pieces(text, start, end, element["kind"])
        elif element["tag"]:
            yield _put(text, "tag deleted", start, end, "")
            yield from _attributes(text, start, element["tag"])
        else:
            yield _put(text, "text added", end, end, " approved ")
            yield from _pieces(text, start, end, "text")


def _attributes(text: str, start: int, tag: str) -> Iterator[Forged]:
    for found in _ATTRIBUTE.finditer(tag):
        for group, what in ((1, "attribute name"), (2, "attribute value")):
            first, last = start + found.start(group), start + found.end(group)
            new = f"{found.group(group)}x"
            yield _put(text, what, first, last, new)
        first, last = start + found.start(), start + found.end()
        yield _put(text, "attribute deleted", first, last, "")
        inside = start + found.start(2), start + found.end(2)
        yield from _pieces(text, *inside, "attribute value")


def _pieces(text: str, start: int, end: int, where: str) -> Iterator[Forged]:
    for found in _TOKEN.finditer(text, start, end):
        token = found.group()
        if token[0].isdigit():
            yield _put(text, f"{where}: number", *found.span(), _other_number(token))
        elif token[0].isalpha() or token[0] == "_":
            new = token[:-1] + ("b" if token[-1] == "a" else "a")
            yield _put(text, f"{where}: word", *found.span(), new)
        else:
            yield _put(text, f"{where}: sign", *found.span(), token * 2)


def _other_number(token: str) -> str:
    """Return a number that differs in its last digit, or in the fifth of many."""
    value, digits = float(token), len(token.partition(".")[2])
    if "e" in token or (digits and 10.0**-digits < 1e-5 * max(value, 1.0)):
        return repr(value + 1e-5 * max(value, 1.0))
    return token[:-1] + str((int(token[-1]) + 1) % 10)


def _put(text: str, what: str, start: int, end: int, new: str) -> Forged:
    return Forged(what, f"{start}", lambda: text[:start] + new + text[end:])
