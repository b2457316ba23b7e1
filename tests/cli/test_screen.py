import io

import pytest

from cli.screen import Screen


class Stream(io.TextIOWrapper):
    """A text stream in memory that may say it is a terminal."""

    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")
        self._terminal = terminal

    def isatty(self) -> bool:
        """Say so or not."""
        return self._terminal

    def written(self) -> str:
        """Read back what was written."""
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


ROWS = [("batch_01ABCDEFGHJKMNPQRSTVWXYZ01", "[red]x[/red] :smile: \x1b[31m"), ("batch_2", "y")]


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"])
def test_a_pipe_gets_tabs_whatever_the_environment_wants(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """No variable puts control codes into a file; markup of the server stays text."""
    monkeypatch.setenv(variable, "1")
    out, err = Stream(terminal=False), Stream(terminal=False)
    screen = Screen(out, err)
    screen.table(("id", "what"), ROWS)
    screen.fields(ROWS)
    screen.error("no")

    rows = "batch_01ABCDEFGHJKMNPQRSTVWXYZ01\t[red]x[/red] :smile: \\x1b[31m\nbatch_2\ty\n"
    assert f"id\twhat\n{rows}{rows}" == out.written()
    assert "error: no\n" == err.written()
    assert not screen.live


def test_a_terminal_gets_a_table_with_whole_ids_and_no_markup_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal other columns fold; the id can be copied; foreign escape sequences are shown escaped."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    out = Stream(terminal=True)
    screen = Screen(out, Stream(terminal=True))
    screen.table(("id", "what"), ROWS)

    assert ROWS[0][0] in out.written()
    assert "[red]" in out.written()
    assert "\x1b[31m" not in out.written()
    assert screen.live


def test_a_terminal_gets_lines_that_are_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error is one line, however long, so that it can be copied."""
    monkeypatch.setenv("COLUMNS", "20")
    err = Stream(terminal=True)
    Screen(Stream(terminal=True), err).error("word " * 30)

    assert f"error: {'word ' * 30}\n" == err.written()


def test_a_dumb_terminal_is_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that cannot move its cursor gets plain progress lines."""
    monkeypatch.setenv("TERM", "dumb")

    assert not Screen(Stream(terminal=True), Stream(terminal=True)).live


@pytest.mark.parametrize("terminal", [False, True])
def test_what_an_encoding_lacks_is_escaped(*, terminal: bool) -> None:
    """A terminal or pipe that is not UTF-8 gets escapes and no traceback."""
    out = Stream(terminal=terminal, encoding="ascii")
    screen = Screen(out, Stream(terminal=False))
    screen.table(("id", "what"), [("batch_1", "é😀")])
    screen.fields([("name", "é😀")])
    screen.json({"name": "é"})

    assert 2 == out.written().count("\\xe9\\U0001f600")
    assert '{\n  "name": "\\u00e9"\n}\n' in out.written()
