"""Pictures of a bucket and of a web server: the bytes of loose files whatever the server does, or one message."""

from __future__ import annotations

import io
import itertools
import tarfile
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from s3_front import first_tries

from pipeline.cli import main
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import write_tables
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError, PictureError
from sightword.images.resized import Source, corpus_sources, read_rejects, write_resized
from sightword.images.settings import ResizeSettings
from sightword.images.shards import shard_of
from sightword.places import place, requests
from sightword.places.place import read_listing

pytestmark = pytest.mark.slow
SMALL = ResizeSettings(side=16, shards=2, max_rejects=1)
COUNT = 9


def picture(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((40 + number, 40), 50).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def pictures() -> dict[str, bytes]:
    return {f"in/{number}.png": picture(number) for number in range(COUNT)}


@pytest.fixture(scope="module")
def shard(pictures) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in pictures.items():
            for member, content in ((name, data), (name.replace(".png", ".txt"), b"A text .")):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def bucket(front, s3_server, address, pictures, shard) -> str:
    """The address of a folder with the pictures, and with a shard of them."""
    place.requests_at.cache_clear()
    key = address.partition("lab/")[2]
    for name, data in pictures.items():
        s3_server.put(f"{key}/loose/{name}", data)
    s3_server.put(f"{key}/shards/train-0.tar", shard)
    yield address
    place.requests_at.cache_clear()


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "corpus").mkdir()
    rows = [f"in/{n}.png,A text .,{('train', 'dev', 'test')[n % 3]}" for n in range(COUNT)]
    (tmp_path / "corpus/my.csv").write_text("\n".join(["image,caption,split", *rows]))
    return tmp_path / "corpus"


@pytest.fixture
def loose(tmp_path, pictures) -> dict[str, bytes]:
    """The pixels that loose files give, by name."""
    sources = []
    for name, data in pictures.items():
        (tmp_path / "loose" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "loose" / name).write_bytes(data)
        sources.append(Source(name, str(tmp_path / "loose" / name)))
    write_resized(tmp_path / "of-loose", sources, SMALL)
    return contents(tmp_path / "of-loose")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def listed(addresses: list[str], folder: Path, name: str = "there.csv") -> Path:
    assert main(["fetch", *addresses, "--to", str(folder / name)]) == 0
    return folder / name


def sources_of(folder: Path, listing: Path, **settings: object) -> list[Source]:
    kind = settings or {"format": "table", "file": "my.csv"}
    corpus = read_corpus(CorpusSettings(path=str(folder), pictures=str(listing), **kind))
    write_tables(folder, corpus, str(listing))
    return corpus_sources(folder / "images.parquet")


@pytest.mark.parametrize("fault", ["cut", "hang"])
def test_objects_give_the_bytes_of_loose_files(bucket, front, folder, loose, fault, monkeypatch) -> None:
    """Each request fails once: the connection ends in the middle or at once, 503, no answer in time."""
    monkeypatch.setattr(requests, "READ_SECONDS", 0.4)
    front.fault = first_tries(fault)
    sources = sources_of(folder, listed([f"{bucket}/loose/"], folder))
    write_resized(folder / "resized", sources, SMALL)
    assert contents(folder / "resized") == loose


@pytest.fixture(params=["tar", "parquet"])
def shards(request, bucket, s3_server, pictures, shard) -> tuple[str, dict[str, object]]:
    """The address of a folder with a tar or a Parquet file, in row groups of four, and the corpus settings for it."""
    if request.param == "tar":
        return f"{bucket}/shards", {"format": "shards"}
    rows = {"image": [{"bytes": data, "path": name} for name, data in pictures.items()]}
    buffer = io.BytesIO()
    pq.write_table(pa.table(rows | {"caption": ["A text ."] * COUNT}), buffer, row_group_size=4)
    s3_server.put(f"{bucket.partition('lab/')[2]}/tables/train.parquet", buffer.getvalue())
    return f"{bucket}/tables", {"format": "table"}


def test_shard_in_a_bucket_is_copied_and_a_killed_copy_goes_on(shards, front, folder, loose, monkeypatch) -> None:
    (folder / "my.csv").unlink()
    listing = listed([shards[0]], folder)
    front.fault = first_tries("cut")
    found = sources_of(folder, listing, **shards[1])
    names = [f"{one.image_id.removeprefix('train-0/').removesuffix('.png')}.png" for one in found]
    assert names == [f"in/{number}.png" for number in range(COUNT)]
    sources = [Source(name, one.path, one.part) for name, one in zip(names, found, strict=True)]
    monkeypatch.setattr(place, "AT_ONCE", 4000)
    count = itertools.count()
    front.fault = lambda _method, _path: "denied" if next(count) >= 3 else ""
    with pytest.raises(PictureError, match="may not be read") as caught:
        write_resized(folder / "resized", sources, SMALL)
    assert "thesecretofatest" not in str(caught.value)
    assert not (folder / "resized").exists()
    assert not (folder / "resized.tmp/rows").exists()
    front.fault = lambda _method, _path: ""
    front.clear()
    write_resized(folder / "resized", sources, SMALL)
    assert contents(folder / "resized") == loose
    size = next(iter(read_listing(listing).values())).part.length
    assert front.sent == size - 2 * 4000 + 1  # the first byte tells the size
    assert not (folder / "resized.tmp").exists()


def test_resize_that_ended_early_goes_on_with_its_shards(bucket, front, folder, loose) -> None:
    """The pictures of the first shard are not asked for again; those of the other, of which an object was gone, are."""
    sources = sources_of(folder, listed([f"{bucket}/loose"], folder))
    second = [source.image_id for source in sources if shard_of(source.image_id, SMALL.shards)]
    gone = 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
    front.fault = lambda _method, path: gone if path.endswith(second[0]) else ""
    with pytest.raises(PictureError, match="1 missing"):
        write_resized(folder / "resized", sources, SMALL.model_copy(update={"max_rejects": 0}))
    front.fault = lambda _method, _path: ""
    front.clear()
    write_resized(folder / "resized", sources, SMALL)
    assert front.requests["GET png"] == len(second)
    assert contents(folder / "resized") == loose


def test_another_version_stops_the_stage(bucket, front, folder, s3_server, tmp_path) -> None:
    sources = sources_of(folder, listed([f"{bucket}/loose"], folder))
    shorter = 416, {}, b"<Error><Code>InvalidRange</Code><Message>The range is not satisfiable</Message></Error>"
    front.fault = lambda _method, path: shorter if path.endswith("4.png") else ""
    for _ in range(2):
        with pytest.raises(PictureError, match=r"/loose/in/4.png: changed since it was listed. List it again by"):
            write_resized(folder / "resized", sources, SMALL)
        front.fault = lambda _method, _path: ""
        s3_server.put(f"{tmp_path.name}/loose/in/4.png", picture(99))
    assert not (folder / "resized").exists()


def test_a_missing_object_is_a_reject(bucket, front, folder, s3_server, tmp_path) -> None:
    sources = sources_of(folder, listed([f"{bucket}/loose"], folder))
    s3_server.remove(f"{tmp_path.name}/loose/in/4.png")
    write_resized(folder / "resized", sources, SMALL)
    assert [(one.image_id, one.reason) for one in read_rejects(folder / "resized")] == [("in/4.png", "missing")]


def test_a_wrong_address_lists_nothing(bucket, front, folder, capsys) -> None:
    for address, message in (
        (f"{bucket}/nothing", "there is no object at this address"),
        ("s3://nobodys-bucket/x", "there is no bucket nobodys-bucket"),
        ("ftp://host/x", "'ftp://host/x' is no address; expected s3://BUCKET/PREFIX"),
        ("https://me:secret@host/x.tar", "'https://***@host/x.tar' is no address; expected s3://"),
        ("https://host/x.tar?key=secret", "'https://host/x.tar?***' is no address"),
        (front.endpoint + "/lab/nothing.tar", "there is no object at this address"),
    ):
        assert main(["fetch", address, "--to", str(folder / "no.csv")]) == 1
        assert message in capsys.readouterr().err
    assert not (folder / "no.csv").exists()


@pytest.mark.parametrize(
    ("status", "code", "cause"),
    [
        (403, "RequestTimeTooSkewed", "the clock of this machine is wrong"),
        (400, "ExpiredToken", "the credentials have expired"),
        (
            400,
            "AuthorizationHeaderMalformed",
            "the bucket is in another region (AuthorizationHeaderMalformed: not us-east-1). Set",
        ),
        (301, "PermanentRedirect", "the bucket is in another region"),
        (200, "c/../d.jpg", "the key of an object cannot be used"),
        (200, " a.jpg", "the key begins or ends with a blank"),
    ],
)
def test_refusal_names_its_cause(front, folder, capsys, status, code, cause) -> None:
    text = f"<Error><Code>{code}</Code><Message>not us-east-1</Message></Error>"
    if status == 200:
        facts = "<Size>1</Size><ETag>a</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        text = f"<ListBucketResult><Contents><Key>in/{code}</Key>{facts}</Contents></ListBucketResult>"
    front.fault = lambda _method, _path: (status, {}, text.encode())
    assert main(["fetch", "s3://lab/in", "--to", str(folder / "no.csv")]) == 1
    assert cause in capsys.readouterr().err


def test_files_of_a_web_server_give_the_bytes_of_loose_files(bucket, s3_server, front, folder, loose, tmp_path) -> None:
    client = boto3.client("s3", endpoint_url=s3_server.endpoint)
    for number in range(COUNT):
        client.put_object_acl(Bucket="lab", Key=f"{tmp_path.name}/loose/in/{number}.png", ACL="public-read")
    listing = listed([f"{front.endpoint}/lab/{tmp_path.name}/loose/in/{{0..{COUNT - 1}}}.png"], folder)
    (folder / "my.csv").write_text((folder / "my.csv").read_text().replace("in/", ""))
    front.fault = first_tries("slow")
    sources = [Source(f"in/{s.image_id}", s.path, s.part) for s in sources_of(folder, listing)]
    write_resized(folder / "resized", sources, SMALL)
    assert contents(folder / "resized") == loose


def test_a_damaged_listing_is_one_message(tmp_path) -> None:
    for row, message in (
        ("a.png,/etc/passwd,3,", "is no address"),
        ("a.png,s3://b/a.png,many,", "size is"),
        ("a.png,s3://b/a.png,3,\na.png,s3://b/b.png,3,", "stands twice"),
    ):
        (tmp_path / "l.csv").write_text(f"name,address,size,version\n{row}\n")
        with pytest.raises(CorpusError, match=message):
            read_listing(tmp_path / "l.csv")
