"""Sessions in a row: how often does one that could be finished fail?

    python bench/sessions.py --sessions 12              # three sites, processes, TLS
    python bench/sessions.py --sessions 50 --load 6     # on a busy machine
    python bench/sessions.py --sessions 60 --kill       # a random process is killed
    python bench/sessions.py --sessions 20 --bad-line   # 100 ms away, stalls, resets
    python bench/sessions.py --in-process 10000         # over a transport that fails

Every session is checked: the result is that of the sum of what the sites' ledgers
say they sent, each of them is charged for it, once, and no process is left behind.
The upper limit of the failure rate is Clopper and Pearson's, one-sided, at 95%.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import beta

from bad_line import bad_line
from discreet.data.edges import Warped
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Release
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.coordinator import evaluation_of
from discreet.session.messages import Ending
from discreet.session.policy import Policy
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.keys import make_consortium
from unreliable import run_in_process

SITES = ("north", "south", "east")
EXAMPLES = 400
POLICY = Policy(
    population="people",
    privacy=("distributed",),
    coordinators=("*",),
    models=("*",),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    sessions_per_plan=1,
    sites=3,
    require_roster=False,
)
"""A site that is charged twice would exceed it, and decline."""
MARK = "DISCREET_BENCH"
DONE = "revealed; one was killed when it was done, and had nothing to resume"
GONE_SECONDS = 15.0
SESSION_SECONDS = 600.0
KEEPING = "from discreet.privacy.ledger import Ledger as L; L.purge = lambda *_: None; "
"""Sites of this benchmark keep their answers after the end, to be compared."""
STARTS = 3
"""How often a command that was killed is started."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=0)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument(
        "--within",
        type=float,
        default=4.0,
        help="seconds within which it is killed: as long as a session takes here",
    )
    parser.add_argument("--bad-line", action="store_true")
    parser.add_argument("--step", type=float, default=120.0)
    parser.add_argument("--in-process", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    if chosen.sessions:
        with busy(chosen.load):
            outcomes = Counter(
                one_session(
                    i,
                    rng,
                    within=chosen.within * chosen.kill,
                    step=chosen.step,
                    bad=chosen.bad_line,
                )
                for i in range(chosen.sessions)
            )
        show("sessions of processes", outcomes)
    if chosen.in_process:
        show("sessions in process", Counter(run_in_process(chosen.in_process, rng)))


def show(title: str, outcomes: Counter[str]) -> None:
    tried, revealed = outcomes.total(), outcomes["revealed"]
    for outcome, count in sorted(outcomes.items()):
        print(f"{title}: {count} {outcome}")
    # A session that had too few sites left could not be finished by anybody.
    possible = tried - outcomes["aborted, as it must be"]
    failed = possible - revealed - outcomes[DONE]
    limit = 1.0 if failed == possible else beta.ppf(0.95, failed + 1, possible - failed)
    print(f"{title}: {failed} of {possible} failed, fewer than {limit:.2%} (95%)")
    wrong = [name for name in outcomes if name.startswith("WRONG")]
    if wrong:
        sys.exit(f"{title}: {', '.join(wrong)}")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the machine busy meanwhile."""
    context = multiprocessing.get_context("fork")
    burning = [context.Process(target=_burn, daemon=True) for _ in range(processes)]
    for process in burning:
        process.start()
    try:
        yield
    finally:
        for process in burning:
            process.terminate()
            process.join()


def _burn() -> None:
    while True:
        pass


@dataclass
class Supervised:
    """A command that is started again when it was killed, as systemd would."""

    arguments: list[str]
    folder: Path
    name: str
    mark: str
    starts: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, once more."""
        self.starts += 1
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [
                    *(sys.executable, "-c"),
                    KEEPING + "from discreet.cli.main import main; main()",
                    *self.arguments,
                ],
                env={**os.environ, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def ended(self, *, again: bool) -> bool:
        """Whether it has ended for good; else start it again if it may be."""
        code = self.process.poll()
        if code is None:
            return False
        if again and code not in {0, 1} and self.starts < STARTS:
            self.start()
            return False
        return True

    def was_done(self) -> bool:
        """Whether a site has said that the session is over, and what came of it."""
        log = (self.folder / f"{self.name}.log").read_text()
        return Ending.REVEALED.sentence in log

    def end(self) -> None:
        """End it, as its operator would."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        self.process.kill()
        self.process.wait()


def one_session(
    number: int,
    rng: np.random.Generator,
    *,
    within: float,
    step: float,
    bad: bool = False,
) -> str:
    """Run one session of a fresh consortium; return how it ended."""
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as place,
        ExitStack() as lines,
    ):
        folder, mark, port = Path(place), secrets.token_hex(16), free_port()
        reached = port
        if bad:
            reached = lines.enter_context(bad_line(port, int(rng.integers(2**32))))
        plan = prepare(folder, rng, reached)
        began = time.monotonic()
        commands = start(folder, mark, step, port)
        at = began + rng.uniform(0.1, within) if within else np.inf
        victim = ""
        try:
            while time.monotonic() - began < SESSION_SECONDS:
                if time.monotonic() > at:
                    at, victim = np.inf, kill_one(mark, rng)
                running = [c for c in commands if not c.ended(again=within > 0)]
                if not running:
                    break
                time.sleep(0.05)
        finally:
            ended = time.monotonic()
            for command in commands:
                command.end()
        outcome = judge(folder, plan, commands, mark)
        codes = [c.process.returncode for c in commands]
        took = ended - began
        print(f"{number + 1:>4} {took:>5.1f} s {codes} {victim} {outcome}", flush=True)
        if outcome != "revealed":
            for command in commands:
                print((folder / f"{command.name}.log").read_text()[-2000:], flush=True)
        return outcome


def prepare(folder: Path, rng: np.random.Generator, port: int) -> Plan:
    """Make data, keys, policies and the plan; sites reach the coordinator at a port."""
    roster = make_consortium(folder, SITES, hosts=[LOOPBACK], port=port)
    plan = recommend(
        PublicFacts(EXAMPLES * len(SITES), 0.3),
        DistributedDP("1"),
        edges=Warped(32),
        cohort=Cohort(len(SITES)),
    )
    plan = replace(plan, roster=roster)
    (folder / "plan.toml").write_text(dumps(plan))
    for site in SITES:
        labels = rng.random(EXAMPLES) < 0.3
        scores = np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1)
        table = pa.table({"y_true": labels.astype(int), "y_score": scores})
        pq.write_table(table, folder / f"{site}.parquet")
        (folder / site / "policy.toml").write_text(policyfile.dumps(POLICY))
        Ledger.new(folder / site / "ledger.sqlite").close()
    return plan


def start(folder: Path, mark: str, step: float, port: int) -> list[Supervised]:
    """Start the coordinator and the sites."""
    plan = str(folder / "plan.toml")
    coordinate = [
        *("coordinate", plan, "--keys", str(folder / "coordinator")),
        *("--port", str(port)),
        *("--json", str(folder / "result.json"), "--step", str(step)),
        *("--log", str(folder / "coordinator.events")),
    ]
    commands = [Supervised(coordinate, folder, "coordinator", mark)]
    for site in SITES:
        join = [
            *("site", plan, str(folder / f"{site}.parquet")),
            *("--keys", str(folder / site), "--log", str(folder / f"{site}.events")),
        ]
        commands.append(Supervised(join, folder, site, mark))
    return commands


def kill_one(mark: str, rng: np.random.Generator) -> str:
    """Kill a random process of a session."""
    alive = marked(mark)
    if not alive:
        return "nobody"
    pid = sorted(alive)[rng.integers(len(alive))]
    name = "the coordinator" if " coordinate " in alive[pid] else "a site"
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return f"killed {name}"


def marked(mark: str) -> dict[int, str]:
    """Return the processes that a session has started, with their commands."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = command.decode(errors="replace")
    return found


def judge(folder: Path, plan: Plan, commands: list[Supervised], mark: str) -> str:
    """Say how a session ended, and whether it may end so."""
    deadline = time.monotonic() + GONE_SECONDS
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    if marked(mark):
        return "WRONG: processes were left behind"
    codes = [command.process.returncode for command in commands]
    charged, messages = read_ledgers(folder)
    if any(spent > 1 for spent in charged) or len(messages) > sum(charged):
        return "WRONG: a charge"
    result = folder / "result.json"
    if codes[0] == 0 or result.exists():
        if len(messages) != len(SITES) or not same_result(plan, messages, result):
            return "WRONG: a sum"
        return _revealed(commands)
    if 0 in codes[1:]:
        return "WRONG: revealed for some only"
    return "aborted"


def _revealed(commands: list[Supervised]) -> str:
    """Say of a right result whether everybody knows of it."""
    if not any(command.process.returncode for command in commands):
        return "revealed"
    # Whoever is killed on leaving, and started again, finds nothing left to do.
    done = all(c.process.returncode == 0 or c.was_done() for c in commands[1:])
    return DONE if done else "revealed, and a site reports a failure"


def read_ledgers(folder: Path) -> tuple[list[Fraction], list[bytes]]:
    """Return what each site was charged, and the messages that were paid for."""
    charged, messages = [], []
    for site in SITES:
        path = folder / site / "ledger.sqlite"
        if not path.exists():
            continue
        with Ledger(path) as ledger:
            ledger.verify()
            charged.append(ledger.spent("people").epsilon)
            for use in ledger.uses("people"):
                message = ledger.replay(use.session, use.round)
                if message is not None:
                    messages.append(message)
    return charged, messages


def same_result(plan: Plan, messages: list[bytes], result: Path) -> bool:
    """Whether a result is that of the sum of the stored messages, to the last bit."""
    total = np.sum([np.frombuffer(m, "<i8") for m in messages], axis=0)
    release = Release(
        *(plan.digest(), b"", 0, total.astype(np.int64)),
        *(len(SITES), len(SITES), plan.resolve(0, []).loss),
    )
    expected = evaluation_of(plan, [release]).exports.to_dict()
    found = json.loads(result.read_text())
    same: bool = all(
        json.loads(json.dumps(expected[part])) == found[part]
        for part in ("examples", "roc", "pr", "metrics")
    )
    return same


if __name__ == "__main__":
    main()
