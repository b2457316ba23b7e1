"""Media in requests: a real server with TLS on loopback, which only a test may fetch from, and names that lead to where the test wants them."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpu_job.fetch import INSIDE, Fetcher, NotFetched
from gpu_job.media import MOST, Media
from gpu_job.row import Finished, Row, prepare
from shared.core import request_line
from shared.core.errors import NotFound, Unavailable
from shared.core.models import Model
from shared.core.plan import PlanLine, ShardPlan
from shared.core.request_line import RequestLine

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
MODEL = Model(id="m", revision="m@1", source="", engine="vllm", endpoints=(CHAT,), context=99, max_output=9)
LOOPBACK = [ip_network("127.0.0.0/8")]
CAT = b"\x89PNG a cat"
ADDRESSES: dict[str, list[str]] = {
    "media.test": ["127.0.0.1"],
    "inside.test": ["10.0.0.7"],
    "mixed.test": ["127.0.0.1", "192.168.1.1"],
    "metadata.test": ["169.254.169.254"],
    "six.test": ["fd00:ec2::254"],
    "other.test": ["127.0.0.1"],
}


def resolve(host: str) -> Sequence[str]:
    """Look a name up in the test's own book."""
    if host == "away.test":
        raise Unavailable("the name server is away")
    if host not in ADDRESSES:
        raise NotFound(host)
    return ADDRESSES[host]


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Give what the server of media.test shows, and what its clients trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "media.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("media.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(pem + secret)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.pem")
    return server, ssl.create_default_context(cadata=pem.decode())


class Site:
    """A server of media. `asked` are the paths that were asked for."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        self.port = port
        self.trust = trust
        self.asked: list[str] = []

    def url(self, path: str, host: str = "media.test") -> str:
        """Give the URL of a path."""
        return f"https://{host}:{self.port}{path}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Do as the path says."""
        path = request.path
        self.asked.append(path)
        moved = {
            "/moved": "/cat.png",
            "/loop": "/loop",
            "/inside": "https://inside.test/cat.png",
            "/metadata": "https://169.254.169.254/latest",
            "/plain": f"http://media.test:{self.port}/cat.png",
            "/file": "file:///etc/passwd",
        }
        if path in moved:
            raise web.HTTPFound(moved[path])
        if path == "/slow":
            await asyncio.get_running_loop().create_future()
        if path == "/flaky" and self.asked.count(path) < 3:
            raise web.HTTPServiceUnavailable
        if path == "/broken":
            raise web.HTTPInternalServerError
        if path == "/endless":
            stream = web.StreamResponse()
            await stream.prepare(request)
            while True:
                await stream.write(b"x" * (1 << 20))
                await asyncio.sleep(0)  # else a peer that has gone is never heard of
        if path == "/folded":
            return web.Response(body=b"\x1f\x8b folded", headers={"Content-Encoding": "gzip"})
        if path == "/odd":
            return web.Response(body=CAT, headers={"Content-Type": 'image/png"; x="1'})
        if path in {"/cat.png", "/flaky"}:
            return web.Response(body=CAT, content_type="image/png")
        raise web.HTTPNotFound


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The server."""
    server, trust = certificate(tmp_path_factory.mktemp("tls"))
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    made = Site(0, trust)
    app.router.add_get("/{path:.*}", made.answer)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
    await listener.start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module")
async def media(site: Site) -> AsyncIterator[Media]:
    """What may fetch from loopback, and trusts the server."""
    site.asked.clear()
    fetcher = Fetcher(resolve, LOOPBACK, trust=site.trust, seconds=60)
    yield Media(fetcher)
    await fetcher.close()


def row(url: str = CHAT, contract: str = "openai", **body: Any) -> Row:
    """Give a row with this content."""
    line = {"custom_id": "a", "method": "POST", "url": url, "body": {"model": "m", **body}}
    request = request_line.parse(json.dumps(line).encode(), 1)
    assert isinstance(request, RequestLine)
    return prepare(ShardPlan("batch_1", "acme", contract, "key", url, [PlanLine(1, 0, 9, "a")]), 0, request, MODEL)


def picture(url: object, **more: Any) -> list[dict[str, Any]]:
    """Give messages with a picture in them."""
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}, **more}]
    return [{"role": "system", "content": "Look."}, {"role": "user", "content": parts}]


async def inlined(media: Media, one: Row) -> Finished | None:
    """Put media into a row."""
    async with media.inlined(one) as refused:
        return refused


async def refused(media: Media, one: Row) -> dict[str, Any]:
    """Give the error of a row whose media cannot be had."""
    finished = await inlined(media, one)
    assert finished is not None
    assert not finished.ok
    response = json.loads(finished.data)["response"]
    assert 400 == response["status_code"]
    error: dict[str, Any] = response["body"]["error"]
    assert "invalid_request" == error["code"]
    return error


def data_url(data: bytes, kind: str = "image/png") -> str:
    """Give the URL that holds its data."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


async def test_a_picture_is_put_into_the_request(media: Media, site: Site) -> None:
    """The engine finds it there as it would find one that the caller has put there; everything else stays as it was."""
    one, same = row(messages=picture(site.url("/cat.png"))), row(messages=picture(data_url(CAT)))
    assert None is await inlined(media, one)
    assert json.loads(same.body) == json.loads(one.body)
    assert ["/cat.png"] == site.asked


async def test_media_are_found_wherever_an_engine_would_look_for_them(media: Media, site: Site) -> None:
    """By the field, whatever type the part says it has, and in responses too."""
    url, found = site.url("/cat.png"), data_url(CAT)
    parts: list[dict[str, Any]] = [
        {"audio_url": {"url": url}},
        {"type": "video_url", "video_url": {"url": url}},
        {"type": "text", "image_url": url},
    ]
    one = row(messages=[{"role": "tool", "content": parts}])
    assert None is await inlined(media, one)
    told = json.loads(one.body)["messages"][0]["content"]
    assert [found] * 3 == [told[0]["audio_url"]["url"], told[1]["video_url"]["url"], told[2]["image_url"]]
    content = [{"type": "input_image", "image_url": url}, {"type": "input_file", "file_url": url}]
    other = row(
        RESPONSES, input=[{"role": "user", "content": content}, {"type": "function_call_output", "output": content}]
    )
    assert None is await inlined(media, other)
    told = json.loads(other.body)["input"]
    assert [found] * 4 == [
        part.get("image_url") or part["file_url"] for item in told for part in item.get("content") or item["output"]
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "https://media.test/cat.png"}],
        [{"role": "user", "content": [{"type": "text", "text": "image_url"}]}],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]}],
        picture(data_url(CAT)),
        picture("DATA:image/png;base64,AAAA"),
        picture(7),
        picture(None),
    ],
)
async def test_what_is_inline_goes_through(media: Media, site: Site, messages: list[Any]) -> None:
    """Data URLs, sounds in base64, and what is no URL at all: the last is the engine's to refuse."""
    one = row(messages=messages)
    before = json.loads(one.body)
    assert None is await inlined(media, one)
    assert before == json.loads(one.body)
    assert [] == site.asked


@pytest.mark.parametrize(
    "url",
    [
        "http://media.test/cat.png",
        "file:///etc/passwd",
        "ftp://media.test/cat",
        "/etc/passwd",
        "",
        " https://media.test/",
        "s3://b/k",
        "javascript:1",
    ],
)
async def test_other_schemes_are_refused(media: Media, url: str) -> None:
    """The error names the part."""
    error = await refused(media, row(messages=picture(url)))
    assert "body.messages[1].content[1].image_url" == error["param"]
    assert "must be an https or a data URL" in error["message"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/missing", "the server answered 404"),
        ("/broken", "the server answered 500"),
        ("/loop", "redirected too often"),
        ("/inside", INSIDE),
        ("/metadata", INSIDE),
        ("/plain", "redirected to what is no https URL"),
        ("/file", "redirected to what is no https URL"),
    ],
)
async def test_what_cannot_be_fetched_is_an_error_of_its_row(media: Media, site: Site, path: str, said: str) -> None:
    """A redirect is followed only to where the first URL might have led as well."""
    error = await refused(media, row(messages=picture(site.url(path))))
    assert "body.messages[1].content[1].image_url" == error["param"]
    assert said in error["message"]
    assert "/cat.png" not in site.asked


async def test_a_redirect_is_followed(media: Media, site: Site) -> None:
    """To an address that is checked as well."""
    one = row(messages=picture(site.url("/moved")))
    assert None is await inlined(media, one)
    assert ["/moved", "/cat.png"] == site.asked


async def test_a_server_that_fails_is_asked_again(media: Media, site: Site) -> None:
    """A few times."""
    assert None is await inlined(media, row(messages=picture(site.url("/flaky"))))
    assert ["/flaky"] * 3 == site.asked


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("inside.test", INSIDE),
        ("mixed.test", INSIDE),
        ("metadata.test", INSIDE),
        ("six.test", INSIDE),
        ("169.254.169.254", INSIDE),
        ("10.0.0.7", INSIDE),
        ("[::1]", INSIDE),
        ("[::ffff:10.0.0.7]", INSIDE),
        ("[fd00:ec2::254]", INSIDE),
        ("nowhere.test", "there is no such host"),
        ("away.test", "could not be looked up"),
        ("me:secret@media.test", "a user name or a password"),
        ("other.test", "certificate is not good"),
    ],
)
async def test_only_what_is_outside_may_be_asked(media: Media, site: Site, host: str, said: str) -> None:
    """Not even one address of a name may be private; nothing is sent to any of them, and a certificate is for its name."""
    error = await refused(media, row(messages=picture(site.url("/cat.png", host))))
    assert said in error["message"]
    assert [] == site.asked


@pytest.mark.parametrize(
    "host",
    [
        "media.test",
        "localhost",
        "127.0.0.1",
        "127.0.0.1.",
        "2130706433",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "017700000001",
        "[::127.0.0.1]",
    ],
)
async def test_loopback_is_private_however_it_is_written(site: Site, host: str) -> None:
    """Where no test allows it: by a name, by an address, or by what C's library takes for one."""

    def machine(_: str) -> Sequence[str]:
        return ["127.0.0.1"]

    site.asked.clear()
    fetcher = Fetcher(machine, trust=site.trust)
    with pytest.raises(NotFetched, match=f"{INSIDE}|malformed|could not be reached"):
        await fetcher.fetch(site.url("/cat.png", host), MOST)
    await fetcher.close()
    assert [] == site.asked


async def test_no_socket_is_made_for_an_address_that_slipped_through(site: Site) -> None:
    """Whatever way led there, the last word is spoken where the connection is made."""
    fetcher = Fetcher(resolve, trust=site.trust)
    for address in ("127.0.0.1", "10.0.0.7", "169.254.169.254"):
        with pytest.raises(OSError, match=INSIDE):
            fetcher._socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 443)))
    await fetcher.close()


async def test_a_name_is_checked_when_it_is_connected_to(site: Site) -> None:
    """A name server that answers differently the second time gains nothing: what was checked is what is connected to."""
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    fetcher = Fetcher(lambda _: next(answers), LOOPBACK, trust=site.trust)
    assert CAT == (await fetcher.fetch(site.url("/cat.png"), MOST)).data
    await fetcher.close()
    fetcher = Fetcher(lambda _: next(answers), LOOPBACK, trust=site.trust)
    with pytest.raises(NotFetched, match=INSIDE):
        await fetcher.fetch(site.url("/cat.png"), MOST)
    await fetcher.close()


async def test_what_never_comes_is_not_waited_for(site: Site) -> None:
    """A row has its own time, and so has a name that nobody answers for."""
    fetcher = Fetcher(resolve, LOOPBACK, trust=site.trust, seconds=0.5)
    one = row(messages=picture(site.url("/slow")))
    assert "did not come within 0.5 s" in (await refused(Media(fetcher), one))["message"]
    await fetcher.close()


async def test_what_is_too_large_is_not_read_to_its_end(media: Media, site: Site) -> None:
    """All media of a request together have as much room as a line."""
    error = await refused(media, row(messages=picture(site.url("/endless"))))
    assert f"more than {MOST} bytes" in error["message"]
    messages = picture(site.url("/cat.png")) + picture(site.url("/endless"))
    error = await refused(media, row(messages=messages))
    assert ("body.messages[3].content[1].image_url", f"more than {MOST - len(CAT)} bytes") == (
        error["param"],
        error["message"].split("it has ")[1].rstrip("."),
    )


async def test_nothing_is_unfolded_and_no_word_of_a_server_is_taken_as_it_is(media: Media, site: Site) -> None:
    """A compressed body stays as it came, and a strange media type is none."""
    one = row(messages=picture(site.url("/folded")) + picture(site.url("/odd")))
    assert None is await inlined(media, one)
    told = json.loads(one.body)["messages"]
    folded, odd = (told[at]["content"][1]["image_url"]["url"] for at in (1, 3))
    assert data_url(b"\x1f\x8b folded", "application/octet-stream") == folded
    assert odd in {data_url(CAT, "application/octet-stream"), data_url(CAT)}


async def test_names_of_media_are_taken_out(media: Media) -> None:
    """By them an engine keeps what it has seen: nobody finds by a name what another organization has sent."""
    again = {"role": "user", "content": [{"type": "image_url", "uuid": "cat"}]}
    messages = [*picture(data_url(CAT), uuid="cat"), again]
    one = row(messages=messages)
    assert None is await inlined(media, one)
    assert b"uuid" not in one.body
    assert b"cache_salt" in one.body


async def test_gridline_gives_a_code_and_no_answer(media: Media) -> None:
    """As it does for every error."""
    finished = await inlined(media, row(contract="gridline", messages=picture("http://media.test/cat.png")))
    assert finished is not None
    told = json.loads(finished.data)
    assert (None, "invalid_request") == (told["response"], told["error"]["code"])
