"""The README's example runs as it is pasted, and prints what the README shows."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SNIPPET, SHOWN = re.search(
    r"```python\n(.*?)```\n\n(    .*?)\n\n", README, re.DOTALL
).groups()


def _words(text):
    """Leave numbers out: the noise is another one each time."""
    return [re.sub(r"[\d.,±<]+", "#", line.strip()) for line in text.splitlines()]


def test_the_example_prints_what_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(SNIPPET, "README.md", "exec"), {})  # noqa: S102 - our own page
    printed = [re.sub(r"\s+", " ", line) for line in _words(capsys.readouterr().out)]
    assert printed == [re.sub(r"\s+", " ", line) for line in _words(SHOWN)]
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_readme_is_short():
    prose = re.sub(
        r"```.*?```|^    .*?$|^\|.*?$", "", README, flags=re.DOTALL | re.MULTILINE
    )
    assert len(prose.split()) <= 700
