"""Kill a forked process just before the n-th step in which it changes a file or sends.

A step is a system call that leaves something behind: a write, a sync, a rename, a new
or a deleted file. What a killed process leaves depends on nothing else, so that one kill
before each step, and one run to the end, are every kill there is. The process runs
unmodified code. Linux stops it at these calls (seccomp) for the one that traces it
(ptrace), which counts them, and kills it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable
from typing import Final

# Numbers of system calls, by machine: the second list is that of all newer machines.
_X86: Final = {
    1: "write",
    18: "pwrite64",
    20: "writev",
    296: "pwritev",
    44: "sendto",
    74: "fsync",
    75: "fdatasync",
    26: "msync",
    77: "ftruncate",
    285: "fallocate",
    82: "rename",
    264: "renameat",
    316: "renameat2",
    86: "link",
    265: "linkat",
    87: "unlink",
    263: "unlinkat",
    90: "chmod",
    91: "fchmod",
    268: "fchmodat",
    257: "openat",
}
_NEWER: Final = {
    64: "write",
    68: "pwrite64",
    66: "writev",
    70: "pwritev",
    206: "sendto",
    82: "fsync",
    83: "fdatasync",
    227: "msync",
    46: "ftruncate",
    47: "fallocate",
    38: "renameat",
    276: "renameat2",
    37: "linkat",
    35: "unlinkat",
    52: "fchmod",
    53: "fchmodat",
    56: "openat",
}
_STEPS: Final = {"x86_64": _X86, "aarch64": _NEWER, "riscv64": _NEWER}

_TRACEME, _CONTINUE, _SETOPTIONS, _MESSAGE = 0, 7, 0x4200, 0x4201
_STOP_AT_STEPS, _DIE_TOGETHER = 0x80, 1 << 20
_AT_A_STEP: Final = 7 << 8 | signal.SIGTRAP
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _IS, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06
_TRACE, _ALLOW = 0x7FF0_0000, 0x7FFF_0000
_NUMBER_AT, _FLAGS_AT = 0, 32
"""Where the call's number and its third argument are, as a filter sees them."""


class NotTracedError(Exception):
    """This system does not let a process trace its child."""


def _call(name: str, *arguments: object) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    if function(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)):
        raise NotTracedError(os.strerror(ctypes.get_errno()))


def _filter(steps: dict[int, str]) -> bytes:
    """Return the program that lets every call pass but steps: instructions of 8 bytes."""
    program = [(_LOAD, 0, 0, _NUMBER_AT)]
    for number, name in steps.items():
        if name == "openat":  # a step where it makes a file
            made = [(_LOAD, 0, 0, _FLAGS_AT), (_HAS, 0, 1, os.O_CREAT)]
            program.append((_IS, 0, 4, number))
            program += [*made, (_RETURN, 0, 0, _TRACE | number)]
            program.append((_RETURN, 0, 0, _ALLOW))
        else:
            program.append((_IS, 0, 1, number))
            program.append((_RETURN, 0, 0, _TRACE | number))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def _stop_at(steps: dict[int, str]) -> None:
    """Ask to be traced and stopped at these calls, from now on."""
    program = _filter(steps)
    content = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(content))
    _call("ptrace", _TRACEME, 0, 0, 0)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    _call("prctl", _SECCOMP, _FILTER, ctypes.create_string_buffer(header), 0, 0)


def killed_before(nth: int, act: Callable[[], None]) -> list[str]:
    """Run ``act`` in a fork, and kill that before its n-th step; return its steps.

    Where they are fewer than ``nth`` it came to its end.

    Raises:
        NotTracedError: this system does not allow it.
        RuntimeError: ``act`` raised; its traceback is on stderr.
    """
    known = _STEPS.get(platform.machine()) if sys.platform == "linux" else None
    if known is None:
        raise NotTracedError(f"{sys.platform} on {platform.machine()}")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _stop_at(known)
            act()
            code = 0
        except NotTracedError:
            code = 2
        except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    return _watched(pid, nth, known)


def _watched(pid: int, nth: int, known: dict[int, str]) -> list[str]:
    steps: list[str] = []
    number = ctypes.c_ulong()
    _, status = os.waitpid(pid, os.WUNTRACED)
    try:
        if os.WIFSTOPPED(status):
            _call("ptrace", _SETOPTIONS, pid, 0, _STOP_AT_STEPS | _DIE_TOGETHER)
        passed = 0  # the stop that began it is not passed on
        while os.WIFSTOPPED(status):
            _call("ptrace", _CONTINUE, pid, 0, passed)
            _, status = os.waitpid(pid, 0)
            if not os.WIFSTOPPED(status):
                break
            passed = 0
            if status >> 8 != _AT_A_STEP:
                passed = os.WSTOPSIG(status)
                continue
            _call("ptrace", _MESSAGE, pid, 0, ctypes.byref(number))
            steps.append(known[number.value])
            if len(steps) == nth:
                break
    finally:
        if os.WIFSTOPPED(status):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 2:
        raise NotTracedError("seccomp or ptrace is not allowed")
    if not os.WIFSTOPPED(status) and status != 0:
        raise RuntimeError(f"the process ended by itself with status {status}")
    return steps
