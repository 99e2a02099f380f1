"""Nothing an archive says makes a file outside the folder, or a link."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import stat
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest

from sightword.errors import DownloadError
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
@pytest.mark.parametrize("name", ["a/../../evil", "/tmp/evil", "a\\..\\..\\evil", "C:\\evil", "a/../x"])
def test_name_outside_the_folder_is_no_wanted_one(tmp_path, into, kind, name):
    assert unpack(archive(kind, [("a/good", b"1"), (name, b"evil")], tmp_path / "a"), into, ALL) == 1
    assert files(into) == {"kept/good": b"1"}
    assert {path.name for path in tmp_path.rglob("*")} == {"a", "outer", "into", "kept", "good"}


def link(kind: str, target: str, *, hard: bool = False) -> dict:
    if kind == "zip":
        return {"mode": stat.S_IFLNK | 0o777, "link": target}
    return {"type": tarfile.LNKTYPE if hard else tarfile.SYMTYPE, "link": target}


@pytest.mark.parametrize(("kind", "hard"), [("zip", False), ("tar", False), ("tar", True)])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "b"])
def test_link_is_never_made_nor_followed_outside(tmp_path, into, kind, target, hard):
    (tmp_path / "x").write_bytes(b"private")
    entries = [("a/link", link(kind, target, hard=hard)), ("a/link/x", b"through the link")]
    with pytest.raises(DownloadError, match=r"not a whole archive|stands twice|is a link"):
        unpack(archive(kind, entries, tmp_path / "a"), into, ALL)
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))
    assert b"private" not in files(into).values()


def test_link_of_a_zip_is_refused(tmp_path, into):
    path = archive("zip", [("a/link", link("zip", "/etc/passwd"))], tmp_path / "z")
    with pytest.raises(DownloadError, match="z, member 'a/link': is a link"):
        unpack(path, into, ALL)
    assert files(into) == {}


def test_backslashes_of_a_zip_are_folders(tmp_path, into):
    path = archive("zip", [("a\\deep\\", b""), ("a\\deep\\x.txt", b"1")], tmp_path / "z")
    assert unpack(path, into, ALL) == 1
    assert files(into) == {"kept/deep/x.txt": b"1"}


def test_file_and_folder_of_one_name_are_refused(tmp_path, into):
    path = archive("tar", [("a/x", b"1"), ("a/x/y", b"2")], tmp_path / "t")
    with pytest.raises(DownloadError, match="member 'a/x/y': stands twice, or is a file and a folder"):
        unpack(path, into, ALL)


def test_damage_in_bz2_is_the_archives(tmp_path, into):
    raw = archive("tar", [("a/x", os.urandom(3_000_000))], tmp_path / "t").read_bytes()
    packed = bytearray(bz2.compress(raw))
    packed[-1_000_000:-999_000] = bytes(1_000)
    (tmp_path / "t").write_bytes(packed)
    with pytest.raises(DownloadError, match="/t: is not a whole archive"):
        unpack(tmp_path / "t", into, ALL)


def test_missing_archive_is_named(tmp_path, into):
    with pytest.raises(DownloadError, match="gone: does not exist"):
        unpack(tmp_path / "gone", into, ALL)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("a/pipe", {"type": tarfile.FIFOTYPE}), "member 'a/pipe': is a link, a device or a sparse file"),
        (("a/soft", link("tar", "x")), "member 'a/soft': is a link"),
        (("a/hard", link("tar", "a/x", hard=True)), "member 'a/hard': is a link"),
        (("a/x\ny", b""), r"member 'a/x\\ny': .* has no plain name"),
        (("./a/x", b"2"), "member './a/x': stands twice"),
    ],
)
def test_wanted_member_that_is_no_plain_file_is_refused(tmp_path, into, entry, message):
    with pytest.raises(DownloadError, match=message):
        unpack(archive("tar", [("a/x", b"1"), entry], tmp_path / "b"), into, ALL)


def test_a_zip_that_lies_about_its_sizes(tmp_path, into):
    path = archive("zip", [("a/zeros", bytes(1_000_000))], tmp_path / "a")
    raw = path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(raw)
    with pytest.raises(DownloadError, match="not a whole archive"):
        unpack(path, into, ALL)
    assert sum(map(len, files(into).values())) <= 10


@pytest.mark.parametrize("content", [b"", b"PK", b"<html>no</html>", b"\x1f\x8b", gzip.compress(b"no tar", mtime=0)])
def test_other_file_is_no_archive(tmp_path, into, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DownloadError, match="not a whole archive"):
        unpack(tmp_path / "a", into, ALL)
