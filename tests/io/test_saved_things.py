"""Saved things and folders: no changed byte or value is read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from encoder_kinds import KINDS
from saved_things import THINGS, plain
from sums import renew

from sightword.errors import EncoderError, SightwordError
from sightword.messages import quote


@pytest.fixture(params=THINGS, scope="module")
def thing(request, tmp_path_factory):
    write, read, description = THINGS[request.param]
    place = tmp_path_factory.mktemp("whole") / "thing"
    write(place)
    return place, read, description


@pytest.fixture
def changed(thing, tmp_path):
    """Return a function that reads a copy of the thing in which a file has other bytes, and what a whole one gives."""
    place, read, _ = thing

    def with_bytes(name, data, *, sums=False):
        folder = tmp_path / "copy"
        for path in (folder, folder.with_name("copy.damaged")):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(place, folder)
        (folder / name).write_bytes(data)
        if sums:
            renew((folder / name).parent)
        return plain(read(folder))

    return with_bytes, plain(read(place))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused_with_its_sums(thing, changed, value):
    place, _, description = thing
    if description is None:
        return
    document, numbers = json.loads((place / description).read_text()), 0

    def spoilt(within, key):
        """Read the thing with each number below an entry replaced; the sums fit."""
        nonlocal numbers
        one = within[key]
        if isinstance(one, dict | list):
            for inner in one if isinstance(one, dict) else range(len(one)):
                spoilt(one, inner)
        elif type(one) in (int, float) and key != "schema" and numbers < 30:
            numbers += 1
            within[key] = value
            with pytest.raises(SightwordError, match=f"{description}: is damaged .*{key} is .*finite"):
                changed[0](description, json.dumps(document).encode(), sums=True)
            within[key] = one

    for key in document:
        spoilt(document, key)
    assert numbers


@pytest.mark.parametrize("name", ["x" * 10_000, "a\0b", "../other", "/etc/passwd"])
def test_an_odd_name_in_the_sums_is_one_message(thing, changed, name):
    place, _, description = thing
    if description is None:
        return
    sums = f"{description.rpartition('/')[0]}/SHA256SUMS".lstrip("/")
    line = f"{'0' * 64}  {name}\n"
    for text in (line + (place / sums).read_text(), (place / sums).read_text() + line):
        with pytest.raises(SightwordError, match=r"SHA256SUMS: lists .*; expected files of the folder") as stopped:
            changed[0](sums, text.encode())
        assert len(str(stopped.value)) < 600


KINDS_OF_FOLDERS = ("encoder", "concepts", "ordered text network", "snapshots", "entailment")
SAVED = {name: thing for name, thing in THINGS.items() if name.partition(":")[0] in KINDS_OF_FOLDERS}


class Folder:
    """A saved folder, what loads it, and the name of its description."""

    def __init__(self, place, save, load, description):
        self.place, self.load, self.description = place, load, description
        save(place)

    @property
    def files(self):
        listed = (self.place / "SHA256SUMS").read_text().splitlines()
        return sorted(line.split("  ")[1] for line in listed)

    def refusal(self):
        with pytest.raises(EncoderError) as stopped:
            self.load(self.place)
        assert len(str(stopped.value)) < 1000
        return str(stopped.value)

    def change(self, **entries):
        path = self.place / self.description
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))
        renew(self.place)


@pytest.fixture(params=SAVED)
def folder(request, tmp_path):
    return Folder(tmp_path / "saved", *SAVED[request.param])


def test_every_file_is_listed_as_the_usual_program_does(folder):
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder.place, check=True)
    present = {path.relative_to(folder.place).as_posix() for path in folder.place.rglob("*") if path.is_file()}
    assert folder.description in folder.files
    within = {name for name in present if name.startswith("encoder/") and not name.endswith("SHA256SUMS")}
    assert present - within == {*folder.files, "SHA256SUMS"} | present & {"modules.json"}


def test_a_missing_or_changed_file_is_named(folder):
    for name in folder.files:
        path = folder.place / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
        message = folder.refusal()
        assert f"{path}: is not the file that was saved" in message or "encoder/" in name
        path.unlink()
        message = folder.refusal()
        assert name.rpartition("/")[2] in message or name == folder.description
        assert "is missing" in message
        path.write_bytes(whole)
    folder.load(folder.place)


def test_sums_that_lack_a_file_or_are_no_text_are_refused(folder):
    sums = folder.place / "SHA256SUMS"
    whole = sums.read_text()
    for name in folder.files:
        sums.write_text("".join(line for line in whole.splitlines(keepends=True) if not line.endswith(f"  {name}\n")))
        assert f"SHA256SUMS: does not list '{name}'" in folder.refusal()
    sums.write_text(f"{whole}{'0' * 64}  ../../other\n")
    assert "SHA256SUMS: lists '../../other'; expected files of the folder" in folder.refusal()
    sums.write_bytes(b"\xff")
    assert "SHA256SUMS: is not UTF-8 text (byte 0)" in folder.refusal()
    sums.unlink()
    assert "SHA256SUMS: does not exist" in folder.refusal()
    os.mkfifo(sums)
    assert "a pipe or a device" in folder.refusal()


@pytest.mark.parametrize("schema", [99, None, True, "x" * 999])
def test_a_folder_of_another_version_is_refused(folder, schema):
    own = json.loads((folder.place / folder.description).read_text())["schema"]
    folder.change(schema=schema)
    assert f"{quote(schema)}; expected {own}, of this Sightword" in folder.refusal()


@pytest.mark.parametrize("text", ["", "[1]", '{"schema": 4, "schema": 4}', '{"schema": NaN}'])
def test_a_description_that_is_none_is_refused(folder, text):
    (folder.place / folder.description).write_text(text)
    assert f"{folder.description}: is not the file that was saved" in folder.refusal()
    renew(folder.place)
    assert folder.description in folder.refusal()


def test_an_entry_that_lacks_or_has_another_type_is_one_message(folder):
    path = folder.place / folder.description
    whole = json.loads(path.read_text())
    for name in whole.keys() - {"schema", "result", "default", "dev"}:
        for value in (None, "x" * 999, -5, [7], {"x": [1] * 999}, True):
            if type(value) is type(whole[name]) or (type(value), type(whole[name])) == (int, float):
                continue
            folder.change(**{**whole, name: value})
            with contextlib.suppress(EncoderError):
                folder.load(folder.place)
                raise AssertionError((name, value))
        path.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        renew(folder.place)
        assert f"{path}: is damaged (it has no {name})" in folder.refusal()


def test_a_folder_that_is_no_path_is_refused(folder):
    for wrong, told in (
        (5, "the folder is int; expected the path of a folder"),
        ("a\0b", r"the folder is 'a\\x00b'; expected the path of a folder"),
        ("\ud83d", r"the folder is '\\ud83d'"),
        ("x" * 5000, r"the folder is 'x+ \.\.\.; expected"),
    ):
        with pytest.raises(EncoderError, match=told):
            folder.load(wrong)


def test_files_of_an_earlier_encoder_are_deleted_and_those_of_others_kept(tmp_path):
    KINDS["join of sums"]().save(tmp_path / "e")
    (tmp_path / "e/notes.txt").write_text("a person's own")
    KINDS["one part"]().save(tmp_path / "e")
    names = {path.name for path in (tmp_path / "e").iterdir()}
    assert names == {
        *("SHA256SUMS", "encoder.json", "modules.json", "notes.txt", "part-1.safetensors", "vocabulary.json")
    }
    digest = hashlib.sha256((tmp_path / "e/vocabulary.json").read_bytes()).hexdigest()
    assert f"{digest}  vocabulary.json\n" in (tmp_path / "e/SHA256SUMS").read_text()
