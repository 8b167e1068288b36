"""Kept executables: taken only when everything that decides them is the same."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from discreet.mpc import computing
from discreet.mpc.computing import MOST_KEPT, executable_of, own_folder
from discreet.mpc.program import Program
from mpc_reference import program

pytestmark = pytest.mark.mpc

PROGRAM = program((3, 4))


@pytest.fixture
def compiling(monkeypatch):
    """Count compilations, and give each program bytes of its own."""
    done = []

    def compiled(program):
        done.append(program)
        return b"code of " + program.canonical()

    monkeypatch.setattr(Program, "compile", compiled)
    return done


def test_a_program_is_compiled_once(tmp_path, compiling):
    first = executable_of(PROGRAM, tmp_path / "new")
    assert executable_of(PROGRAM, tmp_path / "new") == first
    assert compiling == [PROGRAM]
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "other",
    [
        program((4, 3)),
        program((3, 4), interval=True),
        program((3, 4), ties="none"),
        program((3, 4), epsilon=1),
    ],
)
def test_another_program_is_compiled_for_itself(tmp_path, compiling, other):
    executable_of(PROGRAM, tmp_path)
    assert executable_of(other, tmp_path) == b"code of " + other.canonical()
    assert compiling == [PROGRAM, other]


@pytest.mark.parametrize("what", ["circuit", "engine", "settings"])
def test_what_another_circuit_or_engine_compiled_is_not_taken(
    tmp_path, compiling, monkeypatch, what
):
    kept = tmp_path / "kept"
    executable_of(PROGRAM, kept)
    if what == "circuit":
        changed = tmp_path / "package"
        shutil.copytree(Path(computing.__file__).parent, changed)
        with (changed / "circuit.py").open("a") as source:
            source.write("# another\n")
        monkeypatch.setattr(computing, "__file__", str(changed / "computing.py"))
    elif what == "engine":
        monkeypatch.setattr(computing.metadata, "version", lambda _: "0.0")
    else:
        monkeypatch.setattr(computing, "SETTINGS", "other settings")
    executable_of(PROGRAM, kept)
    assert len(compiling) == 2


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_file_is_compiled_again(tmp_path, compiling, damage):
    found = executable_of(PROGRAM, tmp_path)
    (file,) = tmp_path.iterdir()
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(bytes(raw) if damage is None else damage)
    assert executable_of(PROGRAM, tmp_path) == found
    assert executable_of(PROGRAM, tmp_path) == found
    assert len(compiling) == 2


@pytest.mark.parametrize("open_to_all", ["folder", "file"])
def test_what_another_account_may_have_written_is_not_taken(
    tmp_path, compiling, open_to_all
):
    found = executable_of(PROGRAM, tmp_path)
    (file,) = tmp_path.iterdir()
    planted = b"planted"
    file.write_bytes(hashlib.sha256(planted).digest() + planted)
    (tmp_path if open_to_all == "folder" else file).chmod(0o777)
    assert executable_of(PROGRAM, tmp_path) == found
    assert len(compiling) == 2


def test_a_folder_that_cannot_be_written_keeps_nobody_from_computing(
    tmp_path, compiling
):
    file = tmp_path / "file"
    file.write_bytes(b"")
    for nowhere in (file / "below", None):
        assert executable_of(PROGRAM, nowhere)
    assert len(compiling) == 2


@pytest.mark.usefixtures("compiling")
def test_few_files_are_kept_the_last_used_ones(tmp_path):
    executable_of(PROGRAM, tmp_path)
    (first,) = tmp_path.iterdir()
    for k in range(MOST_KEPT + 3):
        executable_of(program((5, k + 1)), tmp_path)
        os.utime(first, (2**33, 2**33))
    assert len(list(tmp_path.iterdir())) == MOST_KEPT
    assert first.exists()


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert own_folder() == tmp_path / "discreet" / "exact"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert own_folder() == tmp_path / ".cache" / "discreet" / "exact"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert own_folder() == tmp_path / ".cache" / "discreet" / "exact"
