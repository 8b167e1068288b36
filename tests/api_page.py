"""``docs/api.md``: every public name, its signature and its first sentence.

Run this file to write the page again; a test checks that every public name is there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import discreet

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
_RESULTS = ("Evaluation", "MultiEvaluation", "ModelComparison")
_HEAD = """# API

For users of the Python package: every public name of `discreet`, in one sentence each.
`help(discreet.evaluate)` has the arguments. [Measures](measures.md) lists the metrics.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name in sorted(discreet.__all__, key=str.lower):
        thing = getattr(discreet, name)
        parts.append(f"## `discreet.{name}`\n\n{_entry(name, thing)}")
        if name in _RESULTS:
            parts.append(_members(thing))
    return "\n".join(parts)


def members(cls: type) -> list[str]:
    """Return the public names of a result, without those of every mapping."""
    fields = getattr(cls, "__dataclass_fields__", {})
    own = {*dir(cls), *fields} - set(dir(Mapping))
    return sorted(name for name in own if not name.startswith("_"))


def _entry(name: str, thing: object) -> str:
    if inspect.ismodule(thing):
        return f"{_sentence(thing)}\n"
    return f"    {_signature(name, thing)}\n\n{_sentence(thing)}\n"


def _members(cls: type) -> str:
    rows = ["| name | what it is |", "|---|---|"]
    for name in members(cls):
        thing = inspect.getattr_static(cls, name, None)
        told = getattr(thing, "func", thing)
        doc = inspect.getdoc(told) if told is not None else None
        if name in getattr(cls, "__dataclass_fields__", {}) or not doc:
            doc = _argument(cls, name)
        rows.append(f"| `{name}` | {_first(doc)} |")
    return "\n".join(rows) + "\n"


def _argument(cls: type, name: str) -> str:
    """Return what the class's own text says about an argument."""
    for line in (inspect.getdoc(cls) or "").splitlines():
        if line.strip().startswith(f"{name}: "):
            words = line.split(": ", 1)[1]
            return words[:1].upper() + words[1:]
    raise LookupError(f"{cls.__name__} does not describe {name}")


def _signature(name: str, thing: object) -> str:
    if isinstance(thing, type) and issubclass(thing, Exception):
        return f"class {name}({thing.__bases__[0].__name__})"
    words: list[str] = []
    for parameter in inspect.signature(thing).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        word = str(parameter.replace(annotation=parameter.empty))
        # A default that is an object is not shown: its text may change from run to run.
        word = re.sub(r"=(<.*|frozenset.*|[A-Z]\w*\(.*)", "=...", word)
        words.append(word)
    return f"{name}({', '.join(words)})"


def _sentence(thing: object) -> str:
    return _first(inspect.getdoc(thing) or "")


def _first(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
