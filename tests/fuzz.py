"""Random search: property tests again and again, each round from a fresh seed.

    python tests/fuzz.py --seconds 600 --times 10 tests/properties

Each round draws ``--times`` as many examples as ``make test`` does, and other bytes wherever
a test draws from the operating system. The first failure ends the search: it prints the
example, for a regression test, and the command that draws it again.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def property_tests() -> list[str]:
    """Return the modules that draw examples."""
    return sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(
            r"^@given|^import hypothesis|RuleBasedState|^from fuzzing import",
            path.read_text(),
            re.MULTILINE,
        )
    )


def one_round(seed: int, times: int, paths: list[str]) -> int:
    """Run the tests once from a seed and return pytest's exit code."""
    chosen = {
        "FUZZ_SEED": str(seed),
        "FUZZ_TIMES": str(times),
        "PYTHONHASHSEED": "random",
    }
    command = [
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "not slow",
        f"--hypothesis-seed={seed}",
    ]
    run = subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, *command, "-n", str(os.cpu_count() or 1), *paths],
        cwd=ROOT,
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout.rstrip().rpartition("\n")[2], flush=True)
    if run.returncode:
        print(run.stdout, run.stderr, sep="\n")
        again = " ".join(f"{name}={value}" for name, value in chosen.items())
        print(f"To draw it again: {again} pytest {' '.join(command[2:] + paths)}")
    return run.returncode


def main() -> int:
    """Search until the time is up or something fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", default=property_tests())
    parser.add_argument("--seconds", type=float, default=600, help="time to search")
    parser.add_argument("--times", type=int, default=3, help="times as many examples")
    given = parser.parse_args()
    end, rounds = time.monotonic() + given.seconds, 0
    while rounds == 0 or time.monotonic() < end:
        seed = secrets.randbits(32)
        if code := one_round(seed, given.times, given.paths):
            return code
        rounds += 1
    print(f"{rounds} rounds of {given.times} times as many examples, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
