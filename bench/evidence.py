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

``papers-NAME`` is the page of a paper: ``python -m papers NAME --save``.
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
FITS: Final = (
    *("data/edges", "estimate", "metrics", "models", "noise", "statistic"),
    *("plan/bins", "plan/cohort", "plan/followup", "plan/heterogeneity"),
    *("plan/plan", "plan/rounds"),
)
"""What every figure about intervals depends on: edges, noise, counts, fits, metrics."""


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
        packages: the packages of ``discreet`` whose code the figures describe. Of these
            the modules count that the benchmark has loaded.
        settings: seeds, repetitions, populations: what makes the run repeatable.
    """

    name: str
    packages: Sequence[str]
    settings: Mapping[str, Any]
    whole: bool = False
    """Other processes did the work: every module of the packages counts."""
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
        code = modules(self.packages, whole=self.whole)
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
            "code": {"modules": code, "digest": code_digest(code)},
            "tables": self.tables,
            "figures": self.figures,
        }
        path = RESULTS / f"{self.name}.json"
        path.write_text(_lines(document) + "\n", encoding="utf-8")
        print(f"saved {path}")
        return path


def _lines(document: Mapping[str, Any]) -> str:
    """Return JSON with one row of a table on a line."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return re.sub(r"\n {5,}|\n {4}(?=[\]}])", " ", text)


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
    if script.name == "__main__.py":
        return ["-m", script.parent.name, *sys.argv[1:]]
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


def modules(packages: Sequence[str], *, whole: bool) -> list[str]:
    """Return the files of packages that this process has loaded, or all of them."""
    base = ROOT / "src" / "discreet"
    files: set[str] = set()
    for package in packages:
        inside = base / package
        every = inside.rglob("*.py") if inside.is_dir() else [inside.with_suffix(".py")]
        files |= {path.relative_to(base).as_posix() for path in every}
    if not whole:
        names = ("discreet/" + name for name in files)
        files = {
            name.removeprefix("discreet/")
            for name in names
            if name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            in sys.modules
        }
    return sorted(files)


def code_digest(modules: Sequence[str]) -> str:
    """Return a digest of modules' code; comments and docstrings do not count."""
    digest = hashlib.sha256()
    for module in sorted(modules):
        path = ROOT / "src" / "discreet" / module
        code = path.read_text(encoding="utf-8") if path.exists() else ""
        digest.update(module.encode())
        digest.update(ast.dump(_without_docstrings(ast.parse(code))).encode())
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
        if code_digest(document["code"]["modules"]) != document["code"]["digest"]
    ]


# -- measuring again ---------------------------------------------------------------

_FEW: Final = "--runs 1 --rows 2000 --stand-ins"
RUNS: Final[Mapping[str, tuple[str, str]]] = {
    "accuracy": ("--seeds 12", "--seeds 1 --most 2 --facts true"),
    "hard_coverage": (
        "--of real made shared trained --repetitions 100 --noise exact 1 0.3 local label",
        "--of real --only affairs-logistic --repetitions 25 --noise 1 --sizes 2000",
    ),
    "constants": ("", "--only _POWER --most 1 --repetitions 25"),
    "coverage": (
        "--repetitions 1000",
        "--repetitions 25 --noise 1 --areas 0.77 --sizes 2000",
    ),
    "calibration_coverage": (
        "--seed 91 --repetitions 200",
        "--repetitions 5 --noise exact",
    ),
    "calibration": ("--halves 60", "--halves 5 --sets adult-lr"),
    "comparison_power": ("", "--repetitions 2 --noise 1 --forms default"),
    "prediction": ("", "--repetitions 2"),
    "verdicts": ("--seed 7", "--plans 2 --repetitions 4"),
    "heterogeneity": ("--repetitions 500", "--repetitions 3"),
    "measures_coverage": (
        "--repetitions 300",
        "--repetitions 10 --only extreme --parts measures gaps conformal",
    ),
    "label_privacy": ("", "--quick --runs 5 --confirm 50"),
    "label_curves": ("--runs 12", "--runs 1 --most 10"),
    "local": ("", "--seeds 1 --epsilons 5"),
    "phones": ("--seeds 20", "--seeds 1 --epsilons 5 --clients 10000"),
    "poisoning": (
        "--parts real",
        "--reports 20000 --mixtures 2 --epsilons 5 --parts simulated",
    ),
    "reports": (
        "",
        "--reports 100000 --engines duckdb --single 500 --batched 1000 --kills 0",
    ),
    "curves": ("", ""),
    "demo": ("", ""),
    "synthetic_rare": (
        "--tables calibration --halves 6",
        "--tables calibration --halves 1",
    ),
    "throughput": ("", "--pairs 1000000 --rows 1000000 --repeats 1"),
    "scoring": ("--rows 500000", "--rows 20000 --many 50000"),
    "waiting": ("--sessions 7", "--sessions 1"),
    "waiting_bad_line": ("--bad-line --sessions 5", "--bad-line --sessions 1"),
    "exact": ("", "--quick --only paper"),
    "timed": ("", "--repetitions 2"),
    "timed_coverage": ("", "--repetitions 3 --only Weibull --sizes 5000"),
    "timed_tables": ("", "--splits 1 --only whas500"),
    "papers-boyd2015": ("", _FEW),
    "papers-cormode2023": ("", _FEW),
    "papers-sun2022": ("", _FEW),
    "papers-unal2023": ("", _FEW),
    "papers-xu2025": ("", _FEW),
    "papers-index": ("", _FEW),
}
"""Each result's benchmark: the options of the whole run, and of a small share of it."""
MPC: Final = frozenset({"exact", "papers-unal2023"})
"""These run in the environment of the ``mpc`` extra."""


def measure(names: Sequence[str], *, quick: bool) -> int:
    """Run benchmarks; a quick run leaves ``results/`` as it is."""
    failed = []
    with tempfile.TemporaryDirectory() as aside:
        # Small matrices: threads of BLAS would wait for each other, one result's for another's.
        environment = {
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            **os.environ,
        }
        paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if quick:
            environment["DISCREET_RESULTS"] = aside
        for name in names or RUNS:
            options = RUNS[name][1 if quick else 0]
            print(f"== {name} {options}", flush=True)
            python = ROOT / ".venv-mpc" / "bin" / "python" if name in MPC else None
            paper, is_paper = name.removeprefix("papers-"), name.startswith("papers-")
            bench = f"{ROOT}/bench/{name.removesuffix('_bad_line')}.py"
            what = ["-m", "papers", paper] if is_paper else [bench]
            script = [
                *(str(python or sys.executable), *what),
                *(*options.split(), "--save"),
            ]
            # A paper stores its runs where it stands: aside, so that all are made anew.
            where = tempfile.mkdtemp(dir=aside) if is_paper else None
            done = subprocess.run(script, env=environment, cwd=where, check=False)  # noqa: S603
            if done.returncode:
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
