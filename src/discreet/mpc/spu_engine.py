"""SecretFlow SPU in one process: three parties as threads, real shares, no network.

It runs the very executable that separate processes run. Needs the ``mpc`` extra. The
engine reports its traffic in its log only. How a total is split between the parties
varies from run to run (some steps of ABY3 give the parties random roles); the sum
over the three is the same for every run of a program.
"""

from __future__ import annotations

import atexit
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from discreet.arrays import IntVector
from discreet.mpc.encode import Encoded
from discreet.mpc.engine import Opened, Progress, check_inputs
from discreet.mpc.program import PARTIES, Program
from discreet.optional import load

_LINE: Final = re.compile(
    r"Link details: total send bytes (\d+), recv bytes \d+, "
    r"send actions (\d+), recv actions \d+"
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one party sent during one run."""

    bytes_sent: int
    messages: int


def read_traffic(log: str) -> list[Traffic]:
    """Return what each run in a log sent.

    >>> read_traffic("Link details: total send bytes 24, recv bytes 16, "
    ...              "send actions 3, recv actions 2")
    [Traffic(bytes_sent=24, messages=3)]
    """
    return [Traffic(int(sent), int(count)) for sent, count in _LINE.findall(log)]


def total_bytes(parties: Sequence[Traffic]) -> int:
    """Add up what the parties sent."""
    return sum(party.bytes_sent for party in parties)


def rounds(parties: Sequence[Traffic]) -> int:
    """Return the messages a party sends on average, rounded up.

    In a round of ABY3 a party sends at most one message to each other party; what
    runs at once counts once for each.
    """
    messages = sum(party.messages for party in parties)
    return -(-messages // len(parties)) if parties else 0


_ONE_AT_A_TIME: Final = threading.Lock()
"""The engine's log, from which the traffic is read, is one a process."""
_PATIENCE_MS: Final = 600_000
"""How long a party waits for another's message; a busy machine may need minutes."""


def runtime_config() -> Any:
    """Return the only settings that are offered; ``program.SETTINGS`` names them.

    ABY3 has an honest majority and needs no trusted dealer. No sort of the engine is
    used: its quick one compares in the open after a shuffle, so ties would show in
    its rounds, and its radix one takes hundreds of them.
    """
    spu = load("spu", "mpc")
    config = spu.RuntimeConfig(protocol=spu.ProtocolKind.ABY3, field=spu.FieldType.FM64)
    config.enable_pphlo_profile = True  # the log then tells the traffic
    return config


def quiet_log(path: Path) -> None:
    """Send the engine's log to a file instead of the terminal, process-wide."""
    logging = load("spu.libspu", "mpc").logging
    options = logging.LogOptions()
    options.enable_console_logger = False
    options.system_log_path = str(path)
    logging.setup_logging(options)


def secret_inputs(
    owners: Sequence[Encoded], noise: Sequence[IntVector]
) -> dict[str, IntVector]:
    """Return what is to be shared, by the names of the executable's inputs."""
    found = {f"words{k}": owner.words for k, owner in enumerate(owners)}
    return found | {f"noise{k}": share for k, share in enumerate(noise)}


@dataclass(frozen=True, slots=True)
class SpuSimulator:
    """All three parties in this process: the protocol is real, the trust is not."""

    @property
    def name(self) -> str:
        """The engine and its protocol."""
        return "SPU (ABY3), three parties in one process"

    def run(
        self,
        program: Program,
        owners: Sequence[Encoded],
        *,
        noise: Sequence[IntVector] = (),
        progress: Progress | None = None,
    ) -> Opened:
        """Share, compute, open."""
        check_inputs(program, owners, noise)
        say = progress or _silent
        say("compiling")
        executable = load("spu.libspu", "mpc").Executable()
        executable.ParseFromString(program.compile())
        spu, api = load("spu", "mpc"), load("spu.api", "mpc")
        io = api.Io(PARTIES, runtime_config())
        say(f"sharing {program.rows:,} rows")
        shares = {
            name: io.make_shares(values, visibility)
            for visibility, inputs in (
                (spu.Visibility.VIS_SECRET, secret_inputs(owners, noise)),
                (spu.Visibility.VIS_PUBLIC, program.public_inputs()),
            )
            for name, values in inputs.items()
        }
        say(f"computing on {program.rows:,} rows")
        with _ONE_AT_A_TIME:
            log = _log_file()
            quiet_log(log)
            earlier = len(log.read_text())
            start = time.perf_counter()
            outputs = _in_threads(lambda rank: _party(rank, executable, shares))
            seconds = time.perf_counter() - start
            traffic = read_traffic(log.read_text()[earlier:])
        say("opening")
        opened: IntVector = np.asarray(io.reconstruct(outputs), dtype=np.int64)
        return Opened(opened, total_bytes(traffic), rounds(traffic), seconds)


@cache
def _log_file() -> Path:
    """Return the file that holds the engine's log as long as this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="discreet-")
    atexit.register(folder.cleanup)
    return Path(folder.name) / "engine.log"


def _silent(phase: str) -> None:
    del phase


def _party(rank: int, executable: Any, shares: Mapping[str, Any]) -> Any:
    """Run one party; return its share of the result."""
    link = load("spu.libspu", "mpc").link
    desc = link.Desc()
    desc.recv_timeout_ms = _PATIENCE_MS
    for k in range(PARTIES):
        desc.add_party(f"party{k}", f"thread{k}")
    runtime = load("spu.api", "mpc").Runtime(
        link.create_mem(desc, rank), runtime_config()
    )
    for name in executable.input_names:
        runtime.set_var(name, shares[name][rank])
    runtime.run(executable)
    return runtime.get_var(executable.output_names[0])


def _in_threads(party: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(PARTIES) as pool:
        return list(pool.map(party, range(PARTIES)))
