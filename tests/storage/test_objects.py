"""A store in object storage: few requests, no wrong feature whatever is lost or damaged, one message for a refusal."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
import fork_server
import numpy as np
import pytest
import torch
from kept_features import KIND, as_bytes, read, some, write
from PIL import Image

from pipeline import cli
from pipeline.doctor.findings import Check, Context, Finding, examine
from pipeline.doctor.machine import check_store
from sightword import machine
from sightword.errors import SightwordError, StoreError
from sightword.features.compute import ResizedCorpus
from sightword.features.settings import FeaturesSettings
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings
from sightword.messages import install_extra
from sightword.places import requests
from sightword.storage import maintenance
from sightword.storage.store import Store

SECRETS = ("AKIATHEKEYOFATEST", "thesecretofatest", "thetokenofatest")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("at_once")]


@pytest.fixture(autouse=True)
def no_secret_is_told(caplog) -> None:
    """Whatever happens, at whatever level."""
    caplog.set_level(logging.DEBUG)
    yield
    assert not [secret for secret in SECRETS if secret in caplog.text]


@pytest.fixture
def elsewhere(monkeypatch, tmp_path, address) -> Callable[[], Store]:
    """Makes the store of another machine, which has no copies."""
    numbers = itertools.count()

    def make() -> Store:
        monkeypatch.setenv("SIGHTWORD_CACHE", str(tmp_path / f"machine-{next(numbers)}/cache"))
        return Store(address)

    return make


def segments(server, address: str) -> list[str]:
    """The keys of the store's segments."""
    prefix = address.removeprefix(f"s3://{server.bucket}/") + "/"
    return [key for key in server.objects(prefix) if key.endswith(".parquet")]


def refused(work: Callable[..., object], *arguments: object) -> str:
    """The message of an error, which has no credentials."""
    with pytest.raises(SightwordError) as caught:
        work(*arguments)
    assert not [secret for secret in SECRETS if secret in str(caught.value)]
    return str(caught.value)


def examined(folder: Path) -> Finding:
    [finding] = examine([Check("store", check_store)], Context(folder, None))
    return finding


def test_requests_are_few(s3_store, front, elsewhere) -> None:
    features = some(range(40))
    write(s3_store, features)
    assert front.requests == {"PUT json": 1, "GET json": 1, "PUT parquet": 40}
    other = elsewhere()
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests["LIST"] == 1
    assert front.requests["GET parquet"] <= 3 * 40
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests == {"LIST": 1}  # all others are copies now
    maintenance.prune(s3_store)
    other = elsewhere()
    front.clear()
    few = dict(list(features.items())[:2])
    assert read(other, [*few, *some([99])]) == as_bytes(few)
    assert front.requests["GET parquet"] <= 3
    other = elsewhere()
    front.clear()
    [kind] = maintenance.survey(other, read=False)
    assert (kind.features, kind.segments) == (40, 1)
    assert front.requests["GET parquet"] <= 2


@pytest.mark.full
@pytest.mark.parametrize("spoil", [lambda data: data[:-40], lambda data: data[:200] + b"\7" + data[201:]])
def test_damaged_segment_makes_no_wrong_feature(s3_store, s3_server, address, elsewhere, caplog, spoil) -> None:
    features = some(range(6))
    write(s3_store, features)
    key = segments(s3_server, address)[3]
    s3_server.put(key, spoil(s3_server.get(key)))
    found = read(elsewhere(), features)
    assert found.items() <= as_bytes(features).items()
    assert len(found) == 5
    assert [key in message for message in caplog.messages] == [True]
    maintenance.prune(elsewhere())
    assert read(elsewhere(), features) == found
    write(s3_store, features)
    assert read(elsewhere(), features) == as_bytes(features)
    [kind] = maintenance.survey(elsewhere())
    assert kind.damaged == []


def test_damaged_copy_is_fetched_again(s3_store, front, tmp_path) -> None:
    features = some(range(6))
    write(s3_store, features)
    assert read(s3_store, features) == as_bytes(features)
    copies = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(copies) == 6
    copies[0].chmod(0o644)
    data = copies[0].read_bytes()
    copies[0].write_bytes(data.replace(data[100:110], bytes(10)))
    front.clear()
    assert read(s3_store, features) == as_bytes(features)
    assert front.requests["GET parquet"] == 1
    assert copies[0].read_bytes() == data


def page(address: str, *numbers: int, more: bool) -> tuple[int, dict[str, str], bytes]:
    """The answer of S3 to a request for a listing."""
    name = address.partition("lab/")[2]
    keys = "".join(
        f"<Contents><Key>{name}/{number:03}</Key><Size>1</Size><ETag>a</ETag>"
        f"<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for number in numbers
    )
    token = f"<NextContinuationToken>{numbers[-1]:03}</NextContinuationToken>" * more
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    return 200, {}, f"<ListBucketResult>{truncated}{token}{keys}</ListBucketResult>".encode()


@pytest.mark.parametrize("fault", ["cut", "slow", (200, {}, b"<ListBucketResult><Contents>")])
def test_listing_that_breaks_off_goes_on_behind_its_pages(front, address, monkeypatch, tmp_path, fault) -> None:
    """Within a try, where the fault passes, and in the next one, where it stays."""
    monkeypatch.setattr(requests, "PAGE", 5)
    stays, asked = True, []

    def answer(_method: str, path: str) -> object:
        asked.append(path)
        behind = re.search(r"(?:continuation-token=|start-after=.*)(\d{3})", path)
        first = int(behind[1]) + 1 if behind else 0
        if first == 10 and (stays or len(asked) == 2):
            return fault
        return page(address, *range(first, min(first + 5, 12)), more=first < 10)

    front.fault = answer
    message = refused(requests.Requests(address, requests.PICTURES).tree, "", tmp_path / "pages")
    assert message.endswith("Run the command again later: it goes on.")
    assert len([*(tmp_path / "pages").iterdir()]) == 2
    stays = False
    asked.clear()
    assert [*requests.Requests(address).tree("", tmp_path / "pages")] == [f"{number:03}" for number in range(12)]
    assert "009" in asked[0]
    assert not (tmp_path / "pages").exists()


def test_page_that_repeats_or_has_no_order_loses_nothing(front, address, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(requests, "PAGE", 3)
    front.fault = lambda _method, path: page(address, 1, 2, 3, more=True)
    assert "twice: it repeats a page" in refused(requests.Requests(address).tree, "", tmp_path / "pages")
    first, last = page(address, 7, 8, 9, more=True), page(address, 1, 2, 3, more=False)
    answers = iter([first, page(address, 1, 2, 3, more=True), "cut", first, last])
    front.fault = lambda _method, _path: next(answers)
    assert sorted(requests.Requests(address).tree("", tmp_path / "pages")) == ["001", "002", "003", "007", "008", "009"]


@pytest.mark.full
@pytest.mark.parametrize(("fault", "why"), [("slow", "SlowDown"), ("hang", "error sending request")])
def test_server_that_stays_bad_is_told(s3_store, front, fault, why, monkeypatch) -> None:
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
def test_cut_upload_is_never_read(s3_store, address, front, caplog) -> None:
    """The server keeps half of each segment under the name of the whole."""
    features = some(range(4))
    front.fault = lambda method, path: "cut" if method == "PUT" and ".parquet" in path else ""
    assert "cannot be written" in refused(write, s3_store, features)
    front.fault = lambda _method, _path: ""
    assert read(Store(address), features) == {}
    assert "cannot be used and are ignored" in caplog.text
    write(s3_store, features)
    assert read(Store(address), features) == as_bytes(features)


@pytest.mark.full
def test_server_that_goes_keeps_what_was_written(s3_store, address, front) -> None:
    features = some(range(6))
    count = itertools.count()
    front.fault = lambda method, path: "drop" if ".parquet" in path and next(count) >= 3 else ""
    assert "the next run continues with them" in refused(write, s3_store, features)
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
def test_address_of_another_kind_is_refused(wrong, expected, monkeypatch) -> None:
    assert expected in refused(Store, wrong)
    monkeypatch.setenv("SIGHTWORD_STORE", wrong)
    assert expected in refused(machine.current)


def test_missing_package_is_named(monkeypatch, address) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    message = refused(read, Store(address), some([1]))
    assert message == f"obstore is not installed, without which nothing at s3:// can be read. {install_extra('s3')}"


@pytest.mark.full
def test_missing_credentials_are_told_and_a_profile_serves(front, address, monkeypatch, tmp_path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    for work in (read, write):
        message = refused(work, Store(address), some([1]))
        assert message.startswith(f"{address}: there are no credentials for the store. Set AWS_ACCESS_KEY_ID")
    keys = "[lab]\naws_access_key_id = AKIATHEKEYOFATEST\naws_secret_access_key = thesecretofatest\n"
    (tmp_path / "credentials").write_text(keys)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "lab")
    write(Store(address), some([1]))
    assert read(Store(address), some([1])) == as_bytes(some([1]))


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

    def become(secret: str | None) -> None:
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret or key["SecretAccessKey"])

    yield become
    s3_server.check_credentials(False)


def test_key_that_may_only_read(people, front, address) -> None:
    people(None)
    features = some(range(4))
    assert read(Store(address), features) == as_bytes(features)
    assert len(list(maintenance.survey(Store(address)))) == 1
    front.clear()
    assert refused(Store(address).writer, KIND) == (
        f"{address}: the store may not be written with these credentials (AccessDenied). Ask for the permission, or "
        "give other credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
    )
    assert front.requests.total() == 1
    with pytest.raises(StoreError, match="may not be changed"):
        maintenance.prune(Store(address), remove=KIND.name)


@pytest.mark.full
def test_wrong_credentials_are_one_message_of_a_process(people, front, address) -> None:
    people("thesecretofatest")
    command = [fork_server.python(), "-m", "pipeline.cli", "store", "stats", "--store", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"sightword: {address}: the store may not be read with these credentials (Signature")


def test_web_page_is_no_store(front, tmp_path, monkeypatch) -> None:
    """Neither to a writer, before anything is computed, nor to the doctor or the command that counts."""
    monkeypatch.setenv("SIGHTWORD_STORE", "s3://lab/store")
    front.fault = lambda *_: (200, {"Content-Type": "text/html"}, b"<html><body>Please<br>log in")
    message = refused(write, Store("s3://lab/store"), some([1]))
    assert message.startswith("s3://lab/store: the store cannot be ")
    assert len(message) < 400
    assert (examined(tmp_path).state, cli.main(["store", "stats"])) == ("problem", 1)


@pytest.mark.parametrize("kept", [b"other bytes", None])
def test_server_that_keeps_nothing_is_told(front, tmp_path, monkeypatch, kept) -> None:
    """Each write is confirmed, as S3 would; the doctor and a run compare what comes back."""
    monkeypatch.setenv("SIGHTWORD_STORE", "s3://lab/store")

    def answer(method: str, path: str) -> object:
        if "list-type=2" in path:
            return 200, {}, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        if method == "PUT":
            return 200, {"ETag": '"0"'}, b""
        return (200, {}, kept) if kept is not None else (404, {}, b"<Error><Code>NoSuchKey</Code></Error>")

    front.fault = answer
    what = "the server does not keep what is written"
    assert what in examined(tmp_path).what
    message = refused(Store("s3://lab/store").writer, KIND)
    assert message.startswith(f"s3://lab/store/features/{KIND.name}/identity.json: {what}")


def test_doctor_tries_a_store_out(front, s3_server, address, tmp_path, monkeypatch) -> None:
    finding = examined(tmp_path)
    assert (finding.state, finding.what) == ("ok", f"the store is the folder {os.environ['SIGHTWORD_STORE']}")
    monkeypatch.setenv("SIGHTWORD_STORE", address)
    finding = examined(tmp_path)
    assert (finding.state, finding.what) == ("ok", f"the store {address} answers, and can be written")
    assert s3_server.objects(address.removeprefix(f"s3://{s3_server.bucket}/")) == {}
    front.fault = lambda method, _path: "denied" if method == "PUT" else ""
    finding = examined(tmp_path)
    assert (finding.state, finding.todo.split(",")[0]) == ("problem", "Ask for the permission")
    monkeypatch.setenv("SIGHTWORD_STORE", "s3://nobodys-bucket/store")
    assert examined(tmp_path).what == "s3://nobodys-bucket/store: there is no bucket nobodys-bucket"


PICTURES = 9
SMALL = FeaturesSettings(backbone="squeezenet1_1", weights="random", weights_seed=1, crop=48)


def written(folder: Path, place: object, out: Path) -> tuple[int, bytes]:
    """The number of features that were computed, and the bytes of the output."""
    ids = [f"{number}.png" for number in range(PICTURES)]
    corpus = ResizedCorpus(ids, folder, SMALL, store=Store(str(place)), device=torch.device("cpu"))
    return corpus.write(out).computed, out.read_bytes()


def test_features_are_equal_with_a_folder_and_a_bucket(tmp_path, front, address, elsewhere) -> None:
    sources = []
    for number in range(PICTURES):
        blocks = np.random.default_rng(number).integers(0, 256, (4, 4 + number % 3, 3), np.uint8)
        Image.fromarray(blocks).resize((80, 80)).save(tmp_path / f"{number}.png")
        sources.append(Source(f"{number}.png", str(tmp_path / f"{number}.png")))
    write_resized(tmp_path / "resized", sources, ResizeSettings(side=56, shards=3))
    computed, expected = written(tmp_path / "resized", tmp_path / "store", tmp_path / "local.h5")
    assert computed == PICTURES
    front.fault = lambda method, _path: "denied" if method == "PUT" else ""
    message = refused(written, tmp_path / "resized", address, tmp_path / "denied.h5")
    assert "may not be written" in message  # before anything is computed
    front.fault = lambda _method, _path: ""
    assert written(tmp_path / "resized", address, tmp_path / "cold.h5") == (PICTURES, expected)
    elsewhere()
    assert written(tmp_path / "resized", address, tmp_path / "warm.h5") == (0, expected)
