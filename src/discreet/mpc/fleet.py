"""All processes of a session on one machine: for the demo, the tests and the bench.

Every member is a process of its own, started from the command line that an operator
would type. Leaving the context ends whatever still runs. The demo runs a fleet with
data and shows scikit-learn's values beside the result.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.codec.parsing import read_json, read_text
from discreet.data.examples import Examples
from discreet.data.file_format import PLAIN, FileFormat
from discreet.data.sources import read
from discreet.entropy import SYSTEM
from discreet.errors import InputError
from discreet.mpc.model import ExactMPC
from discreet.mpc.session import Address, MpcSession, OwnerEntry, PartyEntry
from discreet.mpc.shares import PARTIES, padded_size
from discreet.mpc.transport import (
    SessionFailedError,
    default_names,
    make_certificates,
)
from discreet.privacy.composition import compose
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.policy import ANY, Policy
from discreet.transport.addresses import LOOPBACK, free_port

COMMAND: Final = (
    *(sys.executable, "-c", "from discreet.cli.main import main; main()"),
    "exact",
)
"""``discreet exact``, also where the script is not installed."""


def local_session(sizes: Sequence[int], model: ExactMPC | None = None) -> MpcSession:
    """Return a fresh session whose parties listen on this machine."""
    ports = [free_port() for _ in range(2 * PARTIES)]
    parties = [
        PartyEntry(
            f"party-{i}",
            Address(LOOPBACK, ports[2 * i]),
            Address(LOOPBACK, ports[2 * i + 1]),
        )
        for i in range(PARTIES)
    ]
    owners = [OwnerEntry(f"owner-{i + 1}", rows) for i, rows in enumerate(sizes)]
    return MpcSession.fresh(parties, owners, model or ExactMPC(), entropy=SYSTEM)


def allowing(session: MpcSession) -> Policy:
    """Return a policy that allows this session once, and nothing else."""
    privacy = session.plan.privacy
    unit, cost = privacy.protects, compose([privacy.loss])
    return Policy(
        population="the rows of a test",
        privacy=(privacy.name,),
        units=() if unit is None else (unit.kind,),
        coordinators=(ANY,),
        models=(ANY,),
        epsilon_per_plan=cost.epsilon,
        epsilon_total=cost.epsilon,
        exact_sums=cost.exact_sums,
        sites=len(session.owners),
        require_roster=False,
    )


class MemberProcess:
    """One running process and what it printed."""

    def __init__(self, name: str, arguments: Sequence[str], log: IO[bytes]) -> None:
        self.name = name
        self._log = log
        # Not the terminal's: an interrupt reaches the starter, which ends the rest.
        self.process = subprocess.Popen(  # noqa: S603 - our own command line
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(timeout=seconds)

    def output(self) -> str:
        """Return everything printed so far."""
        return os.pread(self._log.fileno(), 2**24, 0).decode(errors="replace")

    def last_line(self) -> str:
        """Return the last line printed: after a failure, the reason."""
        return (self.output().strip().splitlines() or ["no word"])[-1]


class Fleet:
    """The processes of one session; a context that leaves none behind."""

    def __init__(
        self, session: MpcSession, folder: Path, *, timeout: float = 60.0
    ) -> None:
        self.session = session
        self.folder = folder
        self.certificates = folder / "certificates"
        self.timeout = timeout
        self.members: list[MemberProcess] = []
        self._files = contextlib.ExitStack()
        self._starting = False
        self._ended: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # A terminated starter leaves through the context, and so ends the rest.
            before = signal.signal(signal.SIGTERM, self._leave)
            self._files.callback(signal.signal, signal.SIGTERM, before)
        names = default_names(len(self.session.owners))
        if not self.certificates.exists():
            make_certificates(self.certificates, names)
        text = self.session.to_toml()
        (self.folder / "session.toml").write_text(text, "utf-8")
        for owner in self.session.owners:
            policy = self.policy(owner.name)
            policy.parent.mkdir(exist_ok=True)
            policy.write_text(policyfile.dumps(allowing(self.session)), "utf-8")
            if not policy.with_name("ledger.sqlite").exists():
                Ledger.new(policy.with_name("ledger.sqlite")).close()
        return self

    def _leave(self, number: int, frame: object) -> None:
        """End by the context; not while a process is started and not yet known."""
        del frame
        self._ended = 128 + number
        if not self._starting:
            raise SystemExit(self._ended)

    def policy(self, owner: str) -> Path:
        """Return where an owner's policy is; its ledger is beside it."""
        return self.folder / owner / "policy.toml"

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.terminate()
        deadline = time.monotonic() + 5.0
        for member in self.members:
            try:
                member.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
        self._files.close()

    def start(
        self,
        role: str,
        name: str,
        *more: str,
        session: Path | None = None,
        certificates: Path | None = None,
    ) -> MemberProcess:
        """Start one member by its command line."""
        arguments = [
            role,
            str(session or self.folder / "session.toml"),
            *more,
            *(("--policy", str(self.policy(name))) if role == "owner" else ()),
            *("--name", name),
            *("--certificates", str(certificates or self.certificates)),
            *("--timeout", str(self.timeout)),
        ]
        return self._spawn(name, arguments)

    def _spawn(self, name: str, arguments: Sequence[str]) -> MemberProcess:
        log = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the fleet
        self._starting = True
        member = MemberProcess(name, arguments, log)
        self.members.append(member)
        self._starting = False
        if self._ended is not None:
            raise SystemExit(self._ended)
        return member

    def compile(self) -> Path:
        """Compile once for the three parties, who would each do the same."""
        executable = self.folder / "executable"
        arguments = ["compile", str(self.folder / "session.toml"), str(executable)]
        member = self._spawn("compiler", arguments)
        if member.process.wait():
            raise SessionFailedError(member.last_line())
        return executable

    def start_parties(self, *more: str) -> list[MemberProcess]:
        """Start the three parties."""
        return [
            self.start("party", party.name, *more) for party in self.session.parties
        ]

    def start_owners(self, files: Sequence[Path]) -> list[MemberProcess]:
        """Start an owner for each file, the first owners of the session."""
        owners = zip(self.session.owners, files, strict=False)
        return [self.start("owner", owner.name, str(file)) for owner, file in owners]

    def start_analyst(self) -> MemberProcess:
        """Start the analyst, who writes the result to ``result.json``."""
        return self.start(
            "open", self.session.analyst, "--json", str(self.folder / "result.json")
        )

    def result(self) -> dict[str, Any]:
        """Return what the analyst wrote."""
        text = read_text(self.folder / "result.json", "a result")
        result: dict[str, Any] = read_json(text, "the result", error=InputError)
        return result


SYNTHETIC_ROWS: Final = (120, 80, 50)
_POLL_SECONDS: Final = 0.2


def simulate_owner_files(folder: Path, sizes: Sequence[int], seed: int) -> list[Path]:
    """Write synthetic scored rows, one file an owner; scores in steps, so with ties."""
    rng = np.random.default_rng(seed)
    files = []
    for number, size in enumerate(sizes):
        labels = (rng.random(size) < 0.3).astype(np.int64)
        logits = 1.5 * labels - 1.0 + rng.standard_normal(size)
        scores = np.round(1.0 / (1.0 + np.exp(-logits)), 3)
        path = folder / f"owner-{number + 1}.parquet"
        pq.write_table(pa.table({"y_score": scores, "y_true": labels}), path)
        files.append(path)
    return files


def run_demo(
    files: Sequence[Path],
    *,
    score: str,
    label: str,
    model: ExactMPC,
    timeout: float,
    report: Callable[[str], None],
    written: FileFormat = PLAIN,
) -> str:
    """Run a session on the files, or on synthetic ones; return what to print."""

    def rows(file: Path) -> Examples:
        examples = read(file, score=score, label=label, **written.keywords())
        examples.settled = frozenset({"kind", "classes", "positive"})
        return examples

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = list(files) or simulate_owner_files(folder, SYNTHETIC_ROWS, seed=1)
        sizes = [len(rows(file)) for file in given]
        shown = [padded_size(max(sizes))] * len(sizes) if model.hide_sizes else sizes
        with Fleet(local_session(shown, model), folder, timeout=timeout) as fleet:
            columns = ["--score", score, "--label", label]
            for option in written.given(*written.names()):
                value = written.keywords()[option]
                columns += [f"--{option}", *([] if value is True else [value])]
            report("compiling once; the parties compare the digest of what they run")
            fleet.start_parties("--executable", str(fleet.compile()))
            for owner, file in zip(fleet.session.owners, given, strict=True):
                fleet.start("owner", owner.name, str(file), *columns)
            analyst = fleet.start_analyst()
            names = ", ".join(f"{m.name} ({m.process.pid})" for m in fleet.members)
            report(f"{len(fleet.members)} processes: {names}")
            _follow(fleet.members, analyst, report)
            # The result without the progress lines before it.
            printed = analyst.output().splitlines()
            lines = [line for line in printed if not line.startswith("party-")]
            return "\n".join([*lines, "", *_comparison(fleet, map(rows, given))])


def _follow(
    members: Sequence[MemberProcess],
    analyst: MemberProcess,
    report: Callable[[str], None],
) -> None:
    """Wait for all; pass on the analyst's progress and the first failure."""
    seen = 0
    while any(member.process.poll() is None for member in members):
        lines = analyst.output().splitlines()
        for line in lines[seen:]:
            if line.startswith("party-"):
                report(line)
        seen = len(lines)
        time.sleep(_POLL_SECONDS)
    for member in members:
        if member.process.returncode:
            raise SessionFailedError(f"{member.name}: {member.last_line()}")


def _comparison(fleet: Fleet, owners: Iterable[Examples]) -> list[str]:
    """Compare with scikit-learn on the pooled rows, which only a demo can pool."""
    try:
        from sklearn import metrics  # noqa: PLC0415 - optional
    except ImportError:
        return ["Install scikit-learn to see its values beside these."]
    pooled = [rows.to_arrays() for rows in owners]
    scores, labels = map(np.concatenate, zip(*pooled, strict=True))
    if len(set(labels.tolist())) != 2:
        raise InputError("the pooled data have one class only")
    precision, recall, _ = metrics.precision_recall_curve(labels, scores)
    expected = {
        "auc": float(metrics.roc_auc_score(labels, scores)),
        "average_precision": float(metrics.average_precision_score(labels, scores)),
        "aupr": float(metrics.auc(recall, precision)),
    }
    values = fleet.result()["metrics"]
    lines = [f"{'':20}{'from shares':>20}{'scikit-learn, pooled':>24}{'differ by':>12}"]
    for metric, value in expected.items():
        ours = float(values[metric]["value"])
        lines.append(f"{metric:20}{ours:20.16f}{value:24.16f}{abs(ours - value):12.1e}")
    return lines
