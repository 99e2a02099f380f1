"""A server of objects that is slow, away, unwilling or worse: nothing wrong is ever read, and one message says why."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
import threading
import time

import boto3
import fork_server
import pytest
import servers
from kept_features import KIND, as_bytes, read, some, write
from s3_front import first_tries

from sightword import machine
from sightword.errors import SightwordError, StoreError
from sightword.messages import install_extra
from sightword.places import requests
from sightword.storage import maintenance
from sightword.storage import store as module
from sightword.storage.store import Store

pytestmark = pytest.mark.slow

SECRETS = ("AKIATHEKEYOFATEST", "thesecretofatest", "thetokenofatest")


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Each feature makes a segment."""
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "LAST", 0.0)


@pytest.fixture(autouse=True)
def no_secret_is_told(caplog) -> None:
    """Whatever happens, at whatever level."""
    caplog.set_level(logging.DEBUG)
    yield
    assert not [secret for secret in SECRETS if secret in caplog.text]


def refused(work, *arguments) -> str:
    """The message of an error, which has no credentials."""
    with pytest.raises(SightwordError) as caught:
        work(*arguments)
    assert not [secret for secret in SECRETS if secret in str(caught.value)]
    return str(caught.value)


@pytest.mark.full
@pytest.mark.parametrize("fault", ["slow", "cut", "drop"])
def test_a_request_that_fails_once_is_tried_again(s3_store, address, front, at_once, fault) -> None:
    features = some(range(4))
    front.fault = first_tries(fault)
    write(s3_store, features)
    assert read(Store(address), features) == as_bytes(features)
    maintenance.prune(s3_store)
    front.fault = lambda _method, _path: ""
    [kind] = maintenance.survey(Store(address))
    assert (kind.features, kind.damaged) == (4, [])


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "why"), [("slow", "SlowDown"), ("drop", "error sending request"), ("hang", "error sending request")]
)
def test_a_server_that_stays_bad_is_told_after_a_while(s3_store, front, fault, why, monkeypatch) -> None:
    monkeypatch.setattr(requests, "READ_SECONDS", 0.4)
    features = some(range(4))
    front.fault = lambda _method, _path: fault
    for work in (lambda: read(s3_store, features), lambda: write(s3_store, features)):
        message = refused(work)
        assert message.startswith(f"{s3_store.place}: the store cannot be ")
        assert why in message
        assert "SIGHTWORD_STORE, AWS_ENDPOINT_URL" in message
    assert 2 < front.requests.total() < 40


@pytest.mark.full
def test_an_address_at_which_nobody_listens(client, address, monkeypatch) -> None:
    for who in ("", "me:thesecretofatest@"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{who}127.0.0.1:{servers.free_port()}")
        assert "the store cannot be read (" in refused(read, Store(address), some(range(2)))


@pytest.mark.full
def test_a_cut_upload_is_never_read(s3_store, address, front, at_once, caplog) -> None:
    """The server keeps half of each segment under the name of the whole."""
    features = some(range(4))
    front.fault = lambda method, path: "cut" if method == "PUT" and ".parquet" in path else ""
    assert "cannot be written" in refused(write, s3_store, features)
    front.fault = lambda _method, _path: ""
    assert read(Store(address), features) == {}
    assert "cannot be used and are ignored" in caplog.text
    write(s3_store, features)
    assert read(Store(address), features) == as_bytes(features)
    maintenance.prune(s3_store)
    [kind] = maintenance.survey(Store(address))
    assert (kind.features, kind.damaged) == (4, [])


@pytest.mark.full
def test_a_server_that_goes_and_comes_back(s3_server, client, address, monkeypatch, at_once) -> None:
    """Within the patience: nobody notices."""
    monkeypatch.setattr(requests, "TRIES", 10)
    relay = servers.Relay(int(s3_server.endpoint.rpartition(":")[2]))
    relay.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{relay.port}")
    features = some(range(8))
    items = list(features.items())
    with Store(address).writer(KIND) as writer:
        writer.put(*items[0])
        relay.stop()
        back = threading.Timer(1.0, relay.start)
        back.start()
        for item in items[1:]:
            writer.put(*item)
    back.join()
    relay.stop()
    relay.start()
    assert read(Store(address), features) == as_bytes(features)
    relay.stop()


@pytest.mark.full
def test_a_server_that_goes_in_the_middle_keeps_what_was_written(s3_store, address, front, at_once) -> None:
    features = some(range(6))
    count = itertools.count()
    front.fault = lambda method, path: "drop" if ".parquet" in path and next(count) >= 3 else ""
    message = refused(write, s3_store, features)
    assert "the next run continues with them" in message
    front.fault = lambda _method, _path: ""
    found = read(Store(address), features)
    assert len(found) == 3
    write(s3_store, {key: value for key, value in features.items() if key not in found})
    assert read(Store(address), features) == as_bytes(features)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("s3://", "names no bucket"),
        ("http://lab/store", "http:// is no address of a store; expected a folder, s3://BUCKET/PREFIX"),
        ("s3://AKIATHEKEYOFATEST:thesecretofatest@lab/store", "Credentials are given by AWS_ACCESS_KEY_ID"),
        ("s3://lab/store?token=thetokenofatest", "more than a bucket and a prefix"),
    ],
)
def test_an_address_of_another_kind(wrong, expected, monkeypatch) -> None:
    assert expected in refused(Store, wrong)
    monkeypatch.setenv("SIGHTWORD_STORE", wrong)
    assert expected in refused(machine.current)


@pytest.mark.full
def test_a_bucket_that_is_not_there(front) -> None:
    store = Store("s3://nobodys-bucket/store")
    for work in (
        lambda: read(store, some([1])),
        lambda: write(store, some([1])),
        lambda: list(maintenance.survey(store)),
    ):
        assert refused(work) == (
            "s3://nobodys-bucket/store: there is no bucket nobodys-bucket. Make the bucket, or correct SIGHTWORD_STORE."
        )


def test_the_package_for_s3_is_not_installed(monkeypatch, address) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    message = refused(read, Store(address), some([1]))
    assert message == f"obstore is not installed, without which nothing at s3:// can be read. {install_extra('s3')}"


@pytest.mark.full
def test_no_credentials(front, address, monkeypatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    for work in (read, write):
        message = refused(work, Store(address), some([1]))
        assert message.startswith(f"{address}: there are no credentials for the store. Set AWS_ACCESS_KEY_ID")


@pytest.fixture
def people(s3_server, front, address, monkeypatch):
    """Makes this process a user of a bucket that holds features and checks who asks."""
    features = some(range(4))
    write(Store(address), features)
    iam = boto3.client("iam", endpoint_url=s3_server.endpoint)
    name = address.rpartition("/")[2][:60]
    iam.create_user(UserName=name)
    may = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
    iam.put_user_policy(UserName=name, PolicyName="reads", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    s3_server.check_credentials(True)

    def become(own: str | None, secret: str | None) -> None:
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", own or key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret or key["SecretAccessKey"])

    yield become
    s3_server.check_credentials(False)


def test_a_key_that_may_only_read(people, front, address) -> None:
    people(None, None)
    features = some(range(4))
    assert read(Store(address), features) == as_bytes(features)
    assert len(list(maintenance.survey(Store(address)))) == 1
    front.clear()
    message = refused(Store(address).writer, KIND)
    assert message == (
        f"{address}: the store may not be written with these credentials (AccessDenied). Ask for the permission, or "
        "give other credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
    )
    assert front.requests.total() == 1
    with pytest.raises(StoreError, match="may not be changed"):
        maintenance.prune(Store(address), remove=KIND.name)


@pytest.mark.full
@pytest.mark.parametrize(
    ("own", "secret", "why"),
    [
        (None, "thesecretofatest", "SignatureDoesNotMatch"),
        ("AKIATHEKEYOFATEST", "thesecretofatest", "InvalidAccessKeyId"),
    ],
)
def test_wrong_credentials(people, front, address, own, secret, why) -> None:
    people(own, secret)
    front.clear()
    for work in (read, write):
        message = refused(work, Store(address), some(range(4)))
        assert message == (
            f"{address}: the server does not accept the credentials ({why}). "
            "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        )
    assert front.requests.total() == 2


@pytest.mark.full
def test_a_process_has_one_message_and_no_traceback(people, address) -> None:
    people("AKIATHEKEYOFATEST", "thesecretofatest")
    began = time.monotonic()
    done = subprocess.run(
        [fork_server.python(), "-m", "pipeline.cli", "store", "stats", "--store", address],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"sightword: {address}: the server does not accept the credentials")
    assert time.monotonic() - began < 60
