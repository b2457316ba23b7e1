"""Running a program in the foreground as if it were this one: each signal reaches it once, its exit code is ours.

The child has a process group of its own. A terminal's Ctrl-C goes to every process of the foreground group, so a child
in ours would get it twice, from the terminal and from us, and take the second for "do not wait for the shutdown".
"""

import signal
import subprocess
from collections.abc import Sequence
from types import FrameType

FORWARDED = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,  # the terminal closed: an orderly end, which a hangup's default is not
}


def run_in_foreground(command: Sequence[str]) -> int:
    """Run `command` to its end; returns its exit code, or 128 + the number of the signal that killed it."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(FORWARDED[signal.Signals(number)])

    # Before the child is there: a signal between its start and our handlers would leave it behind alone.
    former = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)  # noqa: S603 - `up` builds it
        for number in early:
            forward(number, None)
        code = child.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
