"""An engine made of two processes, as vLLM is: a server that answers /health, and a child that would outlive it.

stub_engine.py PORT FOLDER [deaf] [polite] [mute] [clinging]

Both hold a lock on FOLDER/lock while they live. `deaf`: SIGTERM is ignored. `polite`: SIGTERM writes FOLDER/goodbye and
ends the server with code 0, the child stays. `mute`: it never serves. `clinging`: the process that would end it is stopped.
"""

import fcntl
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()


def main() -> None:
    """Serve until killed."""
    port, folder, flags = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.Popen(["/bin/sleep", "600"], pass_fds=[lock.fileno()])

        def goodbye(*_: object) -> None:
            (folder / "goodbye").touch()
            os._exit(0)

        if "deaf" in flags:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "polite" in flags:
            signal.signal(signal.SIGTERM, goodbye)
        if "clinging" in flags:
            os.kill(os.getppid(), signal.SIGSTOP)
        if "mute" in flags:
            signal.pause()
        (folder / "pid").write_text(str(os.getpid()))
        HTTPServer(("127.0.0.1", port), _Health).serve_forever()


if __name__ == "__main__":
    main()
