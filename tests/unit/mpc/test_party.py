"""The parties' conversation in one event loop, with real TLS and without an engine."""

import asyncio
import contextlib
import socket
from dataclasses import replace

import numpy as np
import pytest

from discreet.codec.messages import MalformedMessageError
from discreet.entropy import Seeded
from discreet.mpc.clients import costs, revealed_areas
from discreet.mpc.fleet import local_session
from discreet.mpc.party import COSTS, MOST_UNNAMED, ResultShare
from discreet.mpc.shares import (
    InconsistentSharesError,
    Package,
    PackageKind,
    encode,
)
from discreet.mpc.transport import (
    FrameTag,
    PeerFailedError,
    SessionFailedError,
    connect,
    default_names,
    make_certificates,
)
from mpc_sessions import SIZES, CuttingEngine, InProcess

pytestmark = [
    pytest.mark.long,
    # A connection that is cut in its handshake belongs to asyncio, which warns of it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SECONDS = 8.0
"""What a session that must run out of time is given: those who do come make it on a busy
machine, too."""


@pytest.fixture
def world(tmp_path, monkeypatch):
    return InProcess(tmp_path, monkeypatch)


@pytest.fixture
def patient(tmp_path, monkeypatch):
    return InProcess(tmp_path, monkeypatch, timeout=SECONDS)


PARTIES = ("party-0", "party-1", "party-2")


def assert_nothing_revealed(outcome, because, members=PARTIES):
    assert outcome.revealed is None
    for name in members:
        assert outcome.ends[name] is not None, name
        assert because in outcome.ends[name], (name, outcome.ends[name])


def test_the_analyst_reveals_what_the_owners_shared(world):
    outcome = world.run(*world.owners_and_analyst())
    assert set(outcome.ends.values()) == {None}
    words = encode(world.data[0]).words[: world.session.program().revealed]
    assert revealed_areas(outcome.revealed).values.tolist() == words.tolist()
    assert costs(outcome.revealed)["bytes_from_owners"] == sum(
        len(p.encode()) for k in range(len(SIZES)) for p in world.packages(k)
    )


def test_members_may_come_in_any_order(world):
    async def late_parties():
        await asyncio.sleep(0.5)
        await asyncio.gather(world.serve(0), world.serve(1))

    outcome = world.run(
        ("late", late_parties()), *world.owners_and_analyst(), parties=(2,)
    )
    assert set(outcome.ends.values()) == {None}


def test_shares_for_another_session_end_the_session_for_everybody(world):
    wrong = [p.encode() for p in world.packages(1, local_session(SIZES))]

    async def when_all_are_there():
        await asyncio.sleep(2.5)
        await asyncio.to_thread(world.send, 1, wrong)

    outcome = world.run(
        ("owner-1", lambda: world.send(0)),
        ("owner-2", when_all_are_there()),
        ("analyst", world.collect),
    )
    sentence = "owner-2: the shares are for another session"
    assert_nothing_revealed(outcome, sentence, (*PARTIES, "owner-2", "analyst"))


def encoded(packages):
    return [package.encode() for package in packages]


def forged(packages, party, column):
    """Change one word that only one party holds: then they are shares of no value."""
    packages[party].pairs[-1, column] += np.uint64(2**40)
    return encoded(packages)


NO_VALUE = "owner-2 sent shares that do not fit"


@pytest.mark.parametrize(
    ("tamper", "sentence"),
    [
        (lambda p: [x[:-20] for x in encoded(p)], "whole number of pairs"),
        (lambda p: [x[:60] for x in encoded(p)], "ends too early"),
        (lambda p: encoded([p[1], p[2], p[0]]), "the shares are for party"),
        (lambda p: [x[:60] + b"\x00\x01" + x[62:] for x in encoded(p)], "damaged"),
        (lambda p: [b"\x80\x04" + x for x in encoded(p)], "bytes where at most"),
        (lambda p: [b"\x80\x04" + x[2:] for x in encoded(p)], "version 128"),
        (
            lambda p: encoded([*p[:2], replace(p[2], sharing=Seeded(b"again")(16))]),
            "another set of shares",
        ),
        *(
            (lambda p, at=at: forged(p, *at), NO_VALUE)
            for at in ((0, 0), (1, 1), (2, 0))
        ),
    ],
)
def test_wrong_shares_end_the_session_with_a_sentence(world, tamper, sentence):
    outcome = world.run_with_second(tamper(list(world.packages(1))))
    found = sentence in ("another set of shares", NO_VALUE)  # before computing, by all
    assert_nothing_revealed(outcome, sentence if found else "owner-2: ")
    assert any(sentence in (end or "") for end in outcome.ends.values())


def test_repeated_shares_end_the_session(world):
    async def twice():
        await asyncio.to_thread(world.send, 0)
        await asyncio.to_thread(world.send, 0)

    outcome = world.run(("owner-1", twice()), ("analyst", world.collect))
    assert_nothing_revealed(outcome, "sent a second time")


def test_an_owner_cannot_send_under_another_name(world):
    outcome = world.run(
        ("thief", lambda: world.send(1, identity=world.identity("owner-1"))),
        ("analyst", world.collect),
    )
    assert_nothing_revealed(outcome, "owner-1: ")


async def refused_collection(world, name):
    """Ask a party for the result under this name; return its refusal."""
    party = world.session.parties[0]
    context = world.identity(name).client_context()
    channel = await connect(party.name, party.intake, context)
    await channel.send(FrameTag.COLLECT, world.session.digest)
    with pytest.raises(PeerFailedError) as refusal:
        await channel.receive(FrameTag.ALIVE, FrameTag.RESULT, limit=10_000)
    await channel.close()
    return str(refusal.value)


def test_a_member_of_the_authority_that_is_not_in_the_session_gets_nothing(world):
    """The authority also signed owner-3, whom this session does not name."""

    async def curious():
        sentence = await refused_collection(world, "owner-3")
        assert sentence == "the session names no owner-3"

    world.run_despite(curious())


def test_an_owner_cannot_collect_the_result(world):
    async def curious():
        await refused_collection(world, "owner-2")

    outcome = world.run(("owner-2", curious()), ("analyst", world.collect))
    assert_nothing_revealed(outcome, "owner-2 sent a message out of turn")


def test_different_executables_are_found_before_computing(tmp_path, monkeypatch):
    class Differs(CuttingEngine):
        digests = ("11" * 32, "22" * 32, "11" * 32)

    world = InProcess(tmp_path, monkeypatch, engine=Differs)
    outcome = world.run(*world.owners_and_analyst())
    assert_nothing_revealed(outcome, "another executable")


def test_a_party_with_another_session_is_refused(world):
    moved = replace(local_session(SIZES), parties=world.session.parties)
    outcome = world.run(("analyst", world.collect), p0={"session": moved})
    assert_nothing_revealed(outcome, "another session")


def test_a_failing_engine_is_reported_by_everybody(tmp_path, monkeypatch):
    class Fails(CuttingEngine):
        @staticmethod
        def behave(party, alarm):
            if party == 1:
                alarm.ring(SessionFailedError("the engine of party-1 ended"))

    world = InProcess(tmp_path, monkeypatch, engine=Fails)
    outcome = world.run(*world.owners_and_analyst())
    sentence = "the engine of party-1 ended"
    assert_nothing_revealed(outcome, sentence, (*PARTIES, "analyst"))
    assert not any("waiting for the analyst" in line for line in outcome.log), (
        "a party wanted to deliver before all three were done"
    )


def test_engines_that_do_not_connect_are_given_up(tmp_path, monkeypatch):
    class Alone(CuttingEngine):
        async def expect(self, kind):
            if kind == "connected":
                await asyncio.Event().wait()
            return await super().expect(kind)

    world = InProcess(tmp_path, monkeypatch, timeout=SECONDS, engine=Alone)
    outcome = world.run(*world.owners_and_analyst())
    sentence = f"the engines did not connect within {SECONDS:g} s"
    assert_nothing_revealed(outcome, sentence)


def test_a_stopped_party_stops_everybody(world):
    async def stop():
        await asyncio.sleep(0.5)
        world.parties[2].stop()

    outcome = world.run(("operator", stop()), ("analyst", world.collect))
    assert_nothing_revealed(outcome, "party-2 was stopped")


def test_missing_owners_are_named_after_the_timeout(patient):
    outcome = patient.run(
        ("owner-2", lambda: patient.send(1)), ("analyst", patient.collect)
    )
    assert_nothing_revealed(outcome, f"no shares from owner-1 within {SECONDS:g} s")


def test_a_missing_party_is_named_after_the_timeout(patient):
    outcome = patient.run(("analyst", patient.collect), parties=(0, 1))
    assert_nothing_revealed(outcome, "no call from party-2", PARTIES[:2])
    assert f"party-2 did not answer within {SECONDS:g} s" in outcome.ends["analyst"]


def test_an_analyst_who_never_comes_is_named(patient):
    outcome = patient.run(*patient.owners_and_analyst()[:2])
    assert_nothing_revealed(outcome, "analyst did not collect the result")


def test_a_certificate_of_another_authority_is_refused_and_ends_nothing_else(
    world, tmp_path
):
    make_certificates(tmp_path / "rogue", default_names(2))
    rogue = world.identity("owner-2", tmp_path / "rogue")

    async def rogue_owner():
        with pytest.raises(SessionFailedError, match="does not prove it is party-0"):
            await asyncio.to_thread(world.send, 1, identity=rogue)

    world.run_despite(rogue_owner())


def test_a_caller_without_a_good_certificate_is_refused_by_the_party(world, tmp_path):
    make_certificates(tmp_path / "rogue", default_names(2))
    careless = world.identity("owner-2", tmp_path / "rogue").client_context()
    careless.load_verify_locations(world.folder / "ca.crt")

    async def rogue_owner():
        party = world.session.parties[0]
        channel = await connect(party.name, party.intake, careless)
        with pytest.raises(SessionFailedError, match="the certificate of this process"):
            await channel.receive(FrameTag.ACCEPTED, limit=0)
        await channel.close()

    outcome = world.run_despite(rogue_owner())
    assert any("refused a caller" in line for line in outcome.log)


def test_plaintext_callers_are_refused_and_end_nothing(world):
    def shout():
        address = world.session.parties[1].intake
        with socket.create_connection((address.host, address.port), 5) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
            with contextlib.suppress(ConnectionError):
                assert plain.recv(100)[:1] != b"H"

    async def shouting():
        await asyncio.sleep(0.3)
        await asyncio.to_thread(shout)

    outcome = world.run_despite(shouting())
    assert any("refused a caller" in line for line in outcome.log)


def test_a_plaintext_party_is_named_by_who_called_it(world):
    async def plaintext_party():
        async def answer(reader, writer):
            await reader.read(1)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            writer.close()

        address = world.session.parties[2].intake
        server = await asyncio.start_server(answer, address.host, address.port)
        await asyncio.sleep(5)
        server.close()

    outcome = world.run(("fake", plaintext_party()), parties=(0, 1))
    assert_nothing_revealed(outcome, "does not speak TLS", PARTIES[:2])


def test_result_shares_that_do_not_fit_reveal_nothing(world):
    outcome = world.run(*world.owners_and_analyst())
    first, *others = outcome.revealed
    changed = first.package.pairs + np.uint64(1)
    forged = replace(first, package=replace(first.package, pairs=changed))
    with pytest.raises(InconsistentSharesError, match="do not fit together"):
        revealed_areas([forged, *others])


def test_a_thousand_idle_callers_do_not_end_a_session(world):
    """Each would keep a descriptor of the party; a process has some 1,000 of them."""
    address = world.session.parties[0].intake
    idle, kept = [], []

    async def crowd():
        await asyncio.sleep(0.5)
        for _ in range(400):
            idle.append(socket.create_connection((address.host, address.port)))
            await asyncio.sleep(0)  # the party is in this loop, too
        await asyncio.sleep(0.5)
        kept.append(len(world.parties[0]._intake._unnamed))

    async def after_the_crowd(work):
        await asyncio.sleep(2.0)
        await asyncio.to_thread(work)

    outcome = world.run(
        ("crowd", crowd()),
        ("owner-1", after_the_crowd(lambda: world.send(0))),
        ("owner-2", after_the_crowd(lambda: world.send(1))),
        ("analyst", world.collect),
    )
    for caller in idle:
        caller.close()
    assert set(outcome.ends.values()) == {None}
    assert kept[0] <= MOST_UNNAMED
    assert outcome.revealed is not None


PACKAGE = Package(
    PackageKind.RESULT, bytes(32), 1, 4, b"s" * 16, np.ones((3, 2), np.uint64)
)
HEAD, DEEP = b"\1\x42", b"[" * 4000


def test_a_result_reads_back_as_written():
    result = ResultShare(dict.fromkeys(COSTS, 7), PACKAGE)
    found = ResultShare.decode(result.encode())
    assert found.costs == result.costs
    assert found.encode() == result.encode()


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", HEAD + b"\0\0\0\2[]", HEAD + b"\0\0\0\1{", b"\xff" * 9),
        HEAD + len(DEEP).to_bytes(4, "big") + DEEP,
    ],
    ids=["nothing", "a list", "cut", "ones", "deep"],
)
def test_garbled_results_are_refused(raw):
    with pytest.raises(MalformedMessageError):
        ResultShare.decode(raw)


@pytest.mark.parametrize(
    ("cost", "match"),
    [
        *((cost, "finite numbers") for cost in ("7", None, [], True, -1, 10**30)),
        *((cost, "not JSON") for cost in (1e400, float("nan"))),
    ],
)
def test_costs_that_are_no_amounts_are_refused(cost, match):
    costs = {**dict.fromkeys(COSTS, 7), "messages": cost}
    with pytest.raises(MalformedMessageError, match=match):
        ResultShare.decode(ResultShare(costs, PACKAGE).encode())
