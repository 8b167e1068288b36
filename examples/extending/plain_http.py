"""A transport over plain HTTP, without TLS: the coordinator posts messages to the sites."""

import queue
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import urlopen

from discreet.transport import Lost, MalformedMessageError, Message


class HttpTransport:
    """The coordinator's end: posts every message, and collects what comes back."""

    def __init__(self, addresses):
        self.addresses, self._arrived = addresses, queue.SimpleQueue()

    def send(self, node, message, *, seconds):
        """Post a message without waiting for its answer."""
        work = (node, message, seconds)
        threading.Thread(target=self._post, args=work, daemon=True).start()

    def receive(self):
        """Return what has arrived since the last call."""
        while not self._arrived.empty():
            yield self._arrived.get()

    def _post(self, node, message, seconds):
        answer = Lost(message.digest())
        with suppress(OSError, MalformedMessageError):
            reply = urlopen(self.addresses[node], message.encode(), seconds)
            answer = Message.decode(reply.read(2**26))
        self._arrived.put((node, answer))


@contextmanager
def served(site, report):
    """Serve a site at a free port of this machine; yield its address."""

    class Answering(BaseHTTPRequestHandler):
        state, log_message = b"", lambda *_: None

        def do_POST(self):
            raw = self.rfile.read(min(int(self.headers["Content-Length"]), 2**26))
            try:
                message = Message.decode(raw)
            except MalformedMessageError:
                return self.send_error(400)
            Answering.state, answer = site.answer(self.state, message, report=report)
            self.send_response(200)
            self.end_headers()
            return self.wfile.write(answer.encode())

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
