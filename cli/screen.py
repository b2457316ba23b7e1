"""Where words go: stdout carries what was asked for, stderr what happens on the way.

On a terminal that is tables and a moving bar; anywhere else plain lines with tabs and not one control code. Text from
the server is data: what could steer a terminal is shown escaped, and nothing in it is markup.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Screen:
    """Writes to two streams, each a terminal or not."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self.out = _console(out)
        self.err = _console(err)

    @property
    def live(self) -> bool:
        """Whether stderr can show a line that changes in place."""
        return self.err.is_terminal and not self.err.is_dumb_terminal

    def line(self, text: str) -> None:
        """Give a line of the result."""
        _write(self.out, printable(text, self.out.encoding))

    def note(self, text: str) -> None:
        """Say what is going on."""
        _write(self.err, printable(text, self.err.encoding))

    def error(self, text: str) -> None:
        """Say what went wrong."""
        self.note(f"error: {text}")

    def json(self, value: object) -> None:
        """Give a value as JSON, in ASCII, which no terminal and no encoding can spoil."""
        _write(self.out, json.dumps(value, indent=2))

    def row(self, raw: bytes) -> None:
        """Give a row of JSON as it is, in ASCII."""
        _write(self.out, re.sub("[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], raw.decode()))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Give rows under a header; the first column is never cut."""
        if not self.out.is_terminal:
            for row in [columns, *rows]:
                self._tabbed(row)
            return
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for number, column in enumerate(columns):
            table.add_column(column, no_wrap=number == 0, overflow="fold")
        for row in rows:
            table.add_row(*[self._text(cell) for cell in row])
        self.out.print(table)

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Give names and values, a line each."""
        if not self.out.is_terminal:
            for pair in pairs:
                self._tabbed(pair)
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            table.add_row(name, self._text(value))
        self.out.print(table)

    def _text(self, cell: str) -> Text:
        return Text(printable(cell, self.out.encoding))

    def _tabbed(self, cells: Sequence[str]) -> None:
        _write(self.out, "\t".join(printable(cell, self.out.encoding) for cell in cells))


def printable(text: str, encoding: str) -> str:
    """Escape what is not a visible character or a space, and what `encoding` has no code for."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return visible.encode(encoding, "backslashreplace").decode(encoding)


def _console(stream: TextIO) -> Console:
    # Said outright, because rich would also believe FORCE_COLOR and write control codes into a pipe.
    return Console(file=stream, force_terminal=stream.isatty(), highlight=False, markup=False, emoji=False)


def _write(console: Console, text: str) -> None:
    # Not console.print: it would wrap at the width of the terminal, and a line is a line when it is copied or piped.
    console.file.write(text + "\n")
    console.file.flush()
