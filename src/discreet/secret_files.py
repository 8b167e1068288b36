"""Files that hold a secret: on disk whole or not at all, and their owner's alone.

The one place that writes and reads keys and checks who may replace them. A secret is
written to a file that did not exist, with mode 0600 from its first byte, and gets its
name when it is on disk: after a power loss there is the whole secret or none. Of two
processes that make the same secret at once one wins and the other is told so.
"""

from __future__ import annotations

import glob
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from discreet.errors import InputError

_PRIVATE: Final = 0o600
PUBLIC: Final = 0o644


class SecretFileError(InputError):
    """A secret cannot be written or read, or others may have read it."""


class SecretExistsError(SecretFileError):
    """There is such a secret already, and it stays as it is."""


def write_secret(
    path: Path, content: bytes, *, over: bool = False, mode: int = _PRIVATE
) -> None:
    """Write a secret, durably; over an older one only if that is asked for.

    With another ``mode`` a public file is written as whole as a secret.
    """
    half_written = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        half_written = Path(name)  # mode 0600, and nobody's before
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if mode != _PRIVATE:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        if over:
            half_written.replace(path)
        else:
            _name(half_written, path)
        sync_folder(path.parent)
    except FileExistsError:
        raise SecretExistsError(
            f"{path.name} exists, and secrets are never written over; move it away "
            "if it must be replaced"
        ) from None
    except OSError as err:
        raise SecretFileError(
            f"{path.name} cannot be written ({os.strerror(err.errno or 0)})"
        ) from None
    finally:
        if half_written is not None:
            half_written.unlink(missing_ok=True)


def _name(half_written: Path, path: Path) -> None:
    """Give a finished file its name, unless the name is taken."""
    try:
        os.link(half_written, path)  # unlike a rename, refuses a taken name
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError from None
        half_written.rename(path)


def remove_unfinished(path: Path) -> None:
    """Delete what killed processes had written of a file before it got its name.

    For a caller that knows that nobody is writing it now.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        left.unlink(missing_ok=True)


def read_secret(path: Path, *, what: str = "the secret", size: int = -1) -> bytes:
    """Read a secret, or its first bytes; refuse one that others could have read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(size)
    except OSError as err:
        raise SecretFileError(
            f"{what} {path.name} cannot be read ({os.strerror(err.errno or 0)})"
        ) from None
    _refuse_public(mode, path, what)
    return content


def check_secret(path: Path, *, what: str = "the secret") -> None:
    """Refuse a secret that others could have read, where somebody else reads it."""
    with suppress(FileNotFoundError):
        _refuse_public(path.stat().st_mode, path, what)


def _refuse_public(mode: int, path: Path, what: str) -> None:
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise SecretFileError(
            f"{what} {path.name} may be read by others; make it private with chmod "
            f"600 {path.name}, or make a new one"
        )


def check_folder(path: Path) -> None:
    """Refuse a file whose folder others may write to: they could exchange the file.

    The sticky bit keeps them from that, and not from making files of names that will
    be used, such as a database's write-ahead log.
    """
    for folder in {path.parent, path.resolve().parent}:
        with suppress(FileNotFoundError):
            if os.name == "posix" and stat.S_IMODE(folder.stat().st_mode) & 0o022:
                raise SecretFileError(
                    f"others may write to the folder of {path.name} and exchange its "
                    f"files; run: chmod go-w {folder}"
                )


def sync_folder(folder: Path) -> None:
    """Put the names of new files on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
