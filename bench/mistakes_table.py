"""The mistakes of ``bench/mistakes.py``: how each is made, and what must be said."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest import mock

from discreet.plan.cohort import Roster
from discreet.plan.file import dumps, loads
from discreet.plan.plan import ModelRef, Plan
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.respond import use_of
from discreet.transport import keys as key_files
from discreet.transport.addresses import LOOPBACK, free_port
from sessions import POLICY

MAIN = "from discreet.cli.main import main; main()"
SECRET = 0.42424242
PATIENT = "Jürgen Geheim"
GIVE_UP = 180.0


@contextmanager
def _listening(port: int, keys: Path, status: int, ahead: float) -> Iterator[None]:
    class Alike(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response_only(status)
            theirs = datetime.now(UTC) - timedelta(seconds=ahead)
            self.send_header("date", format_datetime(theirs, usegmt=True))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(HTTPServer):
        def handle_error(self, *_: object) -> None:
            pass

    with Quiet((LOOPBACK, port), Alike) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "server.pem", keys / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield
        server.shutdown()


@dataclass
class Place:
    """One row's folder, and what runs beside its command."""

    folder: Path
    others: Path
    port: int = field(default_factory=free_port)
    stack: ExitStack = field(default_factory=ExitStack)
    environment: dict[str, str] = field(default_factory=dict)

    def site(self, **changed: str) -> list[str]:
        """The command of the site north, with some arguments changed."""
        f = self.folder
        given = {
            "plan": f"{f}/plan.toml",
            "scores": f"{f}/north.parquet",
            "keys": f"{f}/north",
            "coordinator": f"{LOOPBACK}:{self.port}",
            "wait": "2",
            **changed,
        }
        words = ["site", given.pop("plan"), given.pop("scores")]
        return words + [part for k, v in given.items() for part in (f"--{k}", v)]

    def coordinate(self, *more: str, keys: str = "coordinator") -> list[str]:
        """The coordinator's command."""
        words = ["coordinate", f"{self.folder}/plan.toml"]
        words += ["--keys", f"{self.folder}/{keys}", "--port", str(self.port)]
        return [*words, "--wait", "1", *more]

    def listening(self, keys: Path, status: int = 404, *, ahead: float = 0.0) -> None:
        """Let somebody answer at the port with a coordinator's certificate."""
        self.stack.enter_context(_listening(self.port, keys, status, ahead))


@dataclass(frozen=True)
class Mistake:
    """A row: what is wrong, how it is made, and what must be said."""

    name: str
    make: Callable[[Place], list[str]]
    words: str
    code: int = 2


def edit(name: str, change: Callable[[str], str]) -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        path = at.folder / name
        path.write_text(change(path.read_text()))
        return at.site()

    return make


def remove(name: str) -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        (at.folder / name).unlink()
        return at.site()

    return make


def open_to_all(name: str) -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        (at.folder / name).chmod(0o644)
        return at.site()

    return make


def data(text: str, encoding: str = "utf-8") -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        path = at.folder / "north.csv"
        path.write_bytes(text.encode(encoding))
        return at.site(scores=str(path))

    return make


def spend(at: Place) -> list[str]:
    plan = loads((at.folder / "plan.toml").read_text())
    with Ledger(
        at.folder / "north" / "ledger.sqlite", limits=POLICY.limits()
    ) as ledger:
        use = use_of(plan, plan.resolve(0, []), session=b"s" * 32, population="people")
        ledger.reserve(use)
    return at.site()


def allow(**changed: object) -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        rules = replace(POLICY, **changed)  # type: ignore[arg-type]
        (at.folder / "north" / "policy.toml").write_text(policyfile.dumps(rules))
        return at.site()

    return make


def answered(
    status: int = 404,
    ahead: float = 0.0,
    host: str = LOOPBACK,
    *,
    strange: bool = False,
) -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        keys = (at.others if strange else at.folder) / "coordinator"
        at.listening(keys, status, ahead=ahead)
        return at.site(coordinator=f"{host}:{at.port}", wait="30")

    return make


def expired(at: Place) -> list[str]:
    _let_expire(at.folder / "coordinator")
    at.listening(at.folder / "coordinator")
    return at.site(wait="30")


def speaks_no_tls(at: Place) -> list[str]:
    server = at.stack.enter_context(socket.create_server((LOOPBACK, at.port)))

    def greet() -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            caller.sendall(b"SSH-2.0-OpenSSH\r\n")
            caller.recv(4096)
            caller.close()

    threading.Thread(target=greet, daemon=True).start()
    return at.site(wait="30")


def runs(at: Place, plan: Plan) -> list[str]:
    """A real coordinator that runs another plan than the site's."""
    (at.folder / "other.toml").write_text(dumps(plan))
    command = [sys.executable, "-c", MAIN, *at.coordinate()[:-1], "120"]
    command[command.index(f"{at.folder}/plan.toml")] = f"{at.folder}/other.toml"
    log = at.stack.enter_context((at.folder / "coordinator.log").open("wb"))
    running = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - ours
    at.stack.callback(running.wait)
    at.stack.callback(running.terminate)
    deadline = time.monotonic() + GIVE_UP
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if not probe.connect_ex((LOOPBACK, at.port)):
                break
        time.sleep(0.2)
    return at.site(wait="30")


def stranger(at: Place) -> list[str]:
    plan = loads((at.folder / "plan.toml").read_text())
    theirs = loads((at.others / "plan.toml").read_text()).roster
    if plan.roster is None or theirs is None:
        raise SystemExit("the plans have rosters")
    return runs(at, replace(plan, roster=Roster(theirs.sites, plan.roster.coordinator)))


def other_plan(at: Place) -> list[str]:
    plan = loads((at.folder / "plan.toml").read_text())
    return runs(at, replace(plan, model=ModelRef("another")))


def proxied(at: Place) -> list[str]:
    at.environment["HTTPS_PROXY"] = f"http://{LOOPBACK}:{free_port()}"
    at.listening(at.folder / "coordinator")
    return at.site()


def taken(at: Place) -> list[str]:
    at.stack.enter_context(socket.create_server((LOOPBACK, at.port)))
    return at.coordinate()


def without_roster(at: Place) -> list[str]:
    plan = loads((at.folder / "plan.toml").read_text())
    (at.folder / "plan.toml").write_text(dumps(replace(plan, roster=None)))
    return at.coordinate()


def rehearsed(at: Place) -> list[str]:
    plan = loads((at.folder / "plan.toml").read_text())
    (at.folder / "plan.toml").write_text(dumps(plan.rehearsed()))
    return at.site()


def coordinator(change: Callable[[Path, Path], object]) -> Callable[[Place], list[str]]:
    def make(at: Place) -> list[str]:
        change(at.folder / "coordinator", at.others / "coordinator")
        return at.coordinate()

    return make


def _let_expire(keys: Path) -> None:
    class LongAgo(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            del tz
            return datetime.now(UTC) - timedelta(days=100)

    # The authority was not valid yet that long ago.
    with mock.patch.multiple(key_files, datetime=LongAgo, check_dates=mock.Mock()):
        key_files.renew(keys)


ROWS = [
    Mistake("no plan", remove("plan.toml"), "plan.toml"),
    Mistake(
        "plan edited", edit("plan.toml", lambda t: t.replace("0.3", "0.31")), "digest"
    ),
    Mistake("plan is no TOML", edit("plan.toml", lambda _: "y_true;y_score"), "plan"),
    Mistake(
        "plan and data swapped",
        lambda at: at.site(plan=at.site()[2], scores=at.site()[1]),
        "plan",
    ),
    Mistake(
        "Latin-1 data in the plan's place",
        lambda at: (
            data(f"y_true,y_score,name\n1,{SECRET},{PATIENT}\n", "latin-1")(at)
            and at.site(plan=f"{at.folder}/north.csv")
        ),
        "plan",
    ),
    Mistake("no data", remove("north.parquet"), "north.parquet"),
    Mistake(
        "Latin-1 data",
        data(f"y_true,y_score,{PATIENT}\n1,{SECRET},{PATIENT}\n", "latin-1"),
        "north.csv",
    ),
    Mistake("no header", data(f"1,{SECRET}\n0,{SECRET}\n"), "header"),
    Mistake("no such column", data(f"label,y_score\n1,{SECRET}\n"), "no column"),
    Mistake("labels are words", data(f"y_true,y_score\nsick,{SECRET}\n"), "label"),
    Mistake("scores are words", data("y_true,y_score\n1,high\n"), "score"),
    Mistake("scores out of range", data("y_true,y_score\n1,7.5\n0,7.5\n"), "score"),
    Mistake(
        "inverted labels",
        data("y_true,y_score\n" + f"1,{SECRET}\n0,0.9\n0,0.8\n" * 40),
        "inverted labels",
    ),
    Mistake("no policy", remove("north/policy.toml"), "policy.toml"),
    Mistake("policy forbids", allow(privacy=("local",)), "the policy allows"),
    Mistake(
        "policy of another coordinator",
        allow(coordinators=("ed25519:" + "00" * 32,)),
        "coordinator",
    ),
    Mistake("more examples asked for", allow(examples=10**6), "fewer than"),
    Mistake("budget spent", spend, "exceed the cap"),
    Mistake("no ledger", remove("north/ledger.sqlite"), "ledger"),
    Mistake("ledger without its head", remove("north/ledger.sqlite.head"), "head"),
    Mistake("ledger for all to read", open_to_all("north/ledger.sqlite"), "ledger"),
    Mistake("no keys", lambda at: at.site(keys=f"{at.folder}/nobody"), "discreet keys"),
    Mistake("identity for all to read", open_to_all("north/identity.key"), "chmod"),
    Mistake("no identity", remove("north/identity.key"), "identity"),
    Mistake(
        "another consortium's keys",
        lambda at: at.site(keys=f"{at.others}/north"),
        "roster",
    ),
    Mistake(
        "changed public file of the coordinator",
        edit("north/coordinator.public.toml", lambda t: t.replace("127", "128")),
        "not signed",
    ),
    Mistake(
        "address without a port", lambda at: at.site(coordinator="hub"), "host:port"
    ),
    Mistake(
        "address with a path",
        lambda at: at.site(coordinator="https://hub/x:9443"),
        "host:port",
    ),
    Mistake(
        "unknown host",
        lambda at: at.site(coordinator="hub.invalid:9443"),
        "does not know",
    ),
    Mistake("nobody listens", lambda at: at.site(), "nobody listens"),
    Mistake("port of another program", speaks_no_tls, "does not speak TLS"),
    Mistake("port of another web server", answered(404), "not as a coordinator"),
    Mistake("foreign authority", answered(strange=True), "another authority"),
    Mistake("name not in the certificate", answered(host="localhost"), "other names"),
    Mistake("certificate has ended", expired, "has expired"),
    Mistake("clock 900 s ahead", answered(401, 900.0), "s ahead of the coordinator's"),
    Mistake("site that is not in the roster", stranger, "not in the roster"),
    Mistake("coordinator with another plan", other_plan, "another plan"),
    Mistake("proxy that is not there", proxied, "HTTPS_PROXY is set"),
    Mistake("plan of a rehearsal", rehearsed, "--rehearse"),
    Mistake(
        "log in a missing folder",
        lambda at: at.site(log=f"{at.folder}/no/log"),
        "folder",
    ),
    Mistake(
        "unknown option", lambda at: [*at.site(), "--polcy", "x"], "No such option"
    ),
    Mistake("port taken", taken, "cannot listen"),
    Mistake(
        "address of another machine",
        lambda at: at.coordinate("--host", "192.0.2.1"),
        "cannot listen",
    ),
    Mistake("port 99999", lambda at: at.coordinate("--port", "99999"), "65535"),
    Mistake(
        "report in a missing folder",
        lambda at: at.coordinate("--report", f"{at.folder}/no/r.html"),
        "there is no folder",
    ),
    Mistake("report as .pdf", lambda at: at.coordinate("--report", "r.pdf"), ".html"),
    Mistake("JSON into a folder", lambda at: at.coordinate("--json", "."), "a folder"),
    Mistake("plan without a roster", without_roster, "--unauthenticated"),
    Mistake(
        "coordinator's certificate has ended",
        coordinator(lambda own, _: _let_expire(own)),
        "discreet keys renew",
    ),
    Mistake(
        "server key of another certificate",
        coordinator(lambda own, o: shutil.copy(o / "server.key", own / "server.key")),
        "does not belong",
    ),
    Mistake(
        "another coordinator's identity",
        coordinator(
            lambda own, o: shutil.copy(o / "identity.key", own / "identity.key")
        ),
        "another coordinator",
    ),
    Mistake("no site comes", lambda at: at.coordinate(), "nothing was asked", 1),
]
