"""Nothing that a command prints or logs holds data, whatever goes wrong."""

import json
import os
import re
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import forked
from discreet.errors import InputError
from discreet.failures import exit_code, record, sentence

pytestmark = pytest.mark.long

MARKER = "Meier-7731"
DRIVER = Path(__file__).parents[1] / "failing_driver.py"

PRIVATE = ["--privacy", "distributed", "--epsilon", "1", "--unit", "subject"]
BOUNDED = ["--max-examples", "3", "--subject", "name", "--examples", "600"]
EVALUATE = ["evaluate", "north.csv", "south.csv", *PRIVATE, *BOUNDED, "--secagg"]
LABEL = ["evaluate", "north.csv", "south.csv", "--privacy", "label", "--epsilon", "1"]
ATTACK = ["attack", "auc", "north.csv", "--size", "100", "--trials", "2"]
LAYERS = (
    *("data", "plan", "models", "privacy", "statistic", "noise", "secagg", "estimate"),
    *("report", "session", "transport", "cli.files"),
)
COMMANDS = {
    **dict.fromkeys(LAYERS, EVALUATE),
    "label": LABEL,
    "attack": ATTACK,
    "curator": ATTACK,
}


def python(arguments, *, cwd, **environment):
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "XDG_STATE_HOME": str(cwd / "state"), **environment},
        check=False,
    )


def code(text, *, cwd, **environment):
    return python(["-c", textwrap.dedent(text)], cwd=cwd, **environment)


def discreet(*arguments, cwd):
    env = {**os.environ, "XDG_STATE_HOME": str(cwd / "state")}
    return forked.run(arguments, cwd=cwd, env=env)


@pytest.fixture
def folder(tmp_path, rng):
    for name in ("north", "south"):
        s = np.round(rng.random(300), 6)
        y = (rng.random(300) < s).astype(int)
        rows = [f"{MARKER}-{i % 200},{s[i]},{y[i]}" for i in range(300)]
        text = "\n".join(["name,y_score,y_true", *rows])
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def logs(folder):
    return sorted((folder / "state" / "discreet").glob("*.log"))


def test_an_error_thrown_in_any_layer_tells_nobody_the_data(folder):
    cases = [
        [package, call, error, arguments]
        for package, arguments in COMMANDS.items()
        for call, error in ((1, "ValueError"), (3, "KeyError"), (9, "OSError"))
    ]
    (folder / "cases.json").write_text(json.dumps(cases))
    run = python([DRIVER, "cases.json"], cwd=folder)
    assert run.returncode == 0, run.stderr
    thrown = dict.fromkeys(COMMANDS, 0)
    for case, (place, status, printed) in zip(
        cases, json.loads(run.stdout), strict=True
    ):
        thrown[case[0]] += bool(place)
        assert MARKER not in printed, place
        assert "Traceback" not in printed, place
        assert status in ((2, 70) if place else (0, 2)), (place, status, printed)
    assert all(thrown.values()), thrown
    assert len(logs(folder)) >= len(COMMANDS)
    for log in logs(folder):
        assert MARKER not in log.read_text()


LATIN_1 = f"y_score,y_true\n0.5,Müller {MARKER}\n0.6,0\n".encode("latin-1")
NO_PLAN = (
    "west.csv is not UTF-8 text and so not a plan; check the order of the files, or save "
    "it as UTF-8"
)
NO_LABELS = (
    "west.csv: column y_true is not UTF-8 text: declare the encoding that the file was "
    "saved in, such as --encoding latin-1"
)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("preview west.csv north.csv", NO_PLAN),
        (
            "preview north.csv south.csv",
            "north.csv: the plan is not valid TOML at line 1, column 5",
        ),
        ("evaluate west.csv", NO_LABELS),
        ("attack top-scores west.csv", NO_LABELS),
    ],
)
def test_a_wrong_file_is_named_in_one_sentence_and_not_quoted(
    folder, command, sentence
):
    (folder / "west.csv").write_bytes(LATIN_1)
    run = discreet(*command.split(), cwd=folder)
    assert (run.returncode, run.stderr) == (2, f"discreet: {sentence}\n")
    assert MARKER not in run.stdout


@pytest.mark.parametrize(
    "row", ["Meier;0.93;1", "Meier;0,93;1", "Meier,,yes", "Meier,1950-03-02,yes"]
)
def test_a_row_in_the_place_of_the_header_is_not_quoted(folder, row):
    (folder / "west.csv").write_text(f"{row}\n{row}\n")
    run = discreet("evaluate", "west.csv", cwd=folder)
    assert run.returncode == 2
    assert "the first row looks like data" in run.stderr
    assert "Meier" not in run.stderr + run.stdout


def test_an_unexpected_error_is_one_sentence_with_a_private_log(folder):
    run = code(
        f"""
        import sys
        from discreet.cli import choices, main
        def broken(*args, **kwargs):
            row = "{MARKER}"
            raise ZeroDivisionError(row) from ValueError(row)
        choices.read = broken
        sys.argv = ["discreet", "evaluate", "{MARKER}.csv"]
        main.main()
        """,
        cwd=folder,
    )
    assert run.returncode == 70
    (log,) = logs(folder)
    assert run.stdout == ""
    assert run.stderr == (
        "discreet: something unexpected happened (ZeroDivisionError), a fault of the "
        f"program; {log} says where, no data\n"
    )
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    text = log.read_text()
    assert MARKER not in text
    assert "doing: evaluate\n" in text
    assert "because of: builtins.ValueError" in text
    assert re.search(r"discreet\.cli\.evaluate, line \d+, in evaluate", text)


def test_uncaught_errors_warnings_and_log_records_of_a_process_tell_no_data(folder):
    run = code(
        f"""
        import logging, sys, threading, warnings
        from discreet.errors import DisclosureWarning
        from discreet.failures import guard
        guard()
        secret = "{MARKER}"
        def fail(): raise KeyError(secret)
        thread = threading.Thread(target=fail)
        thread.start(); thread.join()
        warnings.warn(secret, RuntimeWarning)
        warnings.warn("said on purpose", DisclosureWarning)
        logging.getLogger("library").error("cell %s", secret)
        class Final:
            def __del__(self): fail()
        made = Final()
        del made
        fail()
        """,
        cwd=folder,
    )
    assert run.returncode == 1
    assert MARKER not in run.stderr + run.stdout
    assert run.stderr.count("something unexpected happened (KeyError)") == 3
    assert "Warning: RuntimeWarning at line" in run.stderr
    assert "Warning: said on purpose" in run.stderr
    assert "discreet: library logged: error" in run.stderr
    assert len(logs(folder)) == 3


def test_an_interrupt_and_a_closed_pipe_end_quietly(folder):
    run = code(
        """
        import sys
        from discreet.cli import choices, main
        def stop(*args, **kwargs): raise KeyboardInterrupt
        choices.read = stop
        sys.argv = ["discreet", "evaluate", "north.csv"]
        main.main()
        """,
        cwd=folder,
    )
    assert (run.returncode, run.stderr) == (130, "discreet: interrupted\n")
    shell = f"{sys.executable} -c 'from discreet.cli.main import main; main()' exact --help | true; exec echo over"
    run = subprocess.run(  # noqa: S602 - our own command
        shell, shell=True, capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("over\n", "")


def test_a_missing_file_is_said_with_its_name_and_no_text_of_the_error(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        (tmp_path / "plan.toml").read_text()
    where = tmp_path / "plan.toml"
    assert sentence(missing.value) == f"No such file or directory: {where}"
    assert sentence(OSError(13, MARKER)) == "Permission denied"
    assert exit_code(missing.value) == exit_code(InputError("n")) == 2


def test_a_state_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "taken"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = record(ValueError(MARKER))
    assert log is not None
    assert log.parent.parent == tmp_path
    assert MARKER not in log.read_text()
    (tmp_path / "gone").symlink_to(tmp_path)
    log.unlink()
    log.parent.rmdir()
    log.parent.symlink_to(tmp_path / "gone")
    assert record(ValueError(MARKER)) is None


def test_the_members_of_a_group_and_what_came_before_are_logged_by_type(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def fail():
        try:
            {}[MARKER]
        except KeyError:
            raise ExceptionGroup(MARKER, [TypeError(MARKER)]) from OSError(MARKER)

    with pytest.raises(ExceptionGroup) as found:
        fail()
    said = sentence(found.value, doing="a test")
    text = Path(re.search(r"; (\S+) says", said).group(1)).read_text()
    assert MARKER not in text + said
    for kind in ("ExceptionGroup", "OSError", "KeyError", "TypeError"):
        assert f"builtins.{kind}" in text
