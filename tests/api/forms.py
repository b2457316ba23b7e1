"""Multipart bodies, written by hand so that tests can break them."""

from tests.api.world import lines

Parts = list[tuple[str, str | None, bytes]]
"""Name, the rest of the Content-Disposition, value."""

PURPOSE = ("purpose", None, b"batch")
FILE = ("file", 'filename="requests.jsonl"', lines(2))


def form(parts: Parts, boundary: str = "XX") -> bytes:
    """Write a multipart body."""
    body = b""
    for name, filename, value in parts:
        disposition = f'form-data; name="{name}"' + (f"; {filename}" if filename else "")
        body += f"--{boundary}\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + value + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()
