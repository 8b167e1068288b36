"""``docs/command-line.md`` is what the commands' help says.

    python tests/unit/cli/test_command_line_page.py

writes the page again: every command with its help, its arguments and its options. An
option that several commands share with the same words is described once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.cli.main import _PANELS, _load

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"
SHARED = 3
"""An option of this many commands is described once."""
_HEAD = """# Command line

<!-- `python tests/unit/cli/test_command_line_page.py` writes this page; a test compares it -->

For whoever runs a command. After this page you know every command, argument and option of `discreet`. Terms: an **argument** is
given by its place, an **option** by its name; an option marked *repeat* may be given several times. `discreet COMMAND --help` prints
the same. [Messages and exit codes](messages.md) says how commands end, and [file formats](file-formats.md) what they read and write.
Install as on [the start page](index.md#install).
"""


def commands() -> Iterator[tuple[str, str, Any]]:
    """Yield each command: who uses it, its words, and what it is."""
    for panel, names in _PANELS.items():
        for name in names:
            loaded = _load(name)
            if not hasattr(loaded, "commands"):
                yield panel, name, loaded
                continue
            for below, command in loaded.commands.items():
                if not command.hidden:
                    yield panel, f"{name} {below}", command


def page() -> str:
    """Return the page."""
    every = list(commands())
    counted = Counter(row for _, _, c in every for row in _options(c).items())
    # One entry per name: the commonest words; a command with others lists its own.
    shared = set(
        {
            names: (names, words)
            for (names, words), times in reversed(counted.most_common())
            if times >= SHARED
        }.values()
    )
    parts, before = [_HEAD], ""
    for panel, name, command in every:
        if panel != before:
            parts.append(f"## {panel}\n")
            before = panel
        parts.append(_entry(name, command, shared))
    parts.append("## Options that commands share\n")
    parts.append(_table("option", sorted(shared)))
    return "\n".join(parts)


def _entry(name: str, command: Any, shared: set[tuple[str, str]]) -> str:
    visible = [p for p in command.params if not p.hidden]
    arguments = [p for p in visible if p.param_type_name == "argument"]
    words = " ".join(["discreet", name, *map(_placeholder, arguments)])
    needed = [p.opts[0] for p in visible if p.required and p not in arguments]
    words += "".join(f" {option} ..." for option in needed)
    parts = [f"### `discreet {name}`\n", f"    {words}\n", _prose(command.help)]
    rows = [(f"`{_placeholder(p)}`", _prose(p.help).strip()) for p in arguments]
    own = _options(command)
    rows += [row for row in own.items() if row not in shared]
    if rows:
        parts.append(_table("argument or option", rows))
    below = sorted(
        re.match(r"`(--[\w-]+)", key)[1]  # type: ignore[index]
        for key, words in own.items()
        if (key, words) in shared
    )
    if below:
        listed = ", ".join(f"`{key}`" for key in below)
        parts.append(f"[Shared](#options-that-commands-share): {listed}.\n")
    return "\n".join(parts)


def _options(command: Any) -> dict[str, str]:
    """Return each option's names and what the help says of it."""
    rows = {}
    for option in command.params:
        if option.hidden or option.param_type_name == "argument":
            continue
        if option.name == "help":
            continue
        names = [*option.opts, *option.secondary_opts]
        words = _prose(option.help).strip()
        if option.multiple and "repeat" not in words:
            words += " *Repeat.*"
        if option.required:
            words += " *Required.*"
        elif _worth_showing(option.default):
            words += f" Default: `{_shown(option)}`."
        rows[", ".join(f"`{name}`" for name in names)] = words
    return rows


def _worth_showing(default: object) -> bool:
    return default is not False and default not in (None, "", (), [])


def _shown(option: Any) -> str:
    default = option.default
    if default is True and option.secondary_opts:
        return str(option.opts[0])
    if isinstance(default, (list, tuple)):
        return ", ".join(map(str, default))
    return str(getattr(default, "value", default))


def _placeholder(argument: Any) -> str:
    word = (argument.metavar or argument.name).upper()
    if argument.nargs == -1:
        word += "..."
    return word if argument.required else f"[{word}]"


def _prose(text: str | None) -> str:
    """Return a help text with its lines joined and its paragraphs kept."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(p.split()) for p in paragraphs) + "\n"


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head} | what it does |", "|---|---|"]
    for key, words in rows:
        lines.append(f"| {key} | {words.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_what_the_commands_say():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_option_and_argument_has_a_description():
    bare = [
        f"{name} {parameter.name}"
        for _, name, command in commands()
        for parameter in command.params
        if not parameter.hidden and not (parameter.help or "").strip()
    ]
    assert bare == []


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
