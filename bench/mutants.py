"""Break one privacy promise at a time in a copy, and see that the tests notice.

``tests/mutants.toml`` lists one-line edits of the package and the tests that must
fail under each. ``make mutants`` applies them one by one to a copy of the clone and
runs only those tests; it is not part of ``make test``. A catch counts only if the
same tests pass on the unbroken copy, which is tried first.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLONE: Final = Path(__file__).resolve().parents[1]
LIST: Final = CLONE / "tests" / "mutants.toml"
COPIED: Final = (
    "src",
    "tests",
    "bench",
    "docs",
    "vectors",
    "clients",
    "papers",
    "examples",
)
FILES: Final = ("pyproject.toml", "conftest.py", "README.md")
PASSED: Final = 0
FAILED: Final = 1
"""What pytest returns when a test failed; anything else is no catch."""


@dataclass(frozen=True)
class Mutant:
    """One edit of one file of the package, and the tests that must fail under it."""

    file: str
    old: str
    new: str
    tests: str
    environment: str = ""
    """The extra that the tests need, where they need one: ``flower`` or ``mpc``."""

    @property
    def selection(self) -> tuple[str, str]:
        """The tests and the extra whose environment has what they need."""
        return self.tests, self.environment

    @property
    def path(self) -> Path:
        """The file in a clone."""
        return Path("src", "discreet", self.file)

    def applied(self, source: str) -> str:
        """Return the file's text with the edit; it must fit exactly once."""
        if source.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"the edit of {self.file} does not fit once: {self.old}")
        return source.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Read the committed list."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**one) for one in listed]


def copied(folder: Path) -> Path:
    """Copy what the tests need of this clone."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in COPIED:
        if (CLONE / name).exists():
            shutil.copytree(CLONE / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(CLONE / name, folder / name)
    return folder


def outcome(selection: tuple[str, str], clone: Path) -> int:
    """Run some tests in the copy, with an extra's environment; return pytest's exit code."""
    tests, extra = selection
    python = CLONE / f".venv-{extra}" / "bin" / "python" if extra else sys.executable
    run = subprocess.run(  # noqa: S603 - this interpreter, committed arguments
        [
            *(python, "-m", "pytest", "-x", "-q", "-n", "0"),
            *("-p", "no:cacheprovider", *shlex.split(tests)),
        ],
        cwd=clone,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(clone / "src"), str(clone)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        check=False,
    )
    return run.returncode


def caught(mutant: Mutant, clone: Path) -> bool:
    """Apply a mutant, run its tests, and take it back."""
    target = clone / mutant.path
    source = target.read_text(encoding="utf-8")
    target.write_text(mutant.applied(source), encoding="utf-8")
    try:
        return outcome(mutant.selection, clone) == FAILED
    finally:
        target.write_text(source, encoding="utf-8")


def unbroken(chosen: list[Mutant], clone: Path) -> set[tuple[str, str]]:
    """Return which of the selections of tests pass where nothing is broken."""
    selections = sorted({mutant.selection for mutant in chosen})
    passing = {chosen for chosen in selections if outcome(chosen, clone) == PASSED}
    for selection in selections:
        if selection not in passing:
            print(f"    FAILS UNBROKEN  {' '.join(selection)}", flush=True)
    print(f"{len(passing)} of {len(selections)} selections pass on the unbroken copy")
    return passing


def main() -> int:
    """Run the mutants; return 1 if one was not caught."""
    every = mutants()
    parser = argparse.ArgumentParser(
        description="Break one privacy promise at a time; the tests must notice."
    )
    parser.add_argument(
        "numbers",
        type=int,
        nargs="*",
        metavar="N",
        help=f"mutants to run, 1 to {len(every)} in the order of the list; default all",
    )
    known = range(1, len(every) + 1)
    numbers = parser.parse_args().numbers or list(known)
    if not set(numbers) <= set(known):
        parser.error(f"mutants are numbered 1 to {len(every)}")
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        clone = copied(Path(folder))
        passing = unbroken([every[number - 1] for number in numbers], clone)
        for number in numbers:
            mutant, began = every[number - 1], time.monotonic()
            found = mutant.selection in passing and caught(mutant, clone)
            survived += [] if found else [number]
            word = "caught" if found else "SURVIVED"
            took = time.monotonic() - began
            line = mutant.new.strip().splitlines()[0] if mutant.new.strip() else ""
            print(f"{number:3} {word:8} {took:5.0f} s  {mutant.file}: {line}")
            sys.stdout.flush()
    print(f"{len(numbers) - len(survived)} of {len(numbers)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
