"""Tar shards: every kept picture has the bytes of its member, whatever else is in the tar or missing from it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus, write_tables
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.images.resized import Source, corpus_sources, write_resized
from sightword.images.settings import ResizeSettings
from sightword.places.place import Place, read
from sightword.places.tar import members

LIMIT = 1 << 20


def picture(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (20 + number, 24), (9 * number, 80, 255 - number)).save(buffer, "PNG")
    return buffer.getvalue()


def add(archive: tarfile.TarFile, name: str, data: bytes = b"", **facts: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for key, value in facts.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(data))


def write(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            add(archive, name, data)


def corpus_of(folder: Path, **settings: object) -> Corpus:
    return read_corpus(CorpusSettings(format="shards", path=str(folder), pictures=str(folder), **settings))


def bytes_of(corpus: Corpus) -> dict[str, bytes]:
    return {image.image_id: read(image.place, LIMIT) for image in corpus.images}


def dropped(corpus: Corpus) -> dict[str, str]:
    return {row.item: f"{row.reason}: {row.detail}" for row in corpus.dropped}


def test_files_of_a_key_are_a_picture_and_its_captions(tmp_path) -> None:
    write(
        tmp_path / "train-0.tar", {"a/1.png": picture(1), "a/1.txt": b"One .\n", "2.png": picture(2), "2.txt": b"Two"}
    )
    write(
        tmp_path / "val/0.tar",
        {"./3.x.txt": b"not this", "./3.png": picture(3), "./3.txt": "Three\r\nag\u2028ain\n".encode()},
    )
    corpus = corpus_of(tmp_path)
    assert {image.image_id: image.split for image in corpus.images} == {
        "train-0/2": "train",
        "train-0/a/1": "train",
        "val/0/3": "dev",
    }
    assert [caption.text for caption in corpus.captions] == ["Two", "One .", "Three\r\nag\u2028ain"]
    assert bytes_of(corpus) == {"train-0/2": picture(2), "train-0/a/1": picture(1), "val/0/3": picture(3)}


def test_captions_of_json_files(tmp_path) -> None:
    records = [{"caption": ["One", "Uno"]}, {"caption": "Two"}, {"caption": None}, {"caption": 3}]
    files = {f"{n}.json": json.dumps(one).encode() for n, one in enumerate(records)}
    write(tmp_path / "train.tar", {**{f"{n}.jpg": picture(n) for n in range(4)}, **files, "0.cls": b"1"})
    corpus = corpus_of(tmp_path, caption="json:caption")
    found = [("train/0", "One"), ("train/0", "Uno"), ("train/1", "Two")]
    assert [(c.image_id, c.text) for c in corpus.captions] == found
    assert dropped(corpus)["train/3.json"] == "damaged: caption is 3, no text or list of texts"
    assert dropped(corpus)["train/*.cls"] == "not used: 1 file"


def test_unusable_members_are_dropped_with_the_reason(tmp_path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        add(archive, "good.png", picture(0))
        add(archive, "good.txt", b"Good")
        add(archive, "/etc/absolute.png", picture(1))
        add(archive, "../up.png", picture(1))
        add(archive, "link.png", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        add(archive, "hard.png", type=tarfile.LNKTYPE, linkname="good.png")
        add(archive, "pipe.png", type=tarfile.FIFOTYPE)
        add(archive, "tab\t.png", picture(1))
        for ending in ("png", "jpg"):
            add(archive, f"two.{ending}", picture(1))
        for number in (1, 2):
            add(archive, "twice.png", picture(number))
        add(archive, "bad.png", picture(1))
        add(archive, "bad.txt", b"caf\xe9")
        add(archive, "deep/", type=tarfile.DIRTYPE)
    corpus = corpus_of(tmp_path)
    assert bytes_of(corpus) == {"s/good": picture(0)}
    found = dropped(corpus)
    assert {item: why.partition(": ")[2] for item, why in found.items() if why.startswith("damaged")} == {
        "s//etc/absolute.png": "the name leaves the folder, is too long, or has a control character",
        "s/../up.png": "the name leaves the folder, is too long, or has a control character",
        "s/link.png": "is a link",
        "s/hard.png": "is a link",
        "s/pipe.png": "is no plain file",
        "s/tab\t.png": "the name leaves the folder, is too long, or has a control character",
        "s/two": "the key has two pictures",
        "s/twice.png": "the name stands twice in the tar",
        "s/bad.txt": "'utf-8' codec can't decode byte 0xe9 in position 3: unexpected end of data",
    }


def test_cut_shard_gives_whole_pictures_and_says_so(tmp_path) -> None:
    names = {name: data for n in range(3) for name, data in ((f"{n}.png", picture(n)), (f"{n}.txt", b"Text"))}
    write(tmp_path / "whole.tar", names)
    data = (tmp_path / "whole.tar").read_bytes()
    found = members(Place(str(tmp_path / "whole.tar")), lambda _: False).files
    for cut in range(found["0.txt"].offset + 512, found["2.txt"].offset, 97):
        (tmp_path / "cut").mkdir(exist_ok=True)
        (tmp_path / "cut/s.tar").write_bytes(data[:cut])
        corpus = corpus_of(tmp_path / "cut")
        assert bytes_of(corpus) == {f"s/{n}": picture(n) for n in range(2 if cut > found["1.txt"].offset + 4 else 1)}
        assert "s.tar" in dropped(corpus), cut


def test_damaged_header_is_no_silent_end(tmp_path) -> None:
    write(tmp_path / "s.tar", {"0.png": picture(0), "0.txt": b"Zero", "1.png": picture(1), "1.txt": b"One"})
    data = bytearray((tmp_path / "s.tar").read_bytes())
    start = members(Place(str(tmp_path / "s.tar")), lambda _: False).files["1.png"].offset - 512
    data[start + 20] ^= 255
    (tmp_path / "s.tar").write_bytes(data)
    corpus = corpus_of(tmp_path)
    assert bytes_of(corpus) == {"s/0": picture(0)}
    assert dropped(corpus) == {"s.tar": f"damaged: is damaged at byte {start}: members after it are missing"}


def test_member_with_a_negative_size_ends_the_tar(tmp_path) -> None:
    archive = tarfile.TarFile(tmp_path / "s.tar", "w", format=tarfile.GNU_FORMAT)
    add(archive, "0.png", picture(0))
    start = archive.offset
    head = tarfile.TarInfo("1.png")
    head.size = -start - tarfile.BLOCKSIZE  # the next member would be the first one again
    archive.fileobj.write(head.tobuf(tarfile.GNU_FORMAT))
    archive.close()
    found = members(Place(str(tmp_path / "s.tar")), lambda _: False)
    assert list(found.files) == ["0.png"]
    assert found.damage == f"is damaged at byte {start}: members after it are missing"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("s.tar", gzip.compress(bytes(999), mtime=0), r"s.tar: is packed with gzip\. Unpack it"),
        ("s.tar", b"<html>" * 200, "s.tar: is a web page. Fetch it again"),
        ("s.tar", b"no tar" * 200, "s.tar: is no tar, or an empty file"),
        ("s.zip", b"PK", "holds no .tar"),
    ],
)
def test_file_that_is_no_shard_is_one_message(tmp_path, name, data, message) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=message):
        corpus_of(tmp_path)


def test_shards_with_and_without_splits_are_refused(tmp_path) -> None:
    for name in ("00000.tar", "val-00000.tar"):
        write(tmp_path / name, {"0.png": picture(0), "0.txt": b"Zero"})
    with pytest.raises(CorpusError, match=r"'00000\.tar' names no split, and 'val-00000\.tar' does"):
        corpus_of(tmp_path)


def test_pictures_in_one_tar_give_the_bytes_of_loose_files(tmp_path) -> None:
    """With any format: here a table, whose names are those of the members."""
    shards: dict[str, dict[str, bytes]] = {}
    for kind in ("loose", "tar"):
        folder = tmp_path / kind
        folder.mkdir()
        rows = [f"in/{n}.png,Text {n},{split}" for n, split in enumerate(["train", "dev", "test"])]
        (folder / "my.csv").write_text("\n".join(["image,caption,split", *rows]))
        pictures = {f"in/{n}.png": picture(n) for n in range(3)}
        if kind == "tar":
            write(folder / "pictures.tar", pictures)
        for name, data in pictures.items() if kind == "loose" else ():
            (folder / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "pictures" / name).write_bytes(data)
        place = str(folder / ("pictures.tar" if kind == "tar" else "pictures"))
        write_tables(folder, read_corpus(CorpusSettings(format="table", path=str(folder), pictures=place)), place)
        sources = corpus_sources(folder / "images.parquet")
        write_resized(folder / "resized", sources, ResizeSettings(side=16, shards=2))
        shards[kind] = {file.name: file.read_bytes() for file in (folder / "resized").iterdir()}
    assert shards["loose"] == shards["tar"]
    assert isinstance(sources[0], Source)
    assert sources[0].part is not None
