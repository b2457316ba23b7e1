"""Uploads: what is taken, what is refused, and that a refused one leaves nothing behind."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from httpx2 import Response

from functions.api.app import build_app
from shared.core import paths, scan
from shared.core.contracts import CONTRACTS
from shared.core.request_line import LineError
from shared.core.window import Timing
from tests.api.asgi import Answer, call
from tests.api.forms import FILE, PURPOSE, Parts, form
from tests.api.world import ACME, START, World, lines
from tests.fakes import Hostile, fail


def send(world: World, parts: Parts) -> Response:
    """Post a form."""
    headers = {"content-type": "multipart/form-data; boundary=XX"}
    return world.http().post("files", content=form(parts), headers=headers)


def assert_refused(world: World, answer: Response | Answer, status: int, code: str, param: str | None) -> None:
    """Check the whole envelope, and that nothing was kept."""
    error = answer.json()["error"]
    assert (status, code, param) == (answer.status_code, error["code"], error["param"])
    assert {"message", "type", "param", "code"} == set(error)
    assert [] == world.memory.blobs.keys()
    assert {} == world.memory.blobs._uploads
    assert [] == world.files.page(ACME, after=None, limit=10).items


def test_an_uploaded_file_is_shown_as_it_was_sent(world: World) -> None:
    """The SDK's file object says what was uploaded, when, and for how long it is kept."""
    content = lines(3)

    file = world.openai().files.create(file=("mine.jsonl", content), purpose="batch")

    assert file.id.startswith("file-")
    assert ("file", len(content), "mine.jsonl") == (file.object, file.bytes, file.filename)
    assert ("batch", "processed") == (file.purpose, file.status)
    assert (int(START), int(START) + 30 * 86400) == (file.created_at, file.expires_at)
    assert file == world.openai().files.retrieve(file.id)


def test_an_uploaded_file_is_stored_byte_by_byte_with_the_index_of_its_lines(world: World) -> None:
    """The object is what was sent, and beside it lies the scan of each line."""
    content = lines(3)

    file_id = world.upload(content)

    assert content == world.memory.blobs.get(paths.file("acme", file_id))
    index = list(scan.entries(world.memory.blobs.stream(paths.scan("acme", file_id))))
    assert ["0", "1", "2"] == [entry.custom_id for entry in index]


def test_a_file_with_bad_lines_uploads_and_keeps_their_errors_in_the_scan(world: World) -> None:
    """A bad line is the batch's affair, not the upload's."""
    file_id = world.upload(lines(2) + b"{oops\n")

    index = list(scan.entries(world.memory.blobs.stream(paths.scan("acme", file_id))))
    assert isinstance(index[2], LineError)
    assert 2 == world.files.get(ACME, file_id).requests


def test_a_file_larger_than_a_part_is_stored_in_parts(world: World) -> None:
    """More than 8 MiB go up in parts and come out as one object."""
    content = lines(80_000)

    file_id = world.upload(content)

    assert len(content) > 8 << 20
    assert content == world.memory.blobs.get(paths.file("acme", file_id))


def test_the_purpose_may_come_after_the_file(world: World) -> None:
    """The fields of a form have no order."""
    answer = send(world, [FILE, PURPOSE])

    assert 200 == answer.status_code
    assert "batch" == answer.json()["purpose"]


def test_a_caller_may_say_how_long_a_file_is_kept(world: World) -> None:
    """`expires_after` counts from the creation."""
    file = world.openai().files.create(
        file=("a.jsonl", lines(1)), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )

    assert int(START) + 3600 == file.expires_at


def test_windows_of_files_pass_faster_where_time_is_scaled() -> None:
    """A local stack can show expiry in a moment."""
    world = World(timing=Timing(scale=3600))

    file_id = world.upload()

    assert int(START) + 720 == world.files.get(ACME, file_id).expires_at


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ('filename="plain.jsonl"', "plain.jsonl"),
        ('filename="a \\"quoted\\" name.jsonl"', 'a "quoted" name.jsonl'),
        ('filename="a %22quoted%22 name.jsonl"', 'a "quoted" name.jsonl'),
        ('filename="a;b.jsonl"', "a;b.jsonl"),
        ("filename=token.jsonl", "token.jsonl"),
        ('filename="grüße-日本.jsonl"', "grüße-日本.jsonl"),
        ("filename*=UTF-8''gr%C3%BC%C3%9Fe.jsonl", "grüße.jsonl"),
        ("filename*=iso-8859-1'de'gr%FC%DFe.jsonl", "grüße.jsonl"),
        ("filename*=UTF-8''%ED%A0%80.jsonl", "\ufffd\ufffd\ufffd.jsonl"),
        ("filename*=UTF-8''gr%C3%BC%C3%9Fe.jsonl; filename=\"fallback.jsonl\"", "grüße.jsonl"),
        ('filename="C:\\Users\\me\\in.jsonl"', "in.jsonl"),
        ('filename="../../etc/in.jsonl"', "in.jsonl"),
        (None, "upload.jsonl"),
        ('filename=""', "upload.jsonl"),
    ],
)
def test_the_name_of_a_file_is_read_as_clients_write_it(world: World, field: str | None, name: str) -> None:
    """Quotes, escapes, UTF-8, RFC 5987, paths, and no name at all."""
    answer = send(world, [PURPOSE, ("file", field, lines(1))])

    assert 200 == answer.status_code
    assert name == answer.json()["filename"]


@pytest.mark.parametrize(
    ("parts", "code", "param"),
    [
        ([FILE], "missing_required_parameter", "purpose"),
        ([PURPOSE], "missing_required_parameter", "file"),
        ([("purpose", None, b""), FILE], "missing_required_parameter", "purpose"),
        ([("purpose", None, b"fine-tune"), FILE], "invalid_request", "purpose"),
        ([FILE, ("purpose", None, b"batch_output")], "invalid_request", "purpose"),
        ([PURPOSE, FILE, FILE], "invalid_request", "file"),
        ([PURPOSE, PURPOSE, FILE], "invalid_request", "purpose"),
        ([PURPOSE, ("ttl", None, b"1"), FILE], "unknown_parameter", "ttl"),
        ([("purpose", None, b"b" * 1025), FILE], "invalid_request", "purpose"),
        ([PURPOSE, ("file", 'filename="a.csv"', lines(1))], "invalid_file_format", "file"),
        ([PURPOSE, ("file", f'filename="{"a" * 250}.jsonl"', lines(1))], "invalid_file_format", "file"),
        ([PURPOSE, ("file", 'filename="a.jsonl"', b"")], "empty_file", "file"),
        ([PURPOSE, ("file", 'filename="a.jsonl"', b"\n \r\n\n")], "empty_file", "file"),
        ([PURPOSE, ("file", 'filename="a.jsonl"', lines(2).decode().encode("utf-16"))], "invalid_encoding", "file"),
    ],
)
def test_a_refused_form_says_which_field_is_wrong_and_leaves_nothing(
    world: World, parts: Parts, code: str, param: str
) -> None:
    """Whatever is wrong with a form is a 400 that names the field, and no byte of it stays."""
    assert_refused(world, send(world, parts), 400, code, param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"anchor": "created_at", "seconds": "3599"}, "expires_after[seconds]"),
        ({"anchor": "created_at", "seconds": "2592001"}, "expires_after[seconds]"),
        ({"anchor": "created_at", "seconds": "soon"}, "expires_after[seconds]"),
        ({"anchor": "created_at", "seconds": "-3600"}, "expires_after[seconds]"),
        ({"anchor": "created_at"}, "expires_after[seconds]"),
        ({"anchor": "last_active_at", "seconds": "3600"}, "expires_after[anchor]"),
        ({"seconds": "3600"}, "expires_after[anchor]"),
    ],
)
def test_a_lifetime_out_of_bounds_is_refused(world: World, fields: dict[str, str], param: str) -> None:
    """3600 to 2592000 seconds from created_at; nothing else."""
    extra: Parts = [(f"expires_after[{name}]", None, value.encode()) for name, value in fields.items()]

    assert_refused(world, send(world, [PURPOSE, *extra, FILE]), 400, "invalid_request", param)


BODY = form([PURPOSE, FILE])


@pytest.mark.parametrize(
    ("content_type", "body", "status", "code"),
    [
        (None, BODY, 415, "unsupported_media_type"),
        ("text/plain", b"{}", 415, "unsupported_media_type"),
        ("multipart/mixed; boundary=XX", BODY, 415, "unsupported_media_type"),
        ("multipart/form-data", BODY, 400, "invalid_request"),
        ("multipart/form-data; boundary=", BODY, 400, "invalid_request"),
        (f"multipart/form-data; boundary={'x' * 300}", BODY, 400, "invalid_request"),
        ("multipart/form-data; boundary=YY", BODY, 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", b"", 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", BODY[:-8], 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", BODY[:150], 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", b"--XX\r\n\r\nno headers\r\n--XX--\r\n", 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", BODY.replace(b'; name="file"', b""), 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", BODY.replace(b"form-data", b"attachment"), 400, "invalid_request"),
        ("multipart/form-data; boundary=XX", b"--XX\r\nNo colon\r\n\r\nx\r\n--XX--\r\n", 400, "invalid_request"),
        *(
            (
                "multipart/form-data; boundary=XX",
                form([PURPOSE, ("file", f"filename*={name}", b"")]),
                400,
                "invalid_request",
            )
            for name in ("idna''a.jsonl", "undefined''a.jsonl", "ut\0f''a.jsonl", "utf-7''+2AA-.jsonl", "hex''a.jsonl")
        ),
    ],
)
def test_a_malformed_body_is_refused_and_leaves_nothing(
    world: World, content_type: str | None, body: bytes, status: int, code: str
) -> None:
    """No form, half a form, the wrong boundary: a 4xx in the envelope."""
    headers = {} if content_type is None else {"content-type": content_type}

    assert_refused(world, world.http().post("files", content=body, headers=headers), status, code, None)


@pytest.fixture
def small(world: World) -> World:
    """Give a world whose contract takes files of 1,000 bytes at most."""
    contract = replace(CONTRACTS["openai"], file_bytes=1000)
    world.app = build_app(world.services(), {"/v1": contract}, clock=world.clock, new_id=world.new_id)
    return world


def test_a_file_over_the_limit_is_refused_where_it_goes_over_it(small: World) -> None:
    """The size counts as the bytes come, whatever the headers promised."""
    assert_refused(
        small, send(small, [PURPOSE, ("file", 'filename="a.jsonl"', lines(9))]), 413, "file_too_large", "file"
    )


async def test_a_body_that_announces_too_much_is_refused_before_it_is_read(small: World) -> None:
    """A known Content-Length saves everybody the transfer."""

    def never() -> Iterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    answer = await call(small.app, never(), {"content-length": str(5 << 20)})

    assert_refused(small, answer, 413, "file_too_large", "file")


@pytest.mark.parametrize("path", ["files", "uploads/upload_1/parts"])
def test_a_length_that_no_number_holds_is_too_much(world: World, path: str) -> None:
    """Some servers hand over whatever stands in the header."""
    headers = {"content-type": "multipart/form-data; boundary=XX", "content-length": "9" * 5000}
    assert 413 == world.http().post(path, content=BODY, headers=headers).status_code


def test_a_refused_upload_stays_refused_when_it_cannot_be_cleaned_up(world: World) -> None:
    """What is wrong with the file matters to the caller, and not what is left of it."""
    world.files._blobs = Hostile(world.memory.blobs, {"delete": [fail]}).port

    assert 400 == send(world, [PURPOSE, ("file", 'filename="a.jsonl"', b"")]).status_code


async def test_a_refused_upload_is_read_to_its_end(world: World) -> None:
    """A client that looks for the answer only after sending everything gets it, and not a broken connection."""
    body = form([PURPOSE, ("file", 'filename="a.csv"', lines(9))])
    pieces = (body[start : start + 100] for start in range(0, len(body), 100))

    answer = await call(world.app, pieces)

    assert_refused(world, answer, 400, "invalid_file_format", "file")
    assert [] == list(pieces)


async def test_an_upload_whose_client_goes_away_leaves_nothing(world: World) -> None:
    """Half a body and a closed connection: no file, no object, no unfinished upload."""
    body = form([PURPOSE, ("file", 'filename="a.jsonl"', lines(80_000))])

    answer = await call(world.app, iter([body[: 10 << 20]]), goes_away=True)

    assert_refused(world, answer, 400, "invalid_request", None)


async def test_an_upload_cut_anywhere_is_the_same_file(world: World) -> None:
    """The network may cut a body between any two bytes."""
    body = form([PURPOSE, FILE])
    for cut in range(1, len(body)):
        answer = await call(world.app, iter([body[:cut], body[cut:]]))
        assert 200 == answer.status_code
        assert FILE[2] == world.memory.blobs.get(paths.file("acme", answer.json()["id"]))


async def test_an_upload_byte_by_byte_is_the_same_file(world: World) -> None:
    """However slowly it comes."""
    body = form([PURPOSE, FILE])

    answer = await call(world.app, (body[at : at + 1] for at in range(len(body))))

    assert FILE[2] == world.memory.blobs.get(paths.file("acme", answer.json()["id"]))
