"""What is said and kept of an error that nobody foresaw: where, never what.

An exception's message and a frame's variables may hold a patient's row. So the
operator reads one sentence with the exception's type, and a log that its owner alone
may read keeps types and frames (module, line, function): no message, no value, no
argument and no line of source. Every process of discreet that meets data calls
``guard`` first, so that nothing speaks past this module.
"""

from __future__ import annotations

import logging
import os
import platform
import stat
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeGuard

from discreet.codec.parsing import shown
from discreet.errors import DiscreetError

EXIT_INPUT: Final = 2
"""Something that was given is wrong; the sentence says what to do."""
EXIT_UNEXPECTED: Final = 70
"""A fault of the program (EX_SOFTWARE of sysexits.h)."""
EXIT_INTERRUPTED: Final = 130
"""Ended by the keyboard or by a signal that asks to end."""

_OURS: Final = frozenset({"discreet", "papers"})


def sentence(error: BaseException, *, doing: str = "") -> str:
    """Say in one sentence what went wrong; keep a log when nobody foresaw it.

    Only a ``DiscreetError`` speaks for itself: its message was written to hold no
    data. Of the system's errors the number and the file's name are told, not the
    text that somebody gave them.

    Args:
        error: what was raised.
        doing: the command or step, for the log; never an argument's value.
    """
    if isinstance(error, DiscreetError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if is_of_the_system(error):
        reason = os.strerror(error.errno or 0)
        return reason if error.filename is None else f"{reason}: {error.filename}"
    kind = type(error).__name__
    log = record(error, doing=doing)
    where = "no log could be written" if log is None else f"{log} says where, no data"
    return f"something unexpected happened ({kind}), a fault of the program; {where}"


def is_of_the_system(error: BaseException) -> TypeGuard[OSError]:
    """Tell a refusal of the operating system from a library's error of its kind."""
    return (
        isinstance(error, OSError)
        and type(error).__module__ == "builtins"
        and error.errno is not None
    )


def exit_code(error: BaseException) -> int:
    """Return the exit code that goes with the sentence."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    foreseen = isinstance(error, DiscreetError) or is_of_the_system(error)
    return EXIT_INPUT if foreseen else EXIT_UNEXPECTED


def record(error: BaseException, *, doing: str = "") -> Path | None:
    """Write where an error came from to a new private file; None if none can be."""
    lines = [
        f"discreet {sys.modules['discreet'].__version__}",
        f"Python {platform.python_version()}, {platform.system()}",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        f"doing: {doing or 'not said'}",
        *_frames(error),
    ]
    for folder in _folders():
        with suppress(OSError):
            _make_private(folder)
            handle, name = tempfile.mkstemp(".log", "failure-", folder)  # mode 0600
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            return Path(name)
    return None


def _frames(error: BaseException) -> Iterator[str]:
    """Yield the error and those it came from, each with its frames, outermost first."""
    seen: set[int] = set()
    waiting: list[tuple[str, BaseException]] = [("", error)]
    while waiting:
        how, one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield f"{how}{type(one).__module__}.{type(one).__qualname__}"
        for frame, line in traceback.walk_tb(one.__traceback__):
            module = frame.f_globals.get("__name__", "?")
            yield f"  {module}, line {line}, in {frame.f_code.co_qualname}"
        if isinstance(one, BaseExceptionGroup):
            waiting += [("one of them: ", member) for member in one.exceptions]
        if one.__context__ is not None:
            waiting.append(("while handling: ", one.__context__))
        if one.__cause__ is not None:
            waiting.append(("because of: ", one.__cause__))


def _folders() -> Iterator[Path]:
    """Yield where logs go: the user's state folder, else the temporary one."""
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        yield Path(state) / "discreet"
    else:
        with suppress(RuntimeError):  # nobody's home
            yield Path.home() / ".local" / "state" / "discreet"
    owner = os.getuid() if hasattr(os, "getuid") else "logs"
    yield Path(tempfile.gettempdir()) / f"discreet-{owner}"


def _make_private(folder: Path) -> None:
    """Make a folder that its owner alone may enter, or refuse somebody else's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise PermissionError
    folder.chmod(0o700)


def guard(words: Callable[[str], str] = str) -> None:
    """Let nothing in this process print a message, a value or a line of source.

    It takes over what Python says on its own: uncaught errors of the program, of its
    threads and of finalisers, warnings, and the log records that nobody handles.
    ``words`` puts discreet's own warnings into those of the entry point.
    """
    sys.excepthook = lambda _kind, error, _trace: tell(sentence(error))
    sys.unraisablehook = lambda failed: _tell_of(failed.exc_value, "a finaliser")
    threading.excepthook = lambda failed: _tell_of(failed.exc_value, "a thread")
    warnings.showwarning = partial(_warned, words)
    logging.lastResort = _LastResort(logging.WARNING)


def tell(text: str, *, speaker: str = "discreet") -> None:
    """Print a line to the operator, if anybody listens."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # a closed pipe or file
            sys.stderr.write(f"{speaker}: {shown(text)}\n")
            sys.stderr.flush()


def _tell_of(error: BaseException | None, doing: str) -> None:
    if error is not None and not isinstance(error, SystemExit):
        tell(sentence(error, doing=doing))


def _warned(
    words: Callable[[str], str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    *rest: object,
    **more: object,
) -> None:
    """Print what discreet itself warns of; of others, the type and the place."""
    del rest, more
    if category.__module__.partition(".")[0] in _OURS:
        text = f"Warning: {words(str(message))}"
    else:
        text = f"Warning: {category.__name__} at line {lineno} of {filename}"
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")


class _LastResort(logging.Handler):
    """Says that a library logged something, not what: it may quote a value."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record's level and origin."""
        level = record.levelname.lower()
        tell(f"{record.name} logged: {level}, line {record.lineno} of {record.module}")
