"""The documentation's site is built without a dead link."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_is_built_and_every_link_leads_somewhere(tmp_path):
    built = subprocess.run(  # noqa: S603 - our own pages
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "papers" / "index.html").exists()
    assert 'href="papers/xu2025.html"' in (tmp_path / "papers.html").read_text("utf-8")
