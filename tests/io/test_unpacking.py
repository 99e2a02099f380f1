"""Nothing an archive says makes a file outside the folder, a link, or more bytes than it can account for."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from sightword.errors import DownloadError
from sightword.io import transfer
from sightword.io.transfer import unpack

MAKERS = ["zip", "tar", "tar.gz"]
ALL = {"a/**": "kept"}


def archive(kind: str, entries: list[tuple[str, bytes | dict]], path: Path) -> Path:
    """An archive with each entry as it is said, however wicked; a dict holds what tarfile's or zipfile's entry is."""
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that is there twice
            for name, content in entries:
                info = zipfile.ZipInfo("x")
                info.filename = info.orig_filename = name
                info.compress_type = zipfile.ZIP_DEFLATED
                body = content if isinstance(content, bytes) else content.get("link", "").encode()
                mode = 0 if isinstance(content, bytes) else content["mode"]
                info.external_attr = mode << 16
                opened.writestr(info, body)
        return path
    with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as opened:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            body = content if isinstance(content, bytes) else b""
            entry.size = len(body)
            if isinstance(content, dict):
                entry.type, entry.linkname = content["type"], content.get("link", "")
            opened.addfile(entry, io.BytesIO(body))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "outer" / "into"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("kind", MAKERS)
def test_only_what_is_wanted_is_kept_where_it_is_wanted(tmp_path, into, kind):
    entries = [
        ("./a/deep/x.txt", b"1"),
        ("a/y.txt", b"2" * 3_000_000),
        ("pictures/p.jpg", b"3"),
        ("__MACOSX/pictures/._p.jpg", b"no"),
        ("pictures/sub/q.jpg", b"no"),
        ("pictures/readme.txt", b"no"),
        ("top.json", b"4"),
        ("ab/no", b"no"),
    ]
    wanted = {"a/**": "kept", "pictures/*.jpg": "images/train", "top.json": "."}
    assert unpack(archive(kind, entries, tmp_path / "a"), into, wanted) == 4
    assert files(into) == {
        "kept/deep/x.txt": b"1",
        "kept/y.txt": b"2" * 3_000_000,
        "images/train/p.jpg": b"3",
        "top.json": b"4",
    }


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("name", ["a/../../evil", "/tmp/evil", "a\\..\\..\\evil", "C:\\evil", "a/x\ny"])
def test_name_outside_the_folder_condemns_the_archive(tmp_path, into, kind, name):
    with pytest.raises(DownloadError, match=r"would leave|absolute|control character"):
        unpack(archive(kind, [("a/good", b"1"), (name, b"evil")], tmp_path / "a"), into, {"other": "."})
    assert {path.name for path in tmp_path.rglob("*")} <= {"a", "outer", "into"}


def link(kind: str, target: str, *, hard: bool = False) -> dict:
    if kind == "zip":
        return {"mode": stat.S_IFLNK | 0o777, "link": target}
    return {"type": tarfile.LNKTYPE if hard else tarfile.SYMTYPE, "link": target}


@pytest.mark.parametrize(("kind", "hard"), [("zip", False), ("tar", False), ("tar", True)])
@pytest.mark.parametrize("target", ["/etc/passwd", "..\\..\\x", "b/../../../x"])
def test_link_out_of_the_folder_condemns_the_archive(tmp_path, into, kind, target, hard):
    entries = [("unwanted/link", link(kind, target, hard=hard)), ("a/link/x", b"through the link")]
    with pytest.raises(DownloadError, match="link that leaves the folder"):
        unpack(archive(kind, entries, tmp_path / "a"), into, ALL)
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(("tar_type", "mode"), [(tarfile.FIFOTYPE, stat.S_IFIFO), (tarfile.BLKTYPE, stat.S_IFBLK)])
def test_device_condemns_the_archive(tmp_path, into, kind, tar_type, mode):
    with pytest.raises(DownloadError, match="device or a pipe"):
        unpack(archive(kind, [("unwanted", {"type": tar_type, "mode": mode | 0o644})], tmp_path / "a"), into, ALL)


@pytest.mark.parametrize("names", [("a/x", "./a/x"), ("p/x", "q/x")])
def test_two_members_for_one_place_condemn_the_archive(tmp_path, into, names):
    with pytest.raises(DownloadError, match="is there twice"):
        unpack(archive("zip", [(name, b"1") for name in names], tmp_path / "a"), into, ALL | {"p/*": "k", "q/*": "k"})


def test_wanted_link_condemns_the_archive(tmp_path, into):
    with pytest.raises(DownloadError, match="is a link, to"):
        unpack(archive("tar", [("a/l", link("tar", "x"))], tmp_path / "b"), into, ALL)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("name", ["a/zeros", "unwanted"])
def test_a_bomb_is_stopped_at_its_limit(tmp_path, into, kind, name, monkeypatch):
    monkeypatch.setattr(transfer, "ALLOWANCE", 1_000_000)
    path = archive(kind, [(name, bytes(60_000_000))], tmp_path / "a")
    assert path.stat().st_size < 100_000
    if kind == "zip" and name == "unwanted":
        assert unpack(path, into, ALL) == 0  # never unpacked
        return
    with pytest.raises(DownloadError, match="unpacks to"):
        unpack(path, into, ALL)
    assert sum(map(len, files(into).values())) < 12_000_000


def test_a_bomb_of_many_files(tmp_path, into, monkeypatch):
    monkeypatch.setattr(transfer, "MOST_MEMBERS", 50)
    with pytest.raises(DownloadError, match="more than 50 members"):
        unpack(archive("zip", [(f"u/{number}", b"") for number in range(51)], tmp_path / "a"), into, ALL)


def test_a_bomb_in_a_header(tmp_path, into):
    """tarfile reads extended headers into memory as long as they say they are."""
    entry = tarfile.TarInfo("a/x")
    entry.pax_headers = {"comment": "0" * 60_000_000}
    with gzip.open(tmp_path / "a", "wb", compresslevel=9) as out:
        out.write(entry.tobuf(tarfile.PAX_FORMAT))
    with pytest.raises(DownloadError, match="unpacks to more"):
        unpack(tmp_path / "a", into, ALL)


def test_a_zip_that_lies_about_its_sizes(tmp_path, into):
    path = archive("zip", [("a/zeros", bytes(1_000_000))], tmp_path / "a")
    raw = path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(raw)
    with pytest.raises(DownloadError, match="not a whole archive"):
        unpack(path, into, ALL)
    assert sum(map(len, files(into).values())) <= 10


def test_an_archive_that_is_larger_than_the_disk(tmp_path, into, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=500))
    with pytest.raises(DownloadError, match="1,000 bytes are to come, and the disk has room for 500"):
        unpack(archive("zip", [("a/x", bytes(1000))], tmp_path / "a"), into, ALL)


@pytest.mark.parametrize("content", [b"", b"PK", b"<html>no</html>", b"\x1f\x8b", gzip.compress(b"no tar", mtime=0)])
def test_other_file_is_no_archive(tmp_path, into, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DownloadError, match="not a whole archive"):
        unpack(tmp_path / "a", into, ALL)
