"""One short secret seed, stretched to as many bytes as the noise needs."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet.entropy import Entropy


def stretched(entropy: Entropy) -> Entropy:
    """Draw a 256-bit seed and return its AES-256-CTR keystream.

    Exact sampling is hungry for bytes, and asking the operating system for each
    of them takes most of the time. Its generator is itself a stretched seed (of
    ChaCha20), so nothing is assumed that was not assumed before but that AES is
    a pseudorandom function. The key is fresh and lives as long as one call of a
    mechanism: it is never stored, and a retry resends the stored answer.
    """
    keystream = Cipher(algorithms.AES256(entropy(32)), modes.CTR(bytes(16))).encryptor()

    def draw(size: int) -> bytes:
        return keystream.update(bytes(size))

    return draw
