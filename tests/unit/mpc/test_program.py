"""The agreement: what it refuses, what its digest covers, what it opens."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import (
    InputError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)
from discreet.mpc.model import AREAS
from discreet.mpc.program import Program
from discreet.mpc.tables import ONE, UNDEFINED

PROGRAMS = [
    Program((3, 4)),
    Program((3, 4), metrics=("auc",)),
    Program((3, 4), ties="none"),
    Program((4, 4), padded=True),
    Program((3, 4), metrics=("auc",), epsilon=Fraction(1, 3)),
    Program((4, 3)),
    Program((3, 4), interval=True),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.canonical().decode())
def test_a_program_survives_its_file(program):
    text = json.dumps(program.to_dict())
    assert Program.from_dict(json.loads(text)) == program


def test_every_field_and_the_executable_change_the_digest():
    digests = {program.digest(b"code") for program in PROGRAMS}
    assert len(digests) == len(PROGRAMS)
    assert PROGRAMS[0].digest(b"code") == Program((3, 4)).digest(b"code")
    assert PROGRAMS[0].digest(b"other") not in digests


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "version 4"),
        ({"extra": 1}, "version 4"),
        ({"sizes": [3.0]}, "wrong types"),
        ({"sizes": [True]}, "wrong types"),
        ({"sizes": "33"}, "wrong types"),
        ({"metrics": "auc"}, "wrong types"),
        ({"metrics": ["brier"]}, "exact areas are"),
        ({"padded": 1}, "wrong types"),
        ({"interval": 1}, "wrong types"),
        ({"interval": True, "padded": True}, "hidden sizes hide"),
        ({"interval": True, "metrics": ["aupr"]}, "ask for that too"),
        ({"ties": "half"}, "ties are"),
        ({"epsilon": 1.0}, "wrong types"),
        ({"epsilon": "1"}, "AUC can be opened with noise"),
        ({"sizes": [0]}, "at least one row"),
        ({"sizes": []}, "at least one row"),
    ],
)
def test_a_file_that_is_no_program_is_refused(change, message):
    with pytest.raises((PlanError, InputError), match=message):
        Program.from_dict(Program((3,)).to_dict() | change)


def test_noise_and_hidden_sizes_do_not_go_together():
    with pytest.raises(PlanError, match="leave out hide_sizes"):
        Program((4,), metrics=("auc",), padded=True, epsilon=Fraction(1))


def test_inputs_name_who_gives_what():
    named = {
        program: [(i.name, i.shape, i.source, i.index) for i in program.inputs()]
        for program in PROGRAMS
    }
    assert named[PROGRAMS[0]] == [
        ("words0", (3,), "owner", 0),
        ("words1", (4,), "owner", 1),
        ("zero", (), "public", 0),
        ("by_rank", (3, 7), "public", 0),
        ("by_count", (7, 8), "public", 0),
    ]
    noise = [(f"noise{k}", (2,), "party", k) for k in range(3)]
    assert named[PROGRAMS[4]][2:] == [*noise, ("zero", (), "public", 0)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.canonical().decode())
def test_public_inputs_are_the_public_ones_among_the_inputs(program):
    shapes = {i.name: i.shape for i in program.inputs() if i.source == "public"}
    assert {n: v.shape for n, v in program.public_inputs().items()} == shapes


def test_opened_integers_become_areas():
    program = Program((3,))
    opened = np.array([1, ONE // 2, ONE, 2 * ONE + 3], dtype=np.int64)
    assert list(program.decode(opened).values()) == [0.5, 1.0, 1.0]
    assert list(program.decode(opened)) == list(AREAS)


@pytest.mark.parametrize("opened", [2 * ONE - 1, UNDEFINED])
def test_an_empty_class_is_nan(opened):
    program = Program((3,), metrics=("auc",))
    with pytest.warns(UndefinedMetricWarning, match="one class only"):
        found = program.decode(np.array([1, opened]))
    assert math.isnan(found["auc"])


def test_rows_out_of_order_open_nothing_and_are_told():
    with pytest.raises(ReleaseError, match="not in order, and nothing was opened"):
        Program((3,), metrics=("auc",)).decode(np.array([0, 0]))


def test_an_opening_of_another_program_is_refused():
    with pytest.raises(InputError, match="4 opened integers were expected, got 1"):
        Program((3,)).decode(np.array([ONE]))
    with pytest.raises(PlanError, match="holds no areas"):
        PROGRAMS[4].decode(np.array([1, 1, 2]))
