"""Quoted figures: measured by benchmarks, kept in ``results/``, rendered into the pages.

A benchmark makes an :class:`Evidence`, adds tables and single figures to it and saves it as
``results/NAME.json``, with the settings, the versions and a digest of the code that it
measured. A page quotes a table or a figure between two comments:

    <!-- results: NAME/TABLE -->
    ...
    <!-- end -->

    python bench/evidence.py render          write the results into the pages
    python bench/evidence.py check           name pages that say something else
    python bench/evidence.py stale           name results that are older than their code
    python bench/evidence.py run [--quick] [NAME ...]    measure again, then render
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = Path(os.environ.get("DISCREET_RESULTS", ROOT / "results"))
PAGES: Final = ("README.md", "docs/**/*.md", "papers/docs/*.md")
_QUOTED: Final = re.compile(
    r"(<!-- results: (?P<file>[\w-]+)/(?P<part>[\w.-]+) -->)(?P<shown>.*?)(<!-- end -->)",
    re.DOTALL,
)
_VERSIONS: Final = ("numpy", "scipy")


@dataclass(frozen=True)
class Figure:
    """A measured number, and how sure it is where that is known.

    >>> str(Figure(0.3412, 0.31, 0.38)), str(Figure(24.5, digits=1, unit=" MB"))
    ('.34 [.31, .38]', '24.5 MB')
    """

    value: float
    low: float | None = None
    high: float | None = None
    digits: int = 2
    unit: str = ""

    def __str__(self) -> str:
        text = self._written(self.value)
        if self.low is not None and self.high is not None:
            text += f" [{self._written(self.low)}, {self._written(self.high)}]"
        return text + self.unit

    def _written(self, number: float) -> str:
        text = f"{number:,.{self.digits}f}"
        # As the pages write shares and errors: .34, not 0.34.
        return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


Cell: TypeAlias = "str | Figure"


@dataclass
class Evidence:
    """What one benchmark measured.

    Args:
        name: the file's name in ``results/``.
        packages: the packages of ``discreet`` whose code the figures describe.
        settings: seeds, repetitions, populations: what makes the run repeatable.
    """

    name: str
    packages: Sequence[str]
    settings: Mapping[str, Any]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]
    ) -> None:
        """Add a table, its rows in order."""
        if any(len(row) != len(columns) for row in rows):
            raise ValueError(f"a row of {name} has not {len(columns)} cells")
        self.tables[name] = {
            "columns": list(columns),
            "rows": [[_plain(cell) for cell in row] for row in rows],
        }

    def figure(self, name: str, figure: Figure) -> None:
        """Add a number that a sentence quotes."""
        self.figures[name] = _plain(figure)

    def save(self) -> Path:
        """Write the file, and return where it is."""
        RESULTS.mkdir(exist_ok=True)
        document = {
            "name": self.name,
            "command": " ".join(["python", *_command()]),
            "settings": dict(self.settings),
            "made": {
                "date": datetime.now(UTC).date().isoformat(),
                "commit": _commit(),
                "python": platform.python_version(),
                **{name: version(name) for name in _VERSIONS},
                "machine": f"{os.cpu_count()} cores, {_processor()}",
            },
            "code": {
                "packages": list(self.packages),
                "digest": code_digest(self.packages),
            },
            "tables": self.tables,
            "figures": self.figures,
        }
        path = RESULTS / f"{self.name}.json"
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        print(f"saved {path}")
        return path


def _plain(cell: Cell) -> Any:
    if isinstance(cell, str):
        return cell
    kept = {"text": str(cell), "value": float(cell.value)}
    if cell.low is not None and cell.high is not None:
        kept |= {"low": float(cell.low), "high": float(cell.high)}
    return kept


def _command() -> list[str]:
    script = Path(sys.argv[0]).resolve()
    inside = script.is_relative_to(ROOT)
    return [str(script.relative_to(ROOT)) if inside else script.name, *sys.argv[1:]]


def _commit() -> str:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout[:12]  # noqa: S603


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(names, platform.machine())


def code_digest(packages: Sequence[str]) -> str:
    """Return a digest of packages' code; comments and docstrings do not count."""
    digest = hashlib.sha256()
    for package in sorted(packages):
        base = ROOT / "src" / "discreet" / package
        files = (
            sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
        )
        for path in files:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            digest.update(str(path.relative_to(ROOT)).encode())
            digest.update(ast.dump(_without_docstrings(tree)).encode())
    return digest.hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if not isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            continue
        kept = [
            statement
            for statement in node.body
            if not (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            )
        ]
        node.body = kept or [ast.Pass()]
    return tree


# -- pages -------------------------------------------------------------------------


def _known() -> dict[str, Any]:
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RESULTS.glob("*.json"))
    }


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else str(cell["text"])


def _shown(known: Mapping[str, Any], file: str, part: str) -> str:
    document = known.get(file, {"tables": {}, "figures": {}})
    if part in document["figures"]:
        return _text(document["figures"][part])
    if part not in document["tables"]:
        raise LookupError(f"results/{file}.json has no {part}")
    table = document["tables"][part]
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    written = "\n".join(f"| {' | '.join(map(_text, line))} |" for line in lines)
    return f"\n\n{written}\n\n"


def rendered(page: str, known: Mapping[str, Any]) -> str:
    """Return a page with every quoted result as its file says it."""

    def replaced(match: re.Match[str]) -> str:
        shown = _shown(known, match["file"], match["part"])
        return f"{match[1]}{shown}{match[5]}"

    return _QUOTED.sub(replaced, page)


def pages() -> Iterator[Path]:
    """Every page that may quote a result."""
    for pattern in PAGES:
        yield from sorted(ROOT.glob(pattern))


def differing() -> list[Path]:
    """Return the pages that quote something else than the results say."""
    known = _known()
    return [
        page
        for page in pages()
        if (text := page.read_text(encoding="utf-8")) != rendered(text, known)
    ]


def render() -> None:
    """Write the results into the pages."""
    known = _known()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = rendered(text, known)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"rendered {page.relative_to(ROOT)}")


def stale() -> list[str]:
    """Return the results whose code has changed since they were measured."""
    return [
        name
        for name, document in _known().items()
        if code_digest(document["code"]["packages"]) != document["code"]["digest"]
    ]


# -- measuring again ---------------------------------------------------------------

RUNS: Final[Mapping[str, tuple[str, str]]] = {
    "accuracy": ("--seeds 12", "--seeds 1 --most 2 --facts true"),
    "hard_coverage": (
        "--of real made shared trained --repetitions 200 --noise exact 1 0.3 local label",
        "--of real --only affairs-logistic --repetitions 25 --noise 1 --sizes 2000",
    ),
    "constants": ("", "--only _POWER --most 1 --repetitions 25"),
    "coverage": ("", "--repetitions 25 --noise 1 --areas 0.77 --sizes 2000"),
    "calibration_coverage": (
        "--seed 91 --repetitions 200",
        "--repetitions 5 --noise exact",
    ),
    "comparison_power": ("", "--repetitions 2 --noise 1 --forms default"),
    "prediction": ("", "--repetitions 2"),
    "verdicts": ("--seed 7", "--plans 2 --repetitions 4"),
    "local": ("", "--seeds 1 --epsilons 5"),
    "curves": ("", ""),
    "throughput": ("", "--pairs 1000000 --rows 1000000 --repeats 1"),
    "waiting": ("--sessions 7", "--sessions 1"),
    "exact": ("", "--quick --only paper"),
}
"""Each result's benchmark: the options of the whole run, and of a small share of it."""
MPC: Final = frozenset({"exact"})
"""These run in the environment of the ``mpc`` extra."""


def measure(names: Sequence[str], *, quick: bool) -> int:
    """Run benchmarks; a quick run leaves ``results/`` as it is."""
    failed = []
    with tempfile.TemporaryDirectory() as aside:
        environment = dict(os.environ)
        if quick:
            environment["DISCREET_RESULTS"] = aside
        for name in names or RUNS:
            options = RUNS[name][1 if quick else 0]
            print(f"== {name} {options}", flush=True)
            python = ROOT / ".venv-mpc" / "bin" / "python" if name in MPC else None
            script = [
                str(python or sys.executable),
                str(ROOT / "bench" / f"{name}.py"),
                *options.split(),
                "--save",
            ]
            if subprocess.run(script, env=environment, check=False).returncode:  # noqa: S603
                failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    elif not quick:
        render()
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Results and the pages that quote them."
    )
    parser.add_argument("do", choices=("render", "check", "stale", "run"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RUNS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_intermixed_args()
    match options.do:
        case "render":
            render()
        case "run":
            return measure(options.names, quick=options.quick)
        case "check":
            for page in (found := differing()):
                print(f"{page.relative_to(ROOT)} quotes what results/ does not say")
            return 1 if found else 0
        case _:
            for name in (older := stale()):
                print(f"results/{name}.json is older than the code it describes")
            return 1 if older else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
