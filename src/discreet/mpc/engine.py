"""Engine: whoever computes a program on owners' rows and reveals its one result.

``SpuSimulator`` is SecretFlow SPU in one process: three parties as threads, real shares,
no network. It runs the very executable that separate processes run, and needs the
``mpc`` extra. The engine reports its traffic in its log only. How a total is split
between the parties varies from run to run (some steps of ABY3 give the parties random
roles); the sum over the three is the same for every run of a program.
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
from typing import Any, Final, Protocol, Self, TypeAlias

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError
from discreet.mpc.program import Program
from discreet.mpc.shares import PARTIES, Encoded
from discreet.optional import load

OnPhase: TypeAlias = Callable[[str], None]
"""Called with a few words at the start of each phase."""
_LINE: Final = re.compile(
    r"Link details: total send bytes (\d+), recv bytes \d+, "
    r"send actions (\d+), recv actions \d+"
)
_ONE_AT_A_TIME: Final = threading.Lock()
"""The engine's log, from which the traffic is read, is one a process."""
_PATIENCE_MS: Final = 600_000
"""How long a party waits for another's message; a busy machine may need minutes."""


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


@dataclass(frozen=True, eq=False)
class RevealedAreas:
    """What a computation revealed, and what it cost.

    ``bytes_sent`` is the sum over the parties; ``rounds`` the messages that one
    party sends on average, which bounds how often they wait for each other.
    """

    values: IntVector
    bytes_sent: int
    rounds: int
    seconds: float

    @classmethod
    def of(cls, values: IntVector, traffic: Sequence[Traffic], seconds: float) -> Self:
        """Add up what the parties sent.

        In a round of ABY3 a party sends at most one message to each other party; what
        runs at once counts once for each.
        """
        messages = sum(party.messages for party in traffic)
        rounds = -(-messages // len(traffic)) if traffic else 0
        return cls(values, sum(party.bytes_sent for party in traffic), rounds, seconds)


class MpcEngine(Protocol):
    """Rows in, one small vector of integers out."""

    def run(
        self,
        program: Program,
        owners: Sequence[Encoded],
        *,
        noise: Sequence[IntVector] = (),
        progress: OnPhase | None = None,
    ) -> RevealedAreas:
        """Compute and reveal; ``noise`` is one share per party in a noisy program."""
        ...


def check_inputs(
    program: Program, owners: Sequence[Encoded], noise: Sequence[IntVector]
) -> None:
    """Refuse rows or noise that do not belong to the program."""
    if tuple(owner.rows for owner in owners) != program.sizes:
        raise InputError("the owners' rows do not have the sizes that were agreed on")
    padded = any(owner.count != owner.rows for owner in owners)
    if padded and not program.model.hide_sizes:
        raise InputError("padding rows in a program without padding would be counted")
    wanted = 0 if program.noise is None else PARTIES
    if len(noise) != wanted or any(share.shape != (2,) for share in noise):
        raise InputError(
            f"{wanted} shares of noise, two integers each, belong to this program"
        )


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


def _quiet_log(path: Path) -> None:
    """Send the engine's log to a file instead of the terminal, process-wide."""
    logging = load("spu.libspu", "mpc").logging
    options = logging.LogOptions()
    options.enable_console_logger = False
    options.system_log_path = str(path)
    logging.setup_logging(options)


@dataclass(frozen=True, slots=True)
class SpuSimulator:
    """All three parties in this process: the protocol is real, the trust is not."""

    def run(
        self,
        program: Program,
        owners: Sequence[Encoded],
        *,
        noise: Sequence[IntVector] = (),
        progress: OnPhase | None = None,
    ) -> RevealedAreas:
        """Share, compute, reveal."""
        check_inputs(program, owners, noise)
        report = progress or (lambda _: None)
        report("compiling")
        executable = load("spu.libspu", "mpc").Executable()
        executable.ParseFromString(program.compile())
        spu, api = load("spu", "mpc"), load("spu.api", "mpc")
        io = api.Io(PARTIES, runtime_config())
        report(f"sharing {program.rows:,} rows")
        secret = {f"words{k}": owner.words for k, owner in enumerate(owners)}
        secret |= {f"noise{k}": share for k, share in enumerate(noise)}
        shares = {
            name: io.make_shares(values, visibility)
            for visibility, inputs in (
                (spu.Visibility.VIS_SECRET, secret),
                (spu.Visibility.VIS_PUBLIC, program.public_inputs()),
            )
            for name, values in inputs.items()
        }
        report(f"computing on {program.rows:,} rows")
        with _ONE_AT_A_TIME, ThreadPoolExecutor(PARTIES) as pool:
            log = _log_file()
            _quiet_log(log)
            earlier = len(log.read_text())
            start = time.perf_counter()
            outputs = list(
                pool.map(lambda rank: _party(rank, executable, shares), range(PARTIES))
            )
            seconds = time.perf_counter() - start
            traffic = read_traffic(log.read_text()[earlier:])
        report("revealing")
        values: IntVector = np.asarray(io.reconstruct(outputs), dtype=np.int64)
        return RevealedAreas.of(values, traffic, seconds)


@cache
def _log_file() -> Path:
    """Return the file that holds the engine's log as long as this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="discreet-")
    atexit.register(folder.cleanup)
    return Path(folder.name) / "engine.log"


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
