"""The committed vectors: the wire format does not change unnoticed."""

import json
from pathlib import Path

import pytest

from discreet.secagg import errors, shamir
from discreet.secagg.coordinator import RevealedSum
from vectors import generate_secagg as generator

VECTORS = Path(__file__).resolve().parents[3] / "vectors"
FILES = sorted((VECTORS / "secagg").glob("*.json"))
BAD = [path for path in FILES if path.stem.startswith("bad_")]
SESSIONS = [path for path in FILES if path.stem.startswith("session_")]


def load(path):
    return json.loads(path.read_text())


def test_the_generator_writes_the_committed_files():
    built = json.loads(json.dumps(generator.build()))
    assert built == {path.stem: load(path) for path in FILES}


def test_shamir_shares_in_the_file_restore_its_secret():
    vector = load(VECTORS / "secagg" / "shamir.json")
    assert int(vector["prime"], 16) == shamir.PRIME
    shares = {int(x): bytes.fromhex(s) for x, s in vector["shares"].items()}
    for left_out in shares:
        some = {x: s for x, s in shares.items() if x != left_out}
        assert shamir.restore(some).hex() == vector["secret"]


@pytest.mark.parametrize("path", SESSIONS, ids=lambda p: p.stem)
def test_each_recorded_step_is_repeated_to_the_byte(path):
    vector = load(path)
    terms = generator.terms_of(vector["terms"])
    for record in vector["rounds"]:
        for site, entry in record["sites"].items():
            end = generator.end_of(int(site), terms, record["step"])
            received = bytes.fromhex(entry["received"])
            if "state" in entry:
                _, sent = end.receive(bytes.fromhex(entry["state"]), received)
            else:
                _, sent = end.join(received)
            assert sent.hex() == entry["sent"]


@pytest.mark.parametrize("path", SESSIONS, ids=lambda p: p.stem)
def test_the_recorded_messages_open_the_recorded_sum(path):
    vector = load(path)
    *before, last = vector["rounds"]
    terms = generator.terms_of(vector["terms"])
    rounds = [generator.sent_in(record) for record in before]
    state = generator.coordinator_after(rounds, terms, generator.SITES)
    for site, entry in last["sites"].items():
        state.receive(int(site), bytes.fromhex(entry["sent"]))
    opened = state.advance()
    assert isinstance(opened, RevealedSum)
    assert opened.session.hex() == vector["session"]
    assert opened.total.tolist() == vector["total"]
    inside = [vector["vectors"][str(s)] for s in vector["contributors"]]
    assert vector["total"] == [sum(column) for column in zip(*inside, strict=True)]
    assert 3 not in vector["contributors"]


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_bad_vector_raises_the_error_that_it_names(path):
    vector = load(path)
    terms = generator.terms_of(vector["terms"])
    message = bytes.fromhex(vector["message"])
    if vector["receiver"] == "site":
        end = generator.end_of(1, terms, vector["step"])
        arguments = (bytes.fromhex(vector["state"]), message)
    else:
        end = generator.coordinator_after(vector["before"], terms, vector["sites"])
        arguments = (vector["sender"], message)
    with pytest.raises(errors.ProtocolError) as caught:
        end.receive(*arguments)
    assert type(caught.value).__name__ == vector["error"]


def test_there_are_bad_vectors_for_both_ends():
    ends = {path.stem.split("_")[1] for path in BAD}
    assert ends == {"site", "coordinator"}
    assert len(BAD) >= 20
