"""The README's example runs as it is pasted, and prints what the README shows."""

import re

import pytest

from readme_example import README, SHOWN, SNIPPET, lines_without_numbers


@pytest.mark.page("README.md")
def test_the_example_prints_what_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(SNIPPET, "README.md", "exec"), {})  # noqa: S102 - our own page
    printed = lines_without_numbers(capsys.readouterr().out)
    assert printed == lines_without_numbers(SHOWN)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_readme_is_short():
    """Prose, tables and commands; not what is rendered from results, nor the output."""
    own = re.sub(r"<!-- results.*?<!-- end -->", "", README, flags=re.DOTALL)
    own = own.replace(SHOWN, "")
    words = [word for word in own.split() if re.search(r"\w", word)]
    assert len(words) <= 720
