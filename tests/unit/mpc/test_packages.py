import hashlib

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.mpc.intake import COSTS, Result
from discreet.mpc.packages import OVERHEAD, Kind, Package, PackageError, split

SESSION = bytes(range(32))


def package(**changes):
    pairs = split(np.array([1, 0, -5]), entropy=Seeded(b"p"))[1]
    fields = {
        "kind": Kind.OWNER,
        "session": SESSION,
        "party": 1,
        "owner": 4,
        "sharing": b"s" * 16,
        "pairs": pairs,
    }
    return Package(**(fields | changes))


def require(found, **changes):
    wanted = {
        "kind": Kind.OWNER,
        "session": SESSION,
        "party": 1,
        "owner": 4,
        "values": 3,
    }
    found.require(**(wanted | changes))


def resealed(raw):
    """Recompute the checksum, as somebody who changes a package on purpose would."""
    return raw[:-32] + hashlib.sha256(raw[:-32]).digest()


def test_a_package_reads_back_as_written():
    raw = package().encode()
    found = Package.decode(raw)
    assert len(raw) == OVERHEAD + 3 * 16
    assert np.array_equal(found.pairs, package().pairs)
    assert found.encode() == raw
    require(found)


def test_the_format_is_fixed():
    """A change of these bytes is a new version of the format."""
    digest = hashlib.sha256(package().encode()).hexdigest()
    assert digest == "7ab91b3a5da83ddfc0753bd72cc3bffe4d4446f256c282e6c811e3f817efb4b1"


def test_shares_do_not_print():
    assert "pairs" not in repr(package())


@pytest.mark.parametrize("kept", range(OVERHEAD + 3 * 16))
def test_every_truncation_is_refused(kept):
    with pytest.raises(PackageError):
        Package.decode(package().encode()[:kept])


def test_every_flipped_byte_is_refused():
    raw = package().encode()
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        with pytest.raises(PackageError):
            Package.decode(bytes(changed))


def test_an_announced_size_is_not_believed():
    raw = bytearray(package().encode())
    raw[OVERHEAD - 40 : OVERHEAD - 32] = (2**60).to_bytes(8, "big")
    with pytest.raises(PackageError, match="truncated or too long"):
        Package.decode(resealed(bytes(raw)))


def test_another_version_says_what_to_do():
    raw = bytearray(package().encode())
    raw[8] = 2
    with pytest.raises(PackageError, match="same release of discreet"):
        Package.decode(resealed(bytes(raw)))


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"session": b"x" * 32}, "for another session"),
        ({"party": 0}, "for party 1, not for party 0"),
        ({"owner": 3}, "of another owner"),
        ({"values": 4}, "hold 3 values, the session says 4"),
        ({"kind": Kind.RESULT}, "these are data shares, not result ones"),
    ],
)
def test_a_whole_package_for_something_else_is_refused(wanted, sentence):
    with pytest.raises(PackageError, match=sentence):
        require(package(), **wanted)


@pytest.mark.parametrize(
    "changes",
    [{"party": 3}, {"session": b""}, {"sharing": b""}, {"pairs": np.zeros(3)}],
)
def test_a_package_cannot_be_made_wrong(changes):
    with pytest.raises(PackageError):
        package(**changes)


def test_a_result_reads_back_as_written():
    costs = dict.fromkeys(COSTS, 7)
    result = Result(package(kind=Kind.RESULT), costs)
    found = Result.decode(result.encode())
    assert found.statistics == costs
    assert found.encode() == result.encode()


DEEP = b"[" * 4000


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"\0\0\0\2[]", b"\0\0\0\1{", b"\xff" * 9),
        len(DEEP).to_bytes(4, "big") + DEEP,
    ],
    ids=["nothing", "a list", "cut", "ones", "deep"],
)
def test_garbled_results_are_refused(raw):
    with pytest.raises(PackageError):
        Result.decode(raw)


@pytest.mark.parametrize(
    ("cost", "match"),
    [
        *((cost, "finite numbers") for cost in ("7", None, [], True, -1, 10**30)),
        *((cost, "not JSON") for cost in (1e400, float("nan"))),
    ],
)
def test_costs_that_are_no_amounts_are_refused(cost, match):
    costs = {**dict.fromkeys(COSTS, 7), "messages": cost}
    with pytest.raises(PackageError, match=match):
        Result.decode(Result(package(kind=Kind.RESULT), costs).encode())
