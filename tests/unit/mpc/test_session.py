"""A session's file and digest: every term but the addresses, and nothing else."""

from dataclasses import replace

import pytest

from discreet.errors import InputError, PlanError
from discreet.mpc.fleet import local_session
from discreet.mpc.model import ExactMPC
from discreet.mpc.session import Address, MpcSession


@pytest.fixture
def session():
    return local_session((3, 5))


@pytest.mark.parametrize(
    "model", [ExactMPC(), ExactMPC(epsilon="0.5"), ExactMPC("none", hide_sizes=True)]
)
def test_a_session_reads_back_as_written(model):
    session = local_session((3, 5), model)
    assert session.program().model == model
    found = MpcSession.from_toml(session.to_toml())
    assert found == session
    assert found.digest == session.digest


@pytest.mark.parametrize(
    ("model", "start"),
    [(ExactMPC(), "3a758f3ce3830a91"), (ExactMPC(epsilon="0.5"), "cae7688870713e8e")],
)
def test_the_digest_is_fixed(model, start):
    """A change of these bytes is a new version of the session."""
    known = replace(local_session((3, 5), model), id="0" * 32)
    assert known.digest.hex().startswith(start)


def test_addresses_are_not_part_of_the_agreement(session):
    moved = tuple(replace(p, intake=Address("a.example", 9)) for p in session.parties)
    assert replace(session, parties=moved).digest == session.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows = 3", "rows = 4"),
        ('    "aupr",\n', ""),
        ('scores = "probability"', 'scores = "logit"'),
        ('ties = "exact"', 'ties = "none"'),
        ("hide_sizes = false\ninterval = true", "hide_sizes = true\ninterval = false"),
        ("interval = true", "interval = false"),
        ('analyst = "analyst"', 'analyst = "other"'),
        ('model = ""', 'model = "sepsis-xgb"'),
        ('name = "owner-2"', 'name = "owner-9"'),
        ('name = "party-2"', 'name = "party-9"'),
    ],
)
def test_every_term_is_part_of_the_agreement(session, old, new):
    text = session.to_toml()
    assert text.count(old) == 1
    assert MpcSession.from_toml(text.replace(old, new)).digest != session.digest


def test_the_order_of_members_the_id_and_the_noise_are_part_of_the_agreement(session):
    others = [
        replace(session, id="0" * 32),
        replace(session, owners=session.owners[::-1]),
        replace(session, parties=session.parties[::-1]),
        replace(session, plan=local_session((3, 5), ExactMPC(epsilon=1)).plan),
    ]
    assert len({s.digest for s in [session, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("version = 1", "version = 2", "not of version 1"),
        ("version = 1", "version = ", "not valid TOML"),
        ("interval = true", "interval = 1", "true or false"),
        ('model = ""', 'model = "a\\u001b[2J"', "printable characters"),
        ('ties = "exact"', 'ties = "some"', "ties in the session is one of"),
        ('scores = "probability"', 'scores = "other"', "scores are"),
        ("hide_sizes = false", "hide_sizes = 0", "true or false"),
        ("hide_sizes = false", "hidden = false", "unknown keys: hidden"),
        ('name = "party-2"', 'name = "party-1"', "same name"),
        ('name = "owner-2"', 'name = "Owner 2"', "lower-case"),
        ("rows = 3", "rows = 0", "between 1 and"),
        ("rows = 3", 'rows = "3"', "a whole number"),
        ("rows = 3", "rows = true", "a whole number"),
        ('analyst = "analyst"', "analyst = 1", "a text"),
        ('intake = "127.0.0.1', 'intake = "127.0.0.1:x', "host:port"),
        ("rows = 3", "rows = 99999999", "rows"),
        ('metrics = [\n    "auc",\n', "metrics = [\n", "ask for that too"),
        ("interval = true", "interval = true\nepsilon = 1.0", "written as a text"),
    ],
)
def test_a_wrong_session_file_is_refused_with_a_sentence(session, old, new, sentence):
    text = session.to_toml()
    assert old in text
    with pytest.raises((PlanError, InputError), match=sentence):
        MpcSession.from_toml(text.replace(old, new, 1))


def test_a_session_has_three_parties(session):
    with pytest.raises(PlanError, match="3 compute parties, got 2"):
        replace(session, parties=session.parties[:2])
