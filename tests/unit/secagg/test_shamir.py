from itertools import combinations

import pytest

from discreet.entropy import Seeded
from discreet.secagg.shamir import (
    PRIME,
    SHARE_SIZE,
    deal,
    is_share,
    restore,
)

SECRET = bytes(range(1, 33))


def dealt(*, to, threshold, secret=SECRET, seed=b"shamir"):
    return deal(secret, to=to, threshold=threshold, entropy=Seeded(seed))


def is_prime(n):
    """Miller and Rabin with the first twelve primes as bases."""
    d, r = n - 1, 0
    while d % 2 == 0:
        d, r = d // 2, r + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(base, d, n)
        if x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(r - 1)):
            return False
    return True


def test_the_modulus_is_the_first_prime_above_two_to_the_256():
    assert is_prime(PRIME)
    assert not any(is_prime(n) for n in range(2**256 + 1, PRIME, 2))


def test_any_threshold_of_shares_gives_the_secret_back():
    shares = dealt(to=[1, 2, 5, 9, 70_000], threshold=3)
    for points in combinations(shares, 3):
        assert restore({x: shares[x] for x in points}) == SECRET


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_smallest_and_the_largest_secret_survive(secret):
    shares = dealt(to=[1, 2, 3], threshold=2, secret=secret)
    assert restore({1: shares[1], 3: shares[3]}) == secret


def test_one_share_less_gives_something_else():
    shares = dealt(to=[1, 2, 3, 4], threshold=3)
    for points in combinations(shares, 2):
        assert restore({x: shares[x] for x in points}) != SECRET


def test_too_few_shares_fit_every_secret():
    shares = dealt(to=[1, 2, 3], threshold=3)
    seen = {x: shares[x] for x in (1, 2)}
    for other in (0, 1, 2**255, 2**256 - 1):
        # The polynomial through the two shares and any value at 0 exists: the
        # share at 3 that makes it so is a share like any other.
        s1, s2 = (int.from_bytes(seen[x], "big") for x in (1, 2))
        third = (other - 3 * s1 + 3 * s2) % PRIME
        forged = {**seen, 3: third.to_bytes(SHARE_SIZE, "big")}
        assert restore(forged) == other.to_bytes(32, "big")


def test_weights_taken_from_neighbouring_points_are_the_same():
    shares = dealt(to=list(range(1, 12)), threshold=5)
    near = (1, 2, 3, 4, 5, 6)
    for left_out in near:
        chosen = {x: shares[x] for x in near if x != left_out}
        assert restore(chosen, near=near) == restore(chosen) == SECRET
    elsewhere = {x: shares[x] for x in (2, 3, 7, 8, 9)}
    assert restore(elsewhere, near=near) == SECRET


def test_a_value_that_no_secret_has_is_told_from_one():
    top = (2**256).to_bytes(SHARE_SIZE, "big")
    assert restore({1: top}) is None


def test_numbers_outside_the_field_are_no_shares():
    assert is_share((PRIME - 1).to_bytes(SHARE_SIZE, "big"))
    assert not is_share(PRIME.to_bytes(SHARE_SIZE, "big"))
    assert not is_share(bytes(SHARE_SIZE - 1))


@pytest.mark.parametrize(
    ("to", "threshold"), [([1, 2], 3), ([1, 2], 0), ([0, 1], 1), ([1, 1], 2)]
)
def test_impossible_dealings_are_refused(to, threshold):
    with pytest.raises(ValueError, match=r"threshold|points"):
        dealt(to=to, threshold=threshold)


def test_a_secret_of_another_size_is_refused():
    with pytest.raises(ValueError, match="32 bytes, got 31"):
        dealt(to=[1], threshold=1, secret=bytes(31))
