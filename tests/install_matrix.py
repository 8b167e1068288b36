"""The wheel in fresh environments: every Python found, newest and oldest versions.

    python tests/install_matrix.py [--only 3.13]

Builds the wheel once. Each of Python 3.11 to 3.14 that is found gets an environment
with the newest versions that the wheel admits, one with the extras of sites together, and one
with ``flower``; 3.11 also some with the oldest versions that ``pyproject.toml`` admits (its newest
extras are left to ``page_installs.py``, which runs tutorials). In each the program runs
as a user would run it, and a test of each extra. Prints a table and exits with 1 when a
cell fails. A Python that is not found is named and left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from built import ROOT, build

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
HERE = "{}.{}".format(*sys.version_info)
SITES = "accounting,deploy,score,sql"
"""Extras that go together; Flower holds some of their packages back."""
TOOLS = ("pytest", "hypothesis", "pandas", "polars")
"""What the extras' tests need."""
MODELS = (
    ("secure-aggregation",),
    ("distributed", "--epsilon", "1"),
    ("local", "--epsilon", "2"),
)
FACTS = ("--examples", "6000", "--prevalence", "0.5", "--sites", "3")
EXTRAS = {
    "accounting": ("tests/unit/privacy/test_composition.py", "tighter"),
    "sql": ("tests/unit/data/test_pushdown.py", "engine_counts_what"),
    "deploy": ("tests/e2e/test_https.py", "reveal_the_sum"),
    "score": ("tests/unit/data/test_onnx_rules.py", "refused"),
    "flower": ("tests/unit/transport/flower/test_app.py", "privacy or public"),
}
"""A test file of each, and which of its tests: counting in engines, a real session, ..."""
ROWS = """
import random
draw = random.Random(1)
for name in ("north", "south", "east"):
    with open(f"{name}.csv", "w") as file:
        file.write("y_true,y_score\\n")
        for _ in range(2000):
            score = draw.random()
            file.write(f"{int(draw.random() < score)},{score:.6f}\\n")
"""


class CellFailedError(Exception):
    """A command of a cell failed, with what it printed."""


@dataclass(frozen=True)
class Environment:
    """A fresh environment, and a folder to work in."""

    folder: Path

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command of the environment; what it prints, or an error that shows it."""
        # A path to the sources would hide what the wheel lacks.
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        clean |= {
            "FRESH_PROCESSES": "1",
            "XDG_STATE_HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder),
        }
        program, *rest = command
        run = subprocess.run(  # noqa: S603 - our own environment
            [self.folder / "bin" / program, *rest],
            cwd=cwd or self.folder,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            called = " ".join(map(str, command))
            raise CellFailedError(f"{called}\n{run.stdout[-2000:]}{run.stderr[-3000:]}")
        return run.stdout

    def install(self, *wanted: str) -> None:
        """Install packages, wheel and extras."""
        self.run("python", "-m", "pip", "install", "--quiet", *wanted)

    def use(self) -> None:
        """Run the program as a user would: evaluate, plan, report, verify."""
        assert self.run("discreet", "--version").startswith("discreet ")
        assert "evaluate" in self.run("python", "-m", "discreet", "--help")
        assert "--epsilon" in self.run("discreet", "evaluate", "--help")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (pasted,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
        assert "Claim: 1-DP" in self.run("python", "-c", pasted)
        self.run("python", "-c", ROWS)
        sites = ("north.csv", "south.csv", "east.csv")
        for model in MODELS:
            page = f"{model[0]}.html"
            asked = ("--privacy", *model, "--report", page)
            assert "AUC" in self.run("discreet", "evaluate", *sites, *asked)
            assert f"{page} holds." in self.run("discreet", "verify", page)
            if model[1:]:
                asked = ("--privacy", *model, *FACTS, "-o", f"{model[0]}.toml")
                assert "Wrote" in self.run("discreet", "plan", *asked)
        self.run("discreet", "preview", "distributed.toml", "north.csv")

    def test(self, extra: str) -> None:
        """Run an extra's test against the installed wheel, not the sources."""
        path, chosen = EXTRAS[extra]
        inside = ("-o", "pythonpath=tests .", "-p", "no:cacheprovider", "-k", chosen)
        where = "import discreet; print(discreet.__file__)"
        assert str(self.folder) in self.run("python", "-c", where)
        printed = self.run("python", "-m", "pytest", "-q", *inside, path, cwd=ROOT)
        assert re.search(r"[1-9]\d* passed", printed), printed


def interpreters() -> Iterator[tuple[str, str | None]]:
    """Return each version with its interpreter: on the path, or one of pyenv's."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        pyenv = sorted(kept.glob(f"{version}.*/bin/python{version}"))
        for python in (shutil.which(f"python{version}"), sys.executable, *pyenv):
            if python is not None and _version_of(python) == version:
                yield version, str(python)
                break
        else:
            yield version, None


def _version_of(python: str | Path) -> str:
    told = "import sys; print('%d.%d' % sys.version_info[:2])"
    run = subprocess.run(  # noqa: S603 - an interpreter that was found
        [python, "-c", told], capture_output=True, text=True, check=False
    )
    return run.stdout.strip()


def oldest(extras: Sequence[str] = ()) -> list[str]:
    """Return the lowest version of every direct dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = list(project["dependencies"])
    for extra in extras:
        direct += project["optional-dependencies"][extra]
    pairs = (re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)", d) for d in direct)
    return [f"{pair[1]}=={pair[2]}" for pair in pairs if pair]


def main() -> int:
    """Fill the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=PYTHONS, help="one Python instead of all")
    only = parser.parse_args().only
    failed = 0
    with tempfile.TemporaryDirectory(prefix="discreet-install-") as folder:
        wheel = str(build(Path(folder) / "dist", "wheel"))
        print(f"{'Python':8}{'versions':10}{'extra':11}{'seconds':>8}  result")

        def cell(version: str, kind: str, extra: str, *wanted: str) -> None:
            nonlocal failed
            python, began = found[version], time.monotonic()
            place = Path(folder) / f"{version}-{kind}-{extra}"
            if not place.exists():
                subprocess.run([python, "-m", "venv", place], check=True)  # noqa: S603
            here, result = Environment(place), "passed"
            try:
                here.install(*wanted)
                here.use()
                for each in filter(None, extra.split(",")):
                    here.test(each)
            except (CellFailedError, AssertionError) as error:
                failed, result = failed + 1, f"FAILED\n{error}"
            took = time.monotonic() - began
            print(f"{version:8}{kind:10}{extra:11}{took:8.0f}  {result}", flush=True)

        found = {v: python for v, python in interpreters() if only in {None, v}}
        for version, python in found.items():
            if python is None:
                print(f"{version:8}not found: left out")
                continue
            cell(version, "newest", "", wheel)
            if version != HERE:  # page_installs.py runs whole tutorials with these
                cell(version, "newest", SITES, f"{wheel}[{SITES}]", *TOOLS)
                cell(version, "newest", "flower", f"{wheel}[flower,demo]", *TOOLS)
            if version == PYTHONS[0]:
                cell(version, "oldest", "", wheel, *oldest())
                both = f"{wheel}[{SITES}]", *oldest(SITES.split(","))
                cell(version, "oldest", SITES, *both, *TOOLS)
    passed = "all cells passed" if not failed else f"{failed} cells FAILED"
    print(passed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
