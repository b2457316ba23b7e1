"""The HTTP face of moto: one thread a connection, HTTP/1.1 with keep-alive, and no word in any log about a request.

Werkzeug's own handler closes the connection after every answer (it cannot drain what a request left unread), which
costs each boto3 call a connection and a thread. This one reads bodies through a stream that knows their length,
drains the rest, and sends small answers in one segment.
"""

# ruff: noqa: ANN401 - WSGI applications and moto's backends are untyped

import logging
import socket
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import IO, Any, cast

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.exceptions import ClientDisconnected
from werkzeug.serving import ThreadedWSGIServer
from werkzeug.wsgi import LimitedStream

HOST = "127.0.0.1"
_BODILESS = (204, 304)
_DRAIN_BYTES = 1 << 16

_log = logging.getLogger(__name__)


class _Application(DomainDispatcherApplication):
    """Moto's dispatcher by service; it lists its 200 modules anew for each request, here once a host name."""

    def __init__(self) -> None:
        super().__init__(_create_app)
        self._backends: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        if host not in self._backends:
            self._backends[host] = super().get_backend_for_host(host)
        return self._backends[host]


def _create_app(service: Any) -> Any:
    # In debug mode flask makes a class for each request, in a cycle with it: bodies then wait for the collector.
    app = create_backend_app(service)
    app.debug = False
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: "_Server"

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):  # the client may be gone
            super().finish()

    def run_wsgi(self) -> None:
        """Answer one request; the connection stays open unless the client or an error says otherwise."""
        environ = self.make_environ()
        if not environ.get("wsgi.input_terminated"):
            # A chunked body ends itself; any other has a length, and none means none.
            environ["wsgi.input"] = LimitedStream(
                cast("IO[bytes]", self.rfile), int(environ.get("CONTENT_LENGTH") or 0)
            )
            environ["wsgi.input_terminated"] = True
        try:
            self._serve(environ)
        except (OSError, ClientDisconnected):
            self.close_connection = True

    def _serve(self, environ: dict[str, Any]) -> None:
        try:
            status, headers, body = _call(self.server.app, environ)
        except (OSError, ClientDisconnected):
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the server: any fault of moto's is a 500 to its client
            status, headers, body = _fault(error)
        try:
            while environ["wsgi.input"].read(_DRAIN_BYTES):
                pass
            self._answer(status, headers, body)
        finally:
            if close := getattr(body, "close", None):
                close()

    def _answer(self, status: str, headers: list[tuple[str, str]], body: Iterable[bytes]) -> None:
        code, _, reason = status.partition(" ")
        silent = self.command == "HEAD" or int(code) in _BODILESS
        if not silent and not any(name.lower() == "content-length" for name, _ in headers):
            body = [b"".join(body)]
            headers = [*headers, ("Content-Length", str(len(body[0])))]
        self.send_response(int(code), reason)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        for piece in () if silent else body:
            self.wfile.write(piece)
        self.wfile.flush()

    def handle_expect_100(self) -> bool:
        """Invite the body at once: boto3 holds it back until then."""
        invited = super().handle_expect_100()
        self.wfile.flush()
        return invited

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: a long-lived server's log is for what went wrong."""


class _Server(ThreadedWSGIServer):
    daemon_threads = True
    connections: set[socket.socket]


class MotoServer:
    """Moto on a thread of its own. `port` is the one bound, which differs from the one asked for if that was 0."""

    def __init__(self, port: int) -> None:
        # Bound here, and handed over: werkzeug would print and exit where the port is taken.
        with socket.create_server((HOST, port), backlog=128) as bound:
            self._server = _Server(HOST, port, _Application(), handler=_Handler, fd=bound.fileno())
        self._server.connections = set()
        self.port: int = self._server.port
        self._thread = Thread(target=self._server.serve_forever, name="moto-server", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections and close those that are open: a client's pool must not reach a stopped server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for connection in list(self._server.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _call(app: Any, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], Iterable[bytes]]:
    answer: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> Callable[[bytes], None]:
        answer[:] = [(status, headers)]
        return _unsupported_write

    body: Iterable[bytes] = app(environ, start_response)
    (status, headers), *_ = answer
    return status, headers, body


def _unsupported_write(_: bytes) -> None:
    raise NotImplementedError("the WSGI write callable is not offered: return the body instead")


def _fault(error: Exception) -> tuple[str, list[tuple[str, str]], Iterable[bytes]]:
    # The message of an exception may quote what a client sent; its class and its frames do not.
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.error("a request failed inside moto with %s\n%s", type(error).__name__, frames)
    body = b'{"__type": "InternalFailure", "message": "a fault of the local AWS; its log has the frames"}'
    return "500 INTERNAL SERVER ERROR", [("Content-Type", "application/json")], [body]
