"""``docs/api.md`` is what the package's public names and first sentences give.

    python tests/unit/test_api_page.py

writes the page again: every public name, its signature and its first sentence.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import discreet
from discreet import transport

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
RESULTS = [discreet.Evaluation, discreet.MultiEvaluation, discreet.ModelComparison]
_HEAD = """# API

For users of the Python package. After this page you know every public name of `discreet` and `discreet.transport`, in one sentence each.
Terms are in the [glossary](glossary.md). `help(discreet.evaluate)` has the arguments; [measures](measures.md) lists the metrics.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for module in (discreet, transport):
        for name in sorted(module.__all__, key=str.lower):
            thing = getattr(module, name)
            parts.append(f"## `{module.__name__}.{name}`\n\n{_entry(name, thing)}")
            if thing in RESULTS:
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
    if getattr(thing, "_is_protocol", False):
        return f"class {name}(Protocol)"
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


def test_the_page_is_what_the_package_gives():
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("cls", RESULTS, ids=lambda cls: cls.__name__)
def test_a_result_has_at_most_26_public_names(cls):
    assert len(members(cls)) <= 26


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
