import socket
import subprocess
import sys

import pytest

from local.options import Options, parse


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--port=70000", "--port is 65535 at most"),
        ("--port=-1", "--port must be greater than 0"),
        ("--max-workers=0", "--max-workers must be greater than 0"),
        ("--lease-seconds=-5", "--lease-seconds must be greater than 0"),
        ("--time-scale=nan", "--time-scale must be greater than 0"),
        ("--row-seconds=inf", "--row-seconds must be greater than 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(option: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At the start, with the option's name."""
    with pytest.raises(SystemExit) as ended:
        parse([option], "slackwater up")
    assert 2 == ended.value.code
    assert said in capsys.readouterr().err


def test_options_come_through_their_arguments() -> None:
    """A process of the stack hands them on to the next."""
    options = Options(port=8001, time_scale=60.0, max_workers=2)

    assert options == parse(options.to_args(), "python -m local.backend")


def test_a_state_folder_that_cannot_be_made_is_told() -> None:
    """In one line, not with a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "local", f"--port={port}", "--state=/dev/null/x"]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (1, "cannot write in the state folder /dev/null/x: Not a directory\n") == (end.returncode, end.stdout)
