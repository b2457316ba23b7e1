"""Errors have one shape, whoever raises them; every answer has an id; and the log never says what a caller sent."""

import logging
from collections.abc import Iterator

import pytest

from functions.api.errors import STATUS
from shared.core.errors import Conflict
from tests.api.world import POWERLESS_KEY, READ_KEY, World, lines
from tests.fakes import Call, Hostile, fail

ENVELOPE = {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v2/files", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/files/", 404, "not_found"),
        ("GET", "/v1/files/a%2Fb%00c", 404, "not_found"),
        ("PUT", "/v1/files", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("DELETE", "/v1/batches/batch_1", 405, "method_not_allowed"),
        ("GET", "/v1/models/none", 404, "not_found"),
        ("POST", "/v1/files", 415, "unsupported_media_type"),
    ],
)
def test_what_the_framework_refuses_has_the_envelope_too(
    world: World, method: str, path: str, status: int, code: str
) -> None:
    """Paths, methods and types that are not there."""
    answer = world.http().request(method, f"http://testserver{path}")

    assert (status, code) == (answer.status_code, answer.json()["error"]["code"])
    assert ENVELOPE == set(answer.json()["error"])


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/files", "GET, POST"),
        ("/v1/files/file-1", "DELETE, GET"),
        ("/v1/files/file-1/content", "GET, HEAD"),
        ("/v1/batches", "GET, POST"),
        ("/v1/batches/batch_1", "GET"),
        ("/v1/batches/validate", "POST"),
        ("/v1/models", "GET"),
        ("/healthz", "GET"),
    ],
)
def test_a_method_that_is_not_there_is_told_which_are(world: World, path: str, methods: str) -> None:
    """All of them, in `Allow`."""
    answer = world.http().request("PATCH", f"http://testserver{path}")
    assert (405, methods) == (answer.status_code, answer.headers["allow"])


def test_a_parameter_that_the_framework_refuses_has_the_envelope(world: World) -> None:
    """Never its 422 shape."""

    @world.app.get("/probe")
    def probe(number: int) -> int:
        return number

    answer = world.http(None).get("http://testserver/probe", params={"number": "x"})

    assert 400 == answer.status_code
    assert ENVELOPE == set(answer.json()["error"])
    assert ("invalid_request", "number") == (answer.json()["error"]["code"], answer.json()["error"]["param"])


def test_a_refusal_repeats_no_more_than_a_little_of_what_was_sent(world: World) -> None:
    """A megabyte would come back as six, which is more than some ways back hold."""
    name = "\x7f" * 900_000
    http = world.http()
    answers = [http.post(path, json={name: 1}) for path in ("batches", "batches/validate", "uploads", "files")]
    answers += [http.get(path, params={"after": name[:15_000]}) for path in ("files", "batches")]
    answers.append(http.post("files", data={name[:3000]: "x"}, files={"file": b"x"}))
    for answer in answers:
        assert 400 == answer.status_code
        assert len(answer.content) < 5000


def test_every_answer_has_an_id_of_its_own(world: World) -> None:
    """Good ones and bad ones."""
    client = world.http()
    ids = {client.get(path).headers["x-request-id"] for path in ("files", "nothing", "batches", "healthz")}

    assert 4 == len(ids)
    assert all(request_id.startswith("req_") for request_id in ids)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic c2s6", "Bearer wrong", "sk-acme"])
def test_a_caller_without_a_good_key_is_unknown(world: World, header: str | None) -> None:
    """401, before anything else is looked at."""
    headers = {} if header is None else {"authorization": header}
    for method, path in (
        ("GET", "files"),
        ("POST", "files"),
        ("POST", "batches"),
        ("GET", "models"),
        ("GET", "batches"),
    ):
        answer = world.http(None).request(method, path, headers=headers)
        assert (401, "invalid_api_key") == (answer.status_code, answer.json()["error"]["code"])


def test_a_key_does_what_its_scopes_allow(world: World) -> None:
    """A reading key reads, a key without scopes does nothing."""
    writes = (("POST", "files"), ("DELETE", "files/file-1"), ("POST", "batches"), ("POST", "batches/batch_1/cancel"))
    reads = (
        ("GET", "files"),
        ("GET", "files/file-1"),
        ("GET", "files/file-1/content"),
        ("GET", "batches"),
        ("GET", "models"),
    )
    for method, path in writes:
        for key in (READ_KEY, POWERLESS_KEY):
            answer = world.http(key).request(method, path)
            assert (403, "insufficient_permissions") == (answer.status_code, answer.json()["error"]["code"])
    for method, path in reads:
        assert 403 != world.http(READ_KEY).request(method, path).status_code
        assert 403 == world.http(POWERLESS_KEY).request(method, path).status_code


def test_health_needs_no_key(world: World) -> None:
    """At the root and under the mount."""
    for path in ("http://testserver/healthz", "healthz"):
        answer = world.http(None).get(path)
        assert (200, {"status": "ok"}) == (answer.status_code, answer.json())


def test_a_store_that_does_not_answer_is_a_503_worth_a_retry(world: World) -> None:
    """With Retry-After."""
    world.files._store = Hostile(world.memory.files, {"get": [fail]}).port

    answer = world.http().get("files/file-1")

    assert (503, "service_unavailable") == (answer.status_code, answer.json()["error"]["code"])
    assert int(answer.headers["retry-after"]) > 0


def test_an_object_that_too_many_change_at_once_is_a_503_worth_a_retry(world: World) -> None:
    """Nothing of it took effect, and the next try may well."""

    def in_the_way(_: Call) -> None:
        raise Conflict("changed by too many at once")

    batch_id = world.create()
    world.batches._store = Hostile(world.memory.batches, {"update": [in_the_way]}).port

    answer = world.http().post(f"batches/{batch_id}/cancel")

    assert (503, "service_unavailable") == (answer.status_code, answer.json()["error"]["code"])
    assert int(answer.headers["retry-after"]) > 0
    assert 200 == world.http().post(f"batches/{batch_id}/cancel").status_code


def test_the_unforeseen_is_a_500_that_tells_nobody_what_was_sent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller gets the envelope and an id; the log gets the id, the kind and the place, and no message."""

    def break_(_: Call) -> None:
        raise ValueError("my prompt")

    world.files._store = Hostile(world.memory.files, {"get": [break_]}).port

    with caplog.at_level(logging.INFO):
        answer = world.http().get("files/file-1")

    assert (500, "server_error") == (answer.status_code, answer.json()["error"]["code"])
    assert ENVELOPE == set(answer.json()["error"])
    assert answer.headers["x-request-id"] in caplog.text
    assert "ValueError" in caplog.text
    assert "my prompt" not in answer.text + caplog.text


def test_an_answer_that_breaks_off_is_not_mistaken_for_a_whole_one(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its beginning is out already: the connection is closed instead, and the log knows."""
    file_id = world.upload()

    def break_off(_: Call) -> Iterator[bytes]:
        yield b"half"
        raise ValueError("my prompt")

    world.files._blobs = Hostile(world.memory.blobs, {"stream": [break_off]}).port

    with caplog.at_level(logging.INFO), pytest.raises(Exception, match=r"^$"):
        world.http().get(f"files/{file_id}/content")

    assert "ValueError" in caplog.text
    assert "my prompt" not in caplog.text


def test_the_log_names_the_route_and_nothing_of_the_content(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Prompts, metadata, names and keys stay out of it."""
    with caplog.at_level(logging.INFO, logger="slackwater"):
        client = world.openai()
        file = client.files.create(file=("secret-name.jsonl", lines(2)), purpose="batch")
        client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"k": "secret-value"},
        )
        world.http().get("models/secret-model")

    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("slackwater"))
    assert "POST /v1/files -> 200" in ours
    assert "GET /v1/models/{model_id:path} -> 404" in ours
    assert "secret" not in ours
    assert "sk-acme" not in ours
    assert '"hi"' not in ours


def test_every_code_has_a_4xx_or_5xx_status() -> None:
    """The table holds errors only."""
    assert all(400 <= status <= 599 for status in STATUS.values())
