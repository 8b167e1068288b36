"""Each page in a fresh environment, made by exactly the installation line that stands on it.

    python tests/page_installs.py [README.md docs/tutorial-scoring.md ...]

A page with commands has a line such as ``pip install '.[deploy]'``, or says which page's it
shares: "Install as on [the start page](index.md)". Pages of one line share an environment;
the clone in the line is the wheel, built once. The environment's interpreter runs a page's
examples, and the tests that execute its commands: ``@pytest.mark.page("README.md")``. pytest
is in a folder beside it, after everything else on the interpreter's path, and no command of
a page sees it. Prints a row per page and exits with 1 when one fails. What a page needs that
pip does not install is named in its row where it is absent. A test that several pages share
runs once, and its seconds stand in the row of each.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from built import ROOT, build
from install_matrix import HERE, CellFailedError, Environment

PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
)
COMMAND = re.compile(r"^ *(?:\$|>>>) |^ {4}(?:discreet|flwr|pip|python) ", re.MULTILINE)
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
INSTALL = re.compile(r"pip install ([^`\n]*)")
SHARED = re.compile(r"Install\s+as\s+(?:on|for)\s+\[[^\]]*\]\(([^)#]+)[^)]*\)")
TOOLS = ("pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100")
PYTEST = """
import json, sys
tools, told, *arguments = sys.argv[1:]
sys.path.append(tools)
import pytest

class Results:
    def pytest_runtest_logreport(self, report):
        said = report.longrepr[-1] if report.skipped else report.longreprtext
        with open(told, "a") as file:
            row = report.nodeid, report.when, report.duration, report.outcome, said
            file.write(json.dumps(row) + chr(10))

sys.exit(pytest.main(arguments, plugins=[Results()]))
"""
"""pytest, found after everything else, and one line per phase of a test in a file."""
LEFT_OUT = {
    "docs/command-line.md": "a reference: tests/unit/cli compares it with the program",
    "docs/report.md": "its command is one of docs/for-privacy-reviewers.md",
}
"""Pages with commands that no test executes, and why."""


class NoInstallationError(Exception):
    """A page with commands that does not say how they are installed."""


@dataclass(frozen=True, order=True)
class Installation:
    """What the line of a page installs."""

    extras: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    python: str = ""
    """The one version of Python that the line asks for; empty if it asks for none."""

    @classmethod
    def from_line(cls, line: str) -> Installation | None:
        """Read what follows ``pip install``; None if it does not install the clone alone.

        >>> Installation.from_line("'.[deploy,sql]'")
        Installation(extras=('deploy', 'sql'), others=(), python='')
        >>> Installation.from_line("'.[mpc]' xyz   # Python 3.11").python
        '3.11'
        >>> Installation.from_line("--no-deps --no-build-isolation .") is None
        True
        """
        words = shlex.split(line, comments=True)
        clone = [found for word in words if (found := _CLONE.fullmatch(word))]
        if not clone or any(word.startswith("-") for word in words):
            return None
        extras = clone[0][1] or ""
        others = [word for word in words if not _CLONE.fullmatch(word)]
        asked = re.search(r"#.*\bPython (\d\.\d+)", line)
        return cls(
            tuple(sorted(filter(None, extras.split(",")))),
            tuple(sorted(others)),
            asked[1] if asked else "",
        )

    def __str__(self) -> str:
        """Return it as a page writes it."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return " ".join((f".{extras}", *self.others))

    def of(self, wheel: Path) -> list[str]:
        """Return what pip is asked for, with the wheel in the clone's place."""
        return [str(self).replace(".", str(wheel), 1).split()[0], *self.others]


_CLONE = re.compile(r"\.(?:\[([a-z,]+)\])?")


def has_commands(text: str) -> bool:
    """Tell whether a page has something to type, or an example in Python."""
    return COMMAND.search(text) is not None


def installation(page: str, *, root: Path = ROOT) -> Installation:
    """Return what the page's line installs, or the line of the page that it shares."""
    seen: list[str] = []
    while page not in seen:
        seen.append(page)
        text = (root / page).read_text(encoding="utf-8")
        lines = map(Installation.from_line, INSTALL.findall(text))
        if made := next(filter(None, lines), None):
            return made
        other = SHARED.search(text)
        if other is None:
            break
        target = (root / page).parent / other[1]
        page = str(target.resolve().relative_to(root.resolve()))
    told = f"{' -> '.join(seen)}: commands, and no line that installs what they need"
    raise NoInstallationError(told)


def executed() -> dict[str, list[str]]:
    """Return the tests that execute each page's commands, by their marks."""
    tests = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        functions = ast.parse(text).body if "mark.page(" in text else []
        for function in functions:
            for mark in getattr(function, "decorator_list", ()):
                if isinstance(mark, ast.Call) and "mark.page" in ast.unparse(mark):
                    name = f"{path.relative_to(ROOT)}::{function.name}"  # type: ignore[attr-defined]
                    for page in mark.args:
                        tests[ast.literal_eval(page)].append(name)
    return tests


def table() -> list[tuple[Installation, str, tuple[str, ...]]]:
    """Return each page with commands, how it is installed, and what executes it."""
    tests, rows = executed(), []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        if has_commands(text):
            own = (page,) if EXAMPLE.search(text) else ()
            rows.append((installation(page), page, (*own, *tests[page])))
    return sorted(rows)


def run(
    environment: Environment, tools: Path, tests: Sequence[str]
) -> dict[str, tuple[float, str]]:
    """Run tests by the environment's interpreter; the seconds and the result of each."""
    told = environment.folder / "results"
    options = ["-q", "-o", "pythonpath=tests .", "-p", "no:cacheprovider"]
    if len(tests) > 1:
        options += ["-n", "2"]
    try:
        words = ("-c", PYTEST, tools, told, *options, *tests)
        environment.run("python", *words, cwd=ROOT)
    except CellFailedError as error:
        if not told.exists():
            return dict.fromkeys(tests, (0.0, f"FAILED\n{error}"))
    return results(told.read_text(encoding="utf-8").splitlines(), tests)


def results(lines: Iterable[str], tests: Sequence[str]) -> dict[str, tuple[float, str]]:
    """Return each test's seconds and result; the lines are those that PYTEST writes."""
    found = dict.fromkeys(tests, (0.0, "FAILED\nit did not end"))
    broken = {"skipped": "left out: ", "failed": "FAILED\n"}
    for line in lines:
        name, phase, took, outcome, said = json.loads(line)
        test = name.partition("::")[0] if ".md::" in name else name
        before, result = found[test]
        if outcome in broken:
            result = broken[outcome] + said.removeprefix("Skipped: ")[-4000:]
        elif phase == "call":
            result = "passed"
        found[test] = before + took, result
    return found


def rows(
    installed: Installation,
    pages: Sequence[tuple[str, tuple[str, ...]]],
    wheel: Path,
    tools: Path,
) -> Iterator[tuple[str, float, str]]:
    """Install once, run what all pages need, and yield what came of it and of each page."""
    if installed.python not in {"", HERE}:
        for page, _ in pages:
            yield page, 0, f"left out: needs Python {installed.python}, this is {HERE}"
        return
    with tempfile.TemporaryDirectory(
        prefix="discreet-page-", ignore_cleanup_errors=True
    ) as folder:
        environment, began = Environment(Path(folder)), time.monotonic()
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)  # noqa: S603
            # Modules are compiled when they are imported; most of them never are. Flower
            # gives up a process that takes longer than 30 s to start, so there all are.
            late = [] if "flower" in installed.extras else ["--no-compile"]
            environment.install(*late, *installed.of(wheel))
        except (CellFailedError, subprocess.CalledProcessError) as error:
            yield "", time.monotonic() - began, f"FAILED\n{error}"
            return
        yield "", time.monotonic() - began, "installed"
        needed = {test for _, tests in pages for test in tests}
        found = run(environment, tools, sorted(needed)) if needed else {}
        for page, tests in pages:
            idle = [] if tests else [(0.0, f"left out: {LEFT_OUT[page]}")]
            yield page, *together([found[test] for test in tests] + idle)


def together(results: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the seconds of a page, and its results: failures first, each once.

    >>> together([(1, "passed"), (2, "passed"), (0, "left out: no server")])
    (3, 'passed; left out: no server')
    """
    kinds = ("FAILED", "passed", "left out: ")
    told = sorted(
        (r for _, r in results), key=lambda r: [not r.startswith(k) for k in kinds]
    )
    return sum(seconds for seconds, _ in results), "; ".join(dict.fromkeys(told))


def main() -> int:
    """Fill the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", nargs="*", help="of all pages only these")
    only = parser.parse_args().page
    if unknown := sorted(set(only) - set(PAGES)):
        parser.error(f"no such page: {', '.join(unknown)}")
    chosen = [row for row in table() if not only or row[1] in only]
    failed = []
    with tempfile.TemporaryDirectory(prefix="discreet-pages-") as folder:
        wheel, tools = build(Path(folder) / "dist", "wheel"), Path(folder) / "tools"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tools]
        subprocess.run([*pip, *TOOLS], check=True, capture_output=True)  # noqa: S603
        print(f"{'page':36}{'seconds':>8}  result")
        for installed, group in groupby(chosen, key=lambda row: row[0]):
            pages = [(page, tests) for _, page, tests in group]
            for page, took, result in rows(installed, pages, wheel, tools):
                name = f"  {page}" if page else f"pip install '{installed}'"
                print(f"{name:36}{took:8.0f}  {result}", flush=True)
                failed += [name] if result.startswith("FAILED") else []
    print(f"{len(failed)} FAILED" if failed else "all pages passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
