"""A contract: the rules of one dialect of the API, as one frozen value.

There is one code path; wherever dialects differ it asks the contract of the mount. Adding a dialect is adding one file
under `shared/core/contracts`.
"""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The rules that one mount follows.

    Attributes:
        name: What records call it; the objects made under it are visible under it alone.
        endpoints: What a batch may name, whatever a model would serve besides.
        windows: The completion windows, as written by callers, and their length in seconds.
        file_bytes: The largest input file.
        file_requests: The most request lines of an input file.
        line_bytes: The longest line of an input file, in bytes without its newline.
        custom_id_chars: The longest custom_id, in characters.
        file_suffix: What the name of an uploaded file must end with.
        input_lifetime: Seconds until an unused input file expires.
        result_lifetime: Seconds until a result file expires.
        expires_after: The least and the most seconds that a caller may ask a file to live.
        write_scopes: The scopes that a key needs, all of them, to change anything.
        read_scopes: The scopes of which a key needs one to read.

    """

    name: str
    endpoints: tuple[str, ...]
    windows: dict[str, int]
    file_bytes: int
    file_requests: int
    line_bytes: int = 20 * MIB
    custom_id_chars: int = 512
    file_suffix: str = ".jsonl"
    input_lifetime: int = 30 * 86400
    result_lifetime: int = 30 * 86400
    expires_after: tuple[int, int] = (3600, 30 * 86400)
    write_scopes: frozenset[str] = frozenset({"batch:write"})
    read_scopes: frozenset[str] = frozenset({"batch:read", "batch:write"})
