"""What can go wrong for the command line, each kind told apart; the text of each is one line that says what to do.

CliError
├── UnreachableError    nothing took the connection: no server there, a wrong name, a TLS failure
├── NoAnswerError       connected, but no whole answer came: a timeout, a broken connection
├── AnswerError         an answer that is an error
│   ├── RefusedError    Slackwater's own: its error envelope
│   └── ForeignError    somebody else's: a proxy, a gateway, a wrong base URL
└── UnwritableError     a result file cannot be written here
"""


class CliError(Exception):
    """The root: printed as one line, `error: <what>: <hint>`, exit code 1.

    Args:
        what: What happened, and to whom.
        hint: What to do about it; None where `what` says it, or where the server has to.

    """

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what if hint is None else f"{what}: {hint}")
        self.what = what


class UnreachableError(CliError):
    """No connection was made, so nothing was sent."""


class NoAnswerError(CliError):
    """The request may have been sent and may have taken effect."""


class AnswerError(CliError):
    """The server answered with an error.

    Args:
        what: As above.
        hint: As above.
        status: The HTTP status.
        final: Whether the server said that repeating does not help (`x-should-retry: false`).
        retry_after: Seconds that the server asks to wait; None where it does not.

    """

    def __init__(
        self,
        what: str,
        hint: str | None = None,
        *,
        status: int,
        final: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(what, hint)
        self.status = status
        self.final = final
        self.retry_after = retry_after


class RefusedError(AnswerError):
    """The answer is Slackwater's error envelope."""


class ForeignError(AnswerError):
    """The answer is not one that Slackwater gives."""


class UnwritableError(CliError):
    """The operating system refused to write a result file."""
