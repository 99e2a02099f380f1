"""The format of saved folders, in everything that is saved: encoders, concepts, the networks of ordered text."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import subprocess

import pytest
from encoder_kinds import KINDS
from saved_things import THINGS, plain
from sums import renew

from sightword.errors import EncoderError, SightwordError

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
        assert f"`sha256sum {' '.join(folder.files)} > SHA256SUMS`".replace("'", "") in message.replace("'", "")
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
    sums.write_text(whole.replace(whole[:64], "x" * 2000))
    assert "is not the file that was saved" in folder.refusal()
    sums.write_bytes(b"\xff")
    assert "SHA256SUMS: is not UTF-8 text (byte 0)" in folder.refusal()
    sums.unlink()
    assert "SHA256SUMS: does not exist" in folder.refusal()
    os.mkfifo(sums)
    assert "a pipe or a device" in folder.refusal()


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (99, "has the format 99, from a newer Sightword; expected {own}. Update Sightword."),
        (0, "has the format 0; expected {own}. "),
        *((value, f"has the format {value!r}; expected {{own}}. ") for value in (None, "4", True, 4.0, [4])),
        ("x" * 999, f"has the format '{'x' * 75} ...; expected {{own}}"),
    ],
)
def test_a_folder_of_another_version_is_refused(folder, schema, told):
    own = json.loads((folder.place / folder.description).read_text())["schema"]
    folder.change(schema=schema)
    assert told.format(own=own) in folder.refusal()
    if own > 1:
        folder.change(schema=1)
        assert "from an earlier Sightword; " in folder.refusal()


@pytest.mark.parametrize("text", ["", "{", "[1]", '"encoder"', '{"schema": 4, "schema": 4}', '{"schema": NaN}'])
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


def flipped(folder, count):
    """With bits of its files flipped, a folder is refused or loads as the same."""
    expected, draw = plain(folder.load(folder.place)), random.Random(0)
    for name in [*folder.files, "SHA256SUMS"]:
        path = folder.place / name
        whole = path.read_bytes()
        for bit in draw.sample(range(8 * len(whole)), min(count, 8 * len(whole))):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with contextlib.suppress(EncoderError):
                assert plain(folder.load(folder.place)) == expected, (name, bit)
        path.write_bytes(whole)


@pytest.mark.parametrize("count", [5, pytest.param(300, marks=pytest.mark.full)])
def test_a_flipped_bit_never_gives_something_else(folder, count):
    flipped(folder, count)


def damaged(folder, draw):
    """Replace an entry somewhere in the description by a value of any kind; the sums belong to the change."""
    path = folder.place / folder.description
    about = json.loads(path.read_text())
    place, key = about, draw.choice(sorted(about))
    while isinstance(place[key], dict | list) and place[key] and draw.random() < 0.8:
        place = place[key]
        key = draw.choice(sorted(place)) if isinstance(place, dict) else draw.randrange(len(place))
    place[key] = draw.choice([None, True, 0, -1, 10**40, 2**31, 0.5, "", "x" * 999, "../x", [], [[]], {}, {"a": 1}])
    path.write_text(json.dumps(about))
    renew(folder.place)


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.full)])
def test_any_other_entry_loads_or_is_one_short_message(folder, count):
    whole, draw = (folder.place / folder.description).read_bytes(), random.Random(1)
    for _ in range(count):
        (folder.place / folder.description).write_bytes(whole)
        damaged(folder, draw)
        try:
            folder.load(folder.place)
        except SightwordError as error:
            assert len(str(error)) < 1000  # noqa: PT017 - both outcomes are right


def test_a_folder_that_is_no_path_is_refused(folder):
    for wrong, told in (
        (5, "the folder is int; expected the path of a folder"),
        (None, "the folder is NoneType"),
        (b"models", "the folder is bytes"),
        ("a\0b", r"the folder is 'a\\x00b'; expected the path of a folder"),
        ("\ud83d", r"the folder is '\\ud83d'"),
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
