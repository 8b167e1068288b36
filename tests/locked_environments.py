"""Make every locked environment while the registry offers a newer release of everything.

    python tests/locked_environments.py

An invented index holds version 9999 of each package that a lock or ``pyproject.toml`` names;
the one of the build tool does not even import. Next to it the ordinary registry answers. With
the pip that Python brings, and with the newest one, ``make`` then sets up each environment
in a copy of the tree. It must hold exactly what its lock says, and ``pip check`` must agree.
A plain ``pip install`` must fall for the invented releases, or nothing would be shown.
Prints a table and exits with 1 when a row fails.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LATER = "9999.0"
SETS = {
    ".venv/.demo": ("locks/deploy.txt",),
    ".venv/.dev": ("locks/dev.txt",),
    ".venv-flower/.tests": ("locks/flower.txt", "locks/tests.txt"),
    ".venv-mpc/.tests": ("locks/mpc.txt", "locks/tests.txt"),
}
"""What `make` sets up, in this order, and the locks that it must follow."""
PIPS = ("bundled", "newest")
BROKEN = "raise ImportError('an invented release that works nowhere')\n"


class RowFailedError(Exception):
    """An environment could not be made, or does not hold what its lock says."""


def normal(name: str) -> str:
    """Return a package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(lock: Path) -> dict[str, set[str]]:
    """Return the versions that a lock names, one for each set of Pythons."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", lock.read_text()):
        versions.setdefault(normal(name), set()).add(version)
    return versions


def named() -> set[str]:
    """Return every package that a lock or ``pyproject.toml`` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = list(project["build-system"]["requires"])
    wanted += project["project"]["dependencies"]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    direct = {normal(re.match(r"[\w.-]+", each)[0]) for each in wanted}
    locked = {name for lock in ROOT.glob("locks/*.txt") for name in pinned(lock)}
    return (direct | locked) - {"discreet"}


def invent(names: Iterable[str], folder: Path) -> None:
    """Write a wheel of a later version of each package, which cannot be imported."""
    for name in names:
        module = name.replace("-", "_")
        info = f"{module}-{LATER}.dist-info"
        files = {
            f"{module}/__init__.py": BROKEN,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {LATER}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\n"
            "Root-Is-Purelib: true\nTag: py3-none-any\n",
        }
        rows = [f"{path},{_digest(text)},{len(text)}" for path, text in files.items()]
        files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
        wheel = folder / f"{module}-{LATER}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def run(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> str:
    """Run a command and return what it prints, or an error that shows its end."""
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        called = " ".join(map(str, command))
        raise RowFailedError(f"{called}\n{done.stdout[-1500:]}{done.stderr[-2500:]}")
    return done.stdout


def copy(target: Path) -> None:
    """Copy what git tracks, as it stands here, so that environments are made elsewhere."""
    tracked = run("git", "ls-files", "-z", cwd=ROOT, env=os.environ)
    for name in tracked.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def check(tree: Path, target: str, env: Mapping[str, str]) -> str:
    """Set up one environment; what it holds must be what its locks say."""
    run("make", target, cwd=tree, env=env)
    python = tree / Path(target).parts[0] / "bin" / "python"
    run(python, "-m", "pip", "check", cwd=tree, env=env)
    listed = run(python, "-m", "pip", "list", "--format=freeze", cwd=tree, env=env)
    held = {normal(n): v for n, v in re.findall(r"(?m)^([\w.-]+)==(\S+)$", listed)}
    locked: dict[str, set[str]] = {}
    for name in SETS[target]:
        for package, versions in pinned(ROOT / name).items():
            locked.setdefault(package, set()).update(versions)
    others = {".venv/.dev": pinned(ROOT / "locks/deploy.txt")}.get(target, {})
    for package, version in held.items():
        admitted = locked.get(package, set()) | others.get(package, set())
        if package not in {"discreet", "pip"} and version not in admitted:
            raise RowFailedError(f"{package} {version} is in no lock of {target}")
    return f"{len(held)} packages as locked"


def rows(pip: str, index: Path, folder: Path) -> list[tuple[str, float, str]]:
    """Set up each environment with one version of pip; a line for each."""
    tree = folder / pip
    tree.mkdir()
    copy(tree)
    plain = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MAKELEVEL"}}
    plain |= {"PYTHON": sys.executable, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for name in {Path(target).parts[0] for target in SETS}:
        run(sys.executable, "-m", "venv", tree / name, cwd=tree, env=plain)
        if pip == "newest":
            python = tree / name / "bin" / "python"
            update = ("-m", "pip", "install", "--quiet", "--upgrade", "pip")
            run(python, *update, cwd=tree, env=plain)
    later = plain | {"PIP_FIND_LINKS": str(index)}
    told = run(tree / ".venv/bin/python", "-m", "pip", "--version", cwd=tree, env=plain)
    version = told.split()[1]

    table = []
    twin = ("-m", "pip", "install", "--dry-run", "--no-deps", "attrs")
    found = run(tree / ".venv/bin/python", *twin, cwd=tree, env=later)
    seen = f"attrs-{LATER}" in found
    table.append(
        (
            f"{version:9}{'no lock: attrs':22}",
            0.0,
            f"takes {LATER}, as it should" if seen else "FAILED: the index is not seen",
        )
    )
    for target in SETS:
        if target.startswith(".venv-mpc") and sys.version_info[:2] != (3, 11):
            table.append((f"{version:9}{target:22}", 0.0, "left out: not Python 3.11"))
            continue
        began = time.monotonic()
        try:
            result = check(tree, target, later)
        except RowFailedError as error:
            result = f"FAILED\n{error}"
        table.append((f"{version:9}{target:22}", time.monotonic() - began, result))
    return table


def main() -> int:
    """Fill the table."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="discreet-locked-") as temporary:
        folder = Path(temporary)
        index = folder / "index"
        index.mkdir()
        invent(named(), index)
        print(f"{len(list(index.iterdir()))} packages have an invented release {LATER}")
        print(f"{'pip':9}{'environment':22}{'seconds':>8}  result", flush=True)
        with ThreadPoolExecutor(len(PIPS)) as pool:
            for table in pool.map(lambda pip: rows(pip, index, folder), PIPS):
                for start, seconds, result in table:
                    failed += "FAILED" in result
                    print(f"{start}{seconds:8.0f}  {result}", flush=True)
    print("all environments are as locked" if not failed else f"{failed} rows FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
