"""A transport over plain HTTP: each site answers messages that are posted to it.

It shows the port, and is not for production: it has no TLS, and the coordinator must
reach the sites. A secure sum stays masked and signed on it all the same.
"""

from __future__ import annotations

import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from discreet.codec.messages import MalformedMessageError
from discreet.session.messages import Message
from discreet.session.retrying import Lost
from discreet.session.site import Site

MOST_BYTES = 2**26


class HttpTransport:
    """The coordinator's end: posts every message, and collects what comes back."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self.addresses = addresses
        self._arrived: queue.SimpleQueue[tuple[int, Message | Lost]] = (
            queue.SimpleQueue()
        )

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        """Post a message without waiting for its answer."""
        work = (node, message, seconds)
        threading.Thread(target=self._post, args=work, daemon=True).start()

    def receive(self) -> Iterable[tuple[int, Message | Lost]]:
        """Return what has arrived since the last call."""
        while not self._arrived.empty():
            yield self._arrived.get()

    def _post(self, node: int, message: Message, seconds: float) -> None:
        address = self.addresses[node]
        try:
            with urllib.request.urlopen(address, message.encode(), seconds) as reply:
                answer: Message | Lost = Message.decode(reply.read(MOST_BYTES))
        except (OSError, MalformedMessageError):
            answer = Lost(message.digest())
        self._arrived.put((node, answer))


@contextmanager
def served(site: Site, report: Callable[[str], None]) -> Iterator[str]:
    """Serve a site at a free port of this machine; yield its address."""
    state = b""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal state
            size = min(int(self.headers["Content-Length"]), MOST_BYTES)
            try:
                message = Message.decode(self.rfile.read(size))
            except MalformedMessageError:
                self.send_error(400)
                return
            state, answer = site.answer(state, message, report=report)
            body = answer.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no line per request."""

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
