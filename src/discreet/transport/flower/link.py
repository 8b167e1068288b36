"""A SuperLink behind our door, as a process that ends with the one that started it.

Run as a module, with the starter's pid, the most bytes of a request, and Flower's own
arguments. Besides Flower it loads the door and no more of ours: every module is a wait
before the first site can connect.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from discreet.secret_files import read_secret

GUESTS: Final = "guests.pem"
"""The node keys that the door knows, in the folder of its secret."""
SECRET_FILE: Final = "--superexec-auth-secret-file"  # noqa: S105 - an option's name
STOP_SECONDS: Final = 5.0


def become(parent: int, most_bytes: int, arguments: Sequence[str]) -> None:
    """Turn this process into a SuperLink, bound to its parent's life."""
    # A shell starts what runs beside it with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.disable()  # a sixth of loading Flower is the search for garbage in it
    # Loading Flower takes seconds, in which the parent may already be gone.
    from flwr.superlink.cli import flower_superlink  # noqa: PLC0415

    from discreet.transport.flower import door  # noqa: PLC0415

    secret = Path(arguments[arguments.index(SECRET_FILE) + 1])
    door.put_up(
        read_secret(secret, what="the executor's secret"),
        most_bytes,
        door.guests((secret.parent / GUESTS).read_bytes()),
    )
    gc.enable()
    sys.argv = ["flower-superlink", *arguments]
    flower_superlink()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, also one that is just starting.

    Flower's own monitor asks once, and what is not yet listening does not hear it:
    a SuperLink without a coordinator would keep the port for good.
    """
    while os.getppid() == parent:
        time.sleep(0.2)
    signal.raise_signal(signal.SIGINT)
    time.sleep(STOP_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
