"""An S3 server on this machine, with a front that counts and answers badly, and stores in both sorts of place."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import s3_front
import servers

from sightword.places import requests
from sightword.storage import store as module
from sightword.storage.store import Store


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory) -> Iterator[servers.S3Server]:
    with servers.s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Each feature makes a segment."""
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "LAST", 0.0)


@pytest.fixture
def client(monkeypatch, tmp_path) -> None:
    """The variables of a user of S3, and no patience."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATHEKEYOFATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "thesecretofatest")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "thetokenofatest")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SIGHTWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(requests, "TRIES", 2)


@pytest.fixture(scope="session")
def one_front(s3_server) -> Iterator[s3_front.Front]:
    with s3_front.front_of(s3_server.endpoint) as found:
        yield found


@pytest.fixture
def front(one_front, client, monkeypatch) -> s3_front.Front:
    """Counts from 0, and answers well."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_front.endpoint)
    one_front.fault = lambda _method, _path: ""
    one_front.clear()
    return one_front


@pytest.fixture
def address(s3_server, tmp_path) -> str:
    """Of a store that is each test's own."""
    return f"s3://{s3_server.bucket}/{tmp_path.name}"


@pytest.fixture
def s3_store(front, address) -> Store:
    return Store(address)


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path) -> Store:
    return Store(tmp_path / "store") if request.param == "folder" else request.getfixturevalue("s3_store")
