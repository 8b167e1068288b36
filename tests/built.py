"""Build the wheel from a copy, so that the clone is left as it was."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")


def build(out: Path, kind: str) -> Path:
    """Build a ``wheel`` or an ``sdist`` into a folder and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _SOURCES:
            source = ROOT / name
            if source.is_dir():
                skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(source, Path(folder) / name, ignore=skipped)
            else:
                shutil.copy(source, folder)
        # The build tool is the pinned one of this environment.
        options = ["--no-isolation", f"--{kind}", "--outdir", str(out)]
        command = ["-m", "build", *options, folder]
        subprocess.run(  # noqa: S603 - our own environment
            [sys.executable, *command], check=True, capture_output=True
        )
    (built,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built
