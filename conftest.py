"""Tests repeat: randomness starts from each test's own name, and extras are found once.

Noise, masks and keys come from the operating system. Here ``secrets.token_bytes`` is
replaced, before the package is imported, by a stream that starts anew for each test (and
for each fixture that several tests share), so that ``make test`` computes the same numbers
every time. ``FUZZ_SEED`` starts all streams elsewhere, and Hypothesis with them: that is
``make fuzz``.

Nothing is left behind: what programs keep in a home or a temporary folder goes into a
folder of this run, which is removed at its end. pytest keeps the ``tmp_path`` of tests that
failed, for three runs. Both are in memory where ``/dev/shm`` has room and ``TMPDIR`` is not set.
"""

import hashlib
import itertools
import os
import re
import secrets
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

# One thread each: several workers share the cores, and sums keep their order.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

_FOLDER = "DISCREET_TESTS_FOLDER"
_KEPT = {
    "XDG_CACHE_HOME": "cache",
    "XDG_STATE_HOME": "state",
    "FLWR_HOME": "flower",
    "IPYTHONDIR": "ipython",
    "MPLCONFIGDIR": "matplotlib",
    "HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis",
    "TMPDIR": "tmp",
}


_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
_ROOM = 2 << 30
"""Bytes that a run may need."""


def _temporary():
    """Return where files are kept in memory: a ledger waits for the disk at each step."""
    if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK | os.X_OK):
        memory = os.statvfs(_MEMORY)
        executable = not memory.f_flag & getattr(os, "ST_NOEXEC", 0)
        if executable and memory.f_bavail * memory.f_frsize > _ROOM:
            return str(_MEMORY)
    return tempfile.gettempdir()


def pytest_configure(config):
    """Make the folder of this run; workers share it."""
    if _FOLDER in os.environ:
        return
    root = _temporary()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", root)
    os.environ[_FOLDER] = folder = tempfile.mkdtemp(prefix="discreet-tests-", dir=root)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    for variable, name in _KEPT.items():
        (Path(folder) / name).mkdir()
        os.environ[variable] = str(Path(folder) / name)
    tempfile.tempdir = None  # asked for again, it is the folder's


_SEED = os.environ.get("FUZZ_SEED", "")
_system_bytes = secrets.token_bytes


class _Stream:
    """Bytes that depend on a test's name alone; a forked process draws fresh ones."""

    def __init__(self):
        self.owner = os.getpid()
        self.restart("import")

    def restart(self, name):
        self.key, self.drawn = f"{_SEED}/{name}/".encode(), itertools.count()

    def __call__(self, size=32):
        if os.getpid() != self.owner:
            return _system_bytes(size)
        block = self.key + next(self.drawn).to_bytes(8, "big")
        return hashlib.shake_256(block).digest(size)


_stream = _Stream()
secrets.token_bytes = _stream


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _stream.restart(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """A shared fixture draws the same bytes whichever test asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    before = _stream.key, _stream.drawn
    _stream.restart(f"{request.node.nodeid}/{fixturedef.argname}")
    try:
        return (yield)
    finally:
        _stream.key, _stream.drawn = before


# A slow machine is not a failure: neither deadlines nor "too slow".
settings.register_profile(
    "repeatable",
    deadline=None,
    max_examples=100 * int(os.environ.get("FUZZ_TIMES", "1")),
    derandomize=not _SEED,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")

_EXTRAS = {"flower": "flwr", "mpc": "spu", "nvflare": "nvflare"}
_ABSENT = {extra for extra, module in _EXTRAS.items() if find_spec(module) is None}
_NEEDED_BY = {
    **dict.fromkeys(
        ["src/discreet/flower.py", "src/discreet/transport/flower"], "flower"
    ),
    **dict.fromkeys(["src/discreet/mpc", "docs/exact.md"], "mpc"),
    "papers/docs/unal2023.md": "mpc",
}
"""What has no marks but examples that need an extra."""


def pytest_report_header():
    return [
        f"without the tests that need {extra}: it is not installed here"
        for extra in sorted(_ABSENT)
    ]


def pytest_ignore_collect(collection_path, config):
    """Do not import a module all of whose tests need an extra that is not there."""
    inside = collection_path.relative_to(config.rootpath)
    if _NEEDED_BY.get(inside.as_posix()) in _ABSENT:
        return True
    if inside.parts[:1] != ("tests",) or inside.suffix != ".py":
        return None
    if not inside.name.startswith(("test_", "conftest")):
        return True  # what tests share has no examples
    # Here a statement ends at the next empty line.
    marked = re.search(r"(?ms)^pytestmark = (.+?)^$", collection_path.read_text())
    absent = marked and set(re.findall(r"mark\.(\w+)", marked[1])) & _ABSENT
    return True if absent else None


def pytest_collection_modifyitems(config, items):
    for item in items:
        inside = item.path.relative_to(config.rootpath)
        for place in (inside, *inside.parents):
            if extra := _NEEDED_BY.get(place.as_posix()):
                item.add_marker(extra)
    absent = [i for i in items if any(i.get_closest_marker(e) for e in _ABSENT)]
    if absent:
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]


@pytest.fixture(autouse=True)
def _files_of_the_examples(request, tmp_path, monkeypatch):
    """Examples in Markdown run in a folder that holds the files they read."""
    if Path(request.node.path).suffix != ".md":
        return
    rng = np.random.default_rng(7)
    for name, rows, prevalence in (("north", 9000, 0.35), ("south", 6000, 0.15)):
        y = (rng.random(rows) < prevalence).astype(int)
        logit = rng.normal(0, 1.4, rows) + 2.2 * y - 1.8
        s = 1 / (1 + np.exp(-logit))
        old = 1 / (1 + np.exp(-logit - np.random.default_rng(8).normal(0, 1.5, rows)))
        table = pa.table(
            {
                "y_true": y,
                "y_score": np.round(s, 6),
                "y_score_old": np.round(old, 6),
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
        pc.write_csv(table, tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
