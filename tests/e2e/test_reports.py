"""Reports from clients to an evaluation: real processes, a killed collector, a browser."""

import contextlib
import functools
import http.server
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import numpy as np
import pytest
from typer.testing import CliRunner

from browser.devtools import Browser, chromium
from discreet import phone
from discreet.cli.main import app
from discreet.transport.addresses import free_port
from discreet.transport.collecting import collect
from discreet.transport.https.collector import RateLimit

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    run(
        *("plan", "--privacy", "local", "--epsilon", 4, "--examples", 6000),
        *("--prevalence", 0.3, "--reports-per-person", 1, "--min-survivors", 500),
        *("--shuffle-delta", "1e-6", "--anyway", "-o", folder / "plan.toml"),
    )
    return folder / "plan.toml"


@pytest.fixture(scope="module")
def parameters(plan):
    path = plan.with_name("parameters.json")
    run("phone", "parameters", plan, "-o", path)
    assert run("phone", "parameters", plan) == path.read_text()
    return phone.Parameters.read(path.read_text())


PATIENCE = 240.0
"""Seconds in which whatever is waited for happens, on any machine that is busy."""
DYING = """
import os, signal, sys
from discreet.cli.main import main
from discreet.transport.https.collector import ReportStore

point, left, commit = sys.argv.pop(1), int(sys.argv.pop(1)), ReportStore._commit

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(store, batch):
    global left
    left -= 1
    if left == 0 and point == "received":
        die()
    if left == 0 and point == "written":
        store._database.set_trace_callback(lambda text: text == "COMMIT" and die())
    if left == 0 and point == "stored":
        batch = [(rows, die) for rows, _ in batch]  # whoever sent them is not told
    commit(store, batch)

ReportStore._commit = dying
main()
"""


@contextlib.contextmanager
def collector(plan, store, port, *more, dies=None):
    """Run a collector; ``dies`` is at which point of which commit it is killed."""
    code = "from discreet.cli.main import main; main()" if dies is None else DYING
    process = subprocess.Popen(  # noqa: S603 - our own command
        [
            *(sys.executable, "-c", code, *map(str, dies or ())),
            *("collect", "serve", str(plan), str(store)),
            *("--port", str(port), *(more or ("--behind-proxy",))),
        ],
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + PATIENCE
        while dies is None:  # another one may be dead before anybody sees it
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port)),
            ):
                break
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def examples(size):
    rng = np.random.default_rng(3)
    labels = (rng.random(size) < 0.3).astype(int)
    return 1 / (1 + np.exp(-rng.normal(2.4 * labels - 1.5, 1))), labels


def sent_by_clients(parameters, size):
    scores, labels = examples(size)
    return [
        phone.randomize(parameters, float(s), int(y))
        for s, y in zip(scores, labels, strict=True)
    ]


def test_reports_in_a_file_end_in_an_evaluation_that_verifies(
    plan, parameters, tmp_path
):
    reports = sent_by_clients(parameters, 3000)
    lines = [f"{r.plan},{r.id},{r.symbol}" for r in [*reports, *reports[:100]]]
    (tmp_path / "reports.csv").write_text("plan,id,symbol\n" + "\n".join(lines))
    page = tmp_path / "report.html"
    said = run("collect", plan, tmp_path / "reports.csv", "--report", page)
    assert "3,000 reports in 3,100 rows; left out: 100 that repeat a report." in said
    assert "3,000 reports of one example each" in said
    assert "26 bytes from each client" in said
    assert "If 1% of the reports are false (30), they can move AUC" in said
    assert "only if a shuffler" in said
    assert "sites" not in said
    assert "holds." in run("verify", page, "--plan", plan)
    text = page.read_text()
    page.write_text(text.replace("3,000 reports", "9,000 reports", 1))
    assert "does not hold" in run("verify", page, code=1)


def test_too_few_reports_are_not_evaluated(plan, parameters, tmp_path):
    reports = sent_by_clients(parameters, 100)
    lines = [f"{r.id},{r.symbol}" for r in reports]
    (tmp_path / "few.csv").write_text("id,symbol\n" + "\n".join(lines))
    result = CliRunner().invoke(app, ["collect", str(plan), str(tmp_path / "few.csv")])
    assert "100 reports in 100 rows. " in str(result.exception)
    assert "asks for at least 500 reports: wait for more" in str(result.exception)


def test_reports_of_another_plan_are_told_from_too_few(plan, parameters, tmp_path):
    lines = [f"{parameters.plan},{k:032x},3" for k in range(900)]  # 64 digits
    (tmp_path / "other.csv").write_text("plan,id,symbol\n" + "\n".join(lines))
    result = CliRunner().invoke(
        app, ["collect", str(plan), str(tmp_path / "other.csv")]
    )
    assert "left out: 900 of other plans" in str(result.exception)
    assert parameters.plan[:16] in str(result.exception)


def test_no_report_is_lost_or_doubled_when_the_collector_is_killed(
    plan, parameters, tmp_path
):
    """SIGKILL in three places while clients send and send again until answered."""
    store, port = tmp_path / "reports.sqlite", free_port()
    reports = sent_by_clients(parameters, 1200)
    answered, end = threading.Event(), time.monotonic() + 2 * PATIENCE

    def clients():
        with httpx2.Client(timeout=5) as client:
            left = [reports[k : k + 4] for k in range(0, 1200, 4)]
            while left and time.monotonic() < end:
                body = b"".join(r.encode() for r in left[-1])
                try:
                    done = client.post(
                        f"http://127.0.0.1:{port}/v1/reports", content=body
                    )
                except httpx2.HTTPError:
                    time.sleep(0.05)
                    continue
                assert done.status_code == 204
                left.pop()
        if not left:
            answered.set()

    sender = threading.Thread(target=clients, daemon=True)
    sender.start()
    for point in ("received", "written", "stored"):
        with collector(plan, store, port, dies=(point, 50)) as process:
            assert process.wait(PATIENCE) == -signal.SIGKILL
    with collector(plan, store, port):
        assert answered.wait(PATIENCE)
    from discreet.plan.file import loads

    _, counted = collect(loads(plan.read_text()), store)
    expected = np.bincount([r.symbol for r in reports], minlength=parameters.cells)
    assert counted.tally.tolist() == expected.tolist()
    assert counted.rows == 1200


def test_the_collector_takes_reports_alone_and_keeps_nothing_else(
    plan, parameters, tmp_path
):
    store, port = tmp_path / "reports.sqlite", free_port()
    url = f"http://127.0.0.1:{port}"
    (report,) = sent_by_clients(parameters, 1)
    raw = report.encode()
    with (
        collector(plan, store, port) as process,
        httpx2.Client(base_url=url) as client,
    ):
        assert client.get("/v1/parameters").text == parameters.write()
        assert (
            client.options("/v1/reports").headers["access-control-allow-origin"] == "*"
        )

        def status(body):
            return client.post("/v1/reports", content=body).status_code

        other = phone.Report("0" * 16, report.id[::-1], 3).encode()
        beyond = raw[:-1] + bytes([parameters.cells])
        changed = raw[:-1] + bytes([(raw[-1] + 1) % parameters.cells])
        # One answer for whatever is a report: nobody learns what is stored.
        assert {status(b) for b in (raw, raw, changed, other, beyond)} == {204}
        assert status(raw[:-1]) == 413
        assert status(b"") == 413
        assert status(raw * 1001) == 413
        assert status(b"\2" + raw[1:]) == 400
        streamed = client.post("/v1/reports", content=iter([raw]))
        assert streamed.status_code == 411
        assert client.get("/v1/messages").status_code == 404
        process.terminate()
        process.wait(PATIENCE)
    assert [file.name for file in tmp_path.iterdir()] == [
        store.name
    ]  # no log of SQLite's
    with contextlib.closing(sqlite3.connect(store)) as database:
        found = database.execute("SELECT * FROM reports").fetchall()
        columns = [row[1] for row in database.execute("PRAGMA table_info(reports)")]
    assert found == [(report.plan, report.id, report.symbol)]
    assert columns == ["plan", "id", "symbol"]


def test_what_is_no_certificate_is_refused_and_the_store_is_closed(plan, tmp_path):
    (tmp_path / "cert.pem").write_text("no certificate")
    words = ["collect", "serve", str(plan), str(tmp_path / "r.sqlite"), "--certificate"]
    words += [str(tmp_path / "cert.pem"), "--key", str(tmp_path / "cert.pem")]
    refused = CliRunner().invoke(app, words)
    assert "PEM files" in str(refused.exception)
    assert not (tmp_path / "r.sqlite-wal").exists()
    assert CliRunner().invoke(app, [*words, "--per-minute", "0"]).exit_code == 2


def test_an_address_has_its_rate_and_others_theirs():
    now = [0.0]
    limit = RateLimit(60, clock=lambda: now[0])
    assert sum(limit.allows("a") for _ in range(1000)) == 240
    assert limit.allows("b")
    now[0] = 10.0
    assert sum(limit.allows("a") for _ in range(1000)) == 10
    assert "a" not in str(limit.__dict__["_seen"])


def test_without_tls_or_a_proxy_nothing_is_served(plan, tmp_path):
    result = CliRunner().invoke(
        app, ["collect", "serve", str(plan), str(tmp_path / "r.sqlite")]
    )
    assert "--behind-proxy" in str(result.exception)


PAGE = """<!doctype html><script type="module">
import { Budget, encode, randomize, readParameters } from "./discreet-phone.mjs";
window.send = async (base, scores, labels) => {
  const parameters = readParameters(await (await fetch(base + "/v1/parameters")).text());
  const reports = scores.map((s, k) => randomize(parameters, s, labels[k]));
  for (let k = 0; k < reports.length; k += 500) {
    const some = reports.slice(k, k + 500).map(encode);
    const done = await fetch(base + "/v1/reports", { method: "POST", body: new Blob(some) });
    if (done.status !== 204) return done.status;
  }
  const budget = new Budget(parameters, localStorage);
  const first = await budget.report(0.5, 1, "page");
  const again = await new Budget(parameters, localStorage).report(0.5, 1, "page");
  const other = await budget.report(0.5, 1, "another page");
  return { same: first.id === again.id, other, ids: new Set(reports.map((r) => r.id)).size };
};
window.ask = async (base, tab) => {  // more questions than there are reports, slowly
  const parameters = readParameters(await (await fetch(base + "/v1/parameters")).text());
  const wait = () => new Promise((done) => setTimeout(done, 300));
  const slow = {
    getItem: async (name) => {
      const text = localStorage.getItem("two" + name);
      await wait();
      return text;
    },
    setItem: async (name, text) => localStorage.setItem("two" + name, text),
  };
  const budget = new Budget(parameters, slow);
  const answers = await Promise.all([1, 2, 3].map((k) => budget.report(0.5, 1, tab + k)));
  return answers.filter((report) => report !== null).length;
};
window.ready = true;
</script>"""


def test_reports_made_in_chromium_end_in_an_evaluation(plan, parameters, tmp_path):
    if chromium() is None:
        pytest.skip("no chromium: run tests/browser/install.sh")
    del parameters
    site = tmp_path / "site"
    site.mkdir()
    module = ROOT / "clients" / "js" / "discreet-phone.mjs"
    (site / "discreet-phone.mjs").write_text(module.read_text())
    (site / "index.html").write_text(PAGE)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        extensions_map = {".mjs": "text/javascript", ".html": "text/html"}  # noqa: RUF012

        def log_message(self, *words):
            del words

    handler = functools.partial(Quiet, directory=str(site))
    store, port = tmp_path / "reports.sqlite", free_port()
    scores, labels = examples(4000)
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages,
        collector(plan, store, port),
    ):
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        browser = Browser(tmp_path / "profile")
        try:
            tab = browser.open(f"http://127.0.0.1:{pages.server_address[1]}/index.html")
            until = time.monotonic() + PATIENCE
            while not tab.js("window.ready === true") and time.monotonic() < until:
                time.sleep(0.05)
            given = json.dumps([scores.tolist(), labels.tolist()])
            said = tab.js(f"send('http://127.0.0.1:{port}', ...{given})")
            other = browser.open(
                f"http://127.0.0.1:{pages.server_address[1]}/index.html"
            )
            while not other.js("window.ready === true") and time.monotonic() < until:
                time.sleep(0.05)
            tab.js(f"window.asked = ask('http://127.0.0.1:{port}', 'one'), 0")
            sent = other.js(f"ask('http://127.0.0.1:{port}', 'two')")
            sent += tab.js("asked")
        finally:
            browser.close()
            pages.shutdown()
    assert said == {"same": True, "other": None, "ids": 4000}
    assert sent == 1  # of six questions in two tabs at once
    printed = run("collect", plan, store)
    assert "4,000 reports of one example each" in printed
    auc = float(printed.split("AUC")[1].split()[0])
    wins = scores[labels == 1][:, None] > scores[labels == 0]
    assert abs(auc - wins.mean()) < 0.05
