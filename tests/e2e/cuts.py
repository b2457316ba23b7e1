"""A network that breaks: a TCP proxy that cuts connections after so many bytes of a client, as a failing link would."""

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, Thread

PIECE = 1 << 16
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection."""


class CuttingProxy:
    """Forwards to a port of this machine. Each of `cuts` is a number of bytes, of all clients together, at which one connection breaks."""

    def __init__(self, target: int, cuts: Sequence[int]) -> None:
        self._target = target
        self._cuts = sorted(cuts)
        self._seen = 0
        self._lock = Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]

    @property
    def cuts_left(self) -> int:
        """How many cuts are still to come."""
        return len(self._cuts)

    def serve(self) -> None:
        """Take connections until it is closed."""
        threads = []
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threads.append(Thread(target=self._carry, args=(client,)))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Take no more connections."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            back = Thread(target=_forward, args=(server, client))
            back.start()
            with suppress(OSError):
                while data := client.recv(PIECE):
                    if self._is_cut(len(data)):
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                        break
                    server.sendall(data)
            _end(server)
            _end(client)
            back.join()

    def _is_cut(self, count: int) -> bool:
        with self._lock:
            self._seen += count
            if self._cuts and self._seen >= self._cuts[0]:
                del self._cuts[0]
                return True
            return False


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE):
            sink.sendall(data)
    _end(sink)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(target: int, cuts: Sequence[int]) -> Iterator[CuttingProxy]:
    """Run a proxy for the length of a block."""
    proxy = CuttingProxy(target, cuts)
    thread = Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
