"""A server that is no store, or one that refuses for a reason of its own: nothing is taken for success."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import s3_front
from kept_features import KIND, read, some, write

from pipeline import cli
from pipeline.doctor.findings import Check, Context, examine
from pipeline.doctor.machine import check_store
from sightword.errors import StoreError
from sightword.storage.store import Store

pytestmark = pytest.mark.slow

PAGES = {
    "well-formed": (b"<html><body>Please log in</body></html>", "text/html"),
    "not well-formed": (b"<html><body>Please<br>log in", "text/html"),
    "plain text": (b"It works!", "text/plain"),
    "empty": (b"", "text/html"),
    "JSON": (b'{"status": "ok"}', "application/json"),
    "another XML": (b"<feed><title>News</title></feed>", "application/xml"),
}


@pytest.fixture
def server(front, monkeypatch) -> s3_front.Front:
    monkeypatch.setenv("SIGHTWORD_STORE", "s3://lab/store")
    return front


def always(server: s3_front.Front, status: int, body: bytes, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    server.fault = lambda *_: (status, named, body)


def error_of(code: str, text: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()


def listing(*keys: str) -> bytes:
    contents = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()


def refused(work: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(StoreError) as caught:
        work(*arguments)
    return str(caught.value)


def problem(folder: Path) -> str:
    [found] = examine([Check("store", check_store)], Context(folder, None))
    assert found.state == "problem"
    return found.what


@pytest.mark.parametrize(
    "page", [page if page == "well-formed" else pytest.param(page, marks=pytest.mark.full) for page in PAGES]
)
def test_a_page_is_no_store(server, tmp_path, capsys, page) -> None:
    """Neither to a writer, before anything is computed, nor to the doctor or the command that counts."""
    body, kind = PAGES[page]
    always(server, 200, body, Content_Type=kind)
    store = Store("s3://lab/store")
    for work in (lambda: write(store, some([1])),):
        message = refused(work)
        assert message.startswith("s3://lab/store: the store cannot be ")
        assert "Check the address (SIGHTWORD_STORE, AWS_ENDPOINT_URL)" in message
        assert len(message) < 400
    assert "the store cannot be" in problem(tmp_path)
    assert cli.main(["store", "stats"]) == 1


@pytest.mark.parametrize("kept", [b"", b"other bytes", None])
def test_a_server_that_does_not_keep_the_probe_is_told(server, tmp_path, kept) -> None:
    """Each write is confirmed, as S3 would; the doctor and a run compare what comes back."""

    def answer(method: str, path: str) -> s3_front.Answer:
        if "list-type=2" in path:
            return 200, {}, listing()
        if method == "PUT":
            return 200, {"ETag": '"0"'}, b""
        return (200, {}, kept) if kept is not None else (404, {}, error_of("NoSuchKey", "It is not there."))

    server.fault = answer
    what = f"the server does not keep what is written: {'nothing' if kept is None else f'{len(kept)} other bytes'}"
    assert what in problem(tmp_path)
    message = refused(Store("s3://lab/store").writer, KIND)
    assert message.startswith(f"s3://lab/store/features/{KIND.name}/identity.json: {what}")
    assert "Check the address" in message


@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "RequestExpired"])
def test_a_wrong_clock_is_told(server, code) -> None:
    always(server, 403, error_of(code, "The difference is too large."))
    store = Store("s3://lab/store")
    for work in (lambda: read(store, some([1])), lambda: write(store, some([1]))):
        message = refused(work)
        assert message.startswith(f"s3://lab/store: this machine's clock is wrong ({code}): it says ")
        assert "UTC. Set the clock" in message
        assert "credentials" not in message


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_to_nowhere_ends(server, status) -> None:
    """A client of S3 asks the bucket for its region then, whose answer is a redirect again."""
    always(server, status, b"<html><body>Moved</body></html>")
    store = Store("s3://lab/store")
    for work in (lambda: read(store, some([1])), lambda: write(store, some([1]))):
        message = refused(work)
        assert "incorrectly configured region" in message
        assert "AWS_DEFAULT_REGION" in message
    assert server.requests.total() <= 6
