"""Signatures: none that is false is overlooked, on one core or on several."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.secagg import keys
from discreet.secagg.keys import forged


def claims(sites):
    signed = []
    for site in range(1, sites + 1):
        key = Ed25519PrivateKey.from_private_bytes(bytes([site]) * 32)
        said = b"said by %d" % site
        identity = key.public_key().public_bytes_raw()
        signed.append((site, identity, key.sign(said), said))
    return signed


@pytest.mark.parametrize("cores", [1, 2, 5, None])
@pytest.mark.parametrize("sites", [0, 1, 31, 32, 41])
def test_a_false_signature_is_found_wherever_it_stands(monkeypatch, sites, cores):
    monkeypatch.setattr(keys.os, "cpu_count", lambda: cores)
    signed = claims(sites)
    assert forged(signed) is None
    for place in range(sites):
        site, identity, signature, said = signed[place]
        false = [*signed]
        false[place] = (site, identity, signature, said + b"!")
        assert forged(false) == site


def test_the_lowest_of_several_is_named():
    signed = [(s, i, bytes(64), said) for s, i, _, said in reversed(claims(40))]
    assert forged(signed) == 1
