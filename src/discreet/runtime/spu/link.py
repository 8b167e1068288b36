"""SPU's link between the three engines: TLS by the consortium's authority.

The link encrypts and refuses a peer without a certificate of the authority, but it
compares no name: any member of the authority that reaches the port could pose as a
party there. Names are compared on our own channel between the parties (``peers``),
which must agree on session, executable and sharings before this link is opened.
"""

from __future__ import annotations

from typing import Any, Final

from discreet.exact.extra import load
from discreet.runtime.spu.certificates import Identity
from discreet.runtime.spu.session import Session

_RETRY_MS: Final = 200


def open_link(
    session: Session, party: int, identity: Identity, *, timeout: float
) -> Any:
    """Connect the engine of one party with the two others."""
    native = load("spu.libspu").link
    link = native.Desc()
    link.id = session.digest.hex()
    link.recv_timeout_ms = int(1000 * timeout)
    link.http_timeout_ms = int(1000 * timeout)
    link.connect_retry_interval_ms = _RETRY_MS
    link.connect_retry_times = max(1, int(1000 * timeout / _RETRY_MS))
    link.enable_ssl = True
    for options in (link.client_ssl_opts, link.server_ssl_opts):
        options.cert.certificate_path = str(identity.certificate)
        options.cert.private_key_path = str(identity.key)
        options.verify.verify_depth = 1
        options.verify.ca_file_path = str(identity.authority)
    for entry in session.parties:
        link.add_party(entry.name, str(entry.link))
    return native.create_brpc(link, party)
