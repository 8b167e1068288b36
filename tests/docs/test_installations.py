"""Every page with commands says how to install what they need, and something executes them."""

import json
import tomllib

import pytest

from built import ROOT
from page_installs import (
    LEFT_OUT,
    PAGES,
    Installation,
    NoInstallationError,
    executed,
    has_commands,
    installation,
    results,
    table,
    together,
)

WITH_COMMANDS = [p for p in PAGES if has_commands((ROOT / p).read_text("utf-8"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_a_page_with_commands_says_how_to_install_what_they_need(page):
    assert set(installation(page).extras) <= set(EXTRAS)


def test_every_page_with_commands_is_executed_or_left_out_with_a_reason():
    idle = {page for _, page, tests in table() if not tests}
    assert idle == set(LEFT_OUT)


def test_a_test_is_marked_with_pages_that_have_commands():
    assert set(executed()) <= set(WITH_COMMANDS)
    assert len(executed()) > 10


def test_the_readme_and_the_start_page_install_the_same():
    assert installation("README.md") == installation("docs/index.md")


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ discreet demo\n```",
        "    discreet demo",
        "1. First:\n\n    ```console\n    $ discreet demo\n    ```",
        ">>> import discreet",
        "    >>> import discreet",
    ],
)
def test_commands_and_examples_are_seen(text):
    assert has_commands(f"# A page\n\n{text}\n")


@pytest.mark.parametrize(
    "text", ["`discreet demo` simulates", "It costs $ 5.", "```python\nx = 1\n```"]
)
def test_what_nobody_types_is_no_command(text):
    assert not has_commands(text)


def _pages(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)
    return {"root": folder}


def test_a_page_without_a_line_is_an_error(tmp_path):
    root = _pages(tmp_path, alone="    discreet demo", other="pip install '.[demo]'")
    with pytest.raises(NoInstallationError, match=r"^alone\.md: "):
        installation("alone.md", **root)


def test_a_page_shares_the_line_of_another(tmp_path):
    root = _pages(
        tmp_path,
        first="Install as for [the next](next.md#there).",
        next="Install as on\n[the last](last.md).",
        last="From a clone, `pip install '.[sql,deploy]' nvflare`.",
    )
    assert installation("first.md", **root) == Installation(
        ("deploy", "sql"), ("nvflare",)
    )


def test_pages_that_share_each_others_line_have_none(tmp_path):
    root = _pages(
        tmp_path,
        one="Install as for [two](two.md).",
        two="Install as for [one](one.md).",
    )
    with pytest.raises(NoInstallationError, match=r"one\.md -> two\.md: "):
        installation("one.md", **root)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("'.[demo,deploy]'", ["w.whl[demo,deploy]"]),
        (".", ["w.whl"]),
        ("'.[demo]' nvflare", ["w.whl[demo]", "nvflare"]),
        ("'.[mpc]'      # SecretFlow SPU; Python 3.11", ["w.whl[mpc]"]),
    ],
)
def test_the_wheel_is_installed_in_the_clones_place(line, wanted):
    assert Installation.from_line(line).of("w.whl") == wanted


@pytest.mark.parametrize(
    "line",
    [
        "--require-hashes -r locks/deploy.txt",
        "--no-deps --no-build-isolation .",
        "nvflare",
    ],
)
def test_a_line_with_options_or_without_the_clone_is_another(line):
    assert Installation.from_line(line) is None


def _told(*phases, test="tests/test_x.py::test_y", said=""):
    names = ("setup", "call", "teardown")[: len(phases)]
    rows = zip(names, phases, strict=True)
    return [json.dumps((test, name, 0.5, outcome, said)) for name, outcome in rows]


@pytest.mark.parametrize(
    ("phases", "said", "result"),
    [
        (["passed", "passed", "passed"], "", (1.5, "passed")),
        (["skipped"], "Skipped: no server", (0.5, "left out: no server")),
        (["passed", "failed", "passed"], "assert 0", (1.5, "FAILED\nassert 0")),
        (["passed", "passed", "failed"], "assert 0", (1.5, "FAILED\nassert 0")),
        (["passed"], "", (0.5, "FAILED\nit did not end")),
        ([], "", (0.0, "FAILED\nit did not end")),
    ],
)
def test_a_row_passes_when_its_test_ran_to_the_end(phases, said, result):
    for test, name in {
        "tests/test_x.py::test_y": "tests/test_x.py::test_y",
        "docs/x.md": "docs/x.md::x.md",
    }.items():
        lines = _told(*phases, test=name, said=said)
        assert results(lines, [test]) == {test: result}


def test_a_page_fails_when_one_of_its_tests_does():
    assert together([(1, "passed"), (2, "FAILED\nthere")]) == (
        3,
        "FAILED\nthere; passed",
    )
