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
    """The root: printed as `error: <text>`, exit code 1."""


class UnreachableError(CliError):
    """No connection was made, so nothing was sent."""


class NoAnswerError(CliError):
    """The request may have been sent and may have taken effect."""


class AnswerError(CliError):
    """The server answered with an error.

    Args:
        message: The line to print.
        status: The HTTP status.
        final: Whether the server said that repeating does not help (`x-should-retry: false`).
        retry_after: Seconds that the server asks to wait; None where it does not.

    """

    def __init__(self, message: str, *, status: int, final: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.final = final
        self.retry_after = retry_after


class RefusedError(AnswerError):
    """The answer is Slackwater's error envelope."""


class ForeignError(AnswerError):
    """The answer is not one that Slackwater gives."""


class UnwritableError(CliError):
    """The operating system refused to write a result file."""
