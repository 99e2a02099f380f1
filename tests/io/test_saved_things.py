"""No saved thing is read with a changed byte or a changed value, and each file that is written is a saved thing or is
known not to be one.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import random
import shutil

import pytest
from saved_things import THINGS, plain
from sums import renew

from sightword.errors import SightwordError

UNREAD = ("modules.json",)
"""Files for other programs."""
WRITERS = {
    *("write_json", "write_table", "write_groups", "write_tensors", "write_summed", "created", "seal"),
    *("write_new", "write_open", "write_bytes", "ParquetWriter", "write_pairs", "write_captions"),
}
HOMES = "of the functions that write"
NUMBERS = "numbers and curves, which git has or DVC draws"
TABLES = "tables by write_table: test_files.py"
ADDRESSED = "named by the sha256 of its bytes: tests/storage"
KNOWN = {
    **dict.fromkeys(("sightword/io/files.py", "sightword/io/group_files.py", "sightword/io/hdf5.py"), HOMES),
    **dict.fromkeys(("sightword/io/saved.py", "sightword/model/saved.py"), HOMES),
    "sightword/captions/table.py": "captions",
    "sightword/captions/vocabulary.py": "captions",
    "sightword/corpus/records.py": "corpus",
    "sightword/encoder/folder.py": "encoder: sum",
    "sightword/entailment/data/pairs.py": "sentence pairs",
    "sightword/evaluation/semantics/results.py": "scored pairs",
    "sightword/features/tables/table.py": "features",
    "sightword/grounded/skipthought/network.py": "ordered text network",
    "sightword/hypernyms/data/pairs.py": "taxonomy",
    "sightword/hypernyms/training/concepts.py": "concepts",
    "sightword/images/resized.py": "resized pictures",
    "sightword/images/shards.py": "resized pictures",
    "sightword/text/building.py": "ordered text",
    "sightword/text/storage.py": "ordered text",
    "sightword/training/checkpoint.py": "checkpoint",
    "sightword/vse/training/snapshots.py": "snapshots",
    "stages/captions.py": "captions",
    "stages/entailment/train.py": "entailment",
    "stages/grounded/evaluate.py": "judged",
    "stages/train.py": "snapshots",
    "sightword/search/picture_files.py": "the sums of a folder's pictures: tests/search",
    "sightword/storage/store.py": ADDRESSED,
    **dict.fromkeys(("sightword/training/engine.py", "sightword/vse/training/task.py"), NUMBERS),
    **dict.fromkeys((f"stages/{name}.py" for name in ("report", "select")), NUMBERS),
    **dict.fromkeys((f"stages/grounded/{name}.py" for name in ("report", "skipthought", "text", "train")), NUMBERS),
    **dict.fromkeys((f"stages/hypernyms/{name}.py" for name in ("taxonomy", "train")), NUMBERS),
    "stages/entailment/pairs.py": NUMBERS,
    "sightword/report/binary.py": TABLES,
    **dict.fromkeys((f"stages/{name}.py" for name in ("retrieval", "semantics")), TABLES),
}
"""For each module that writes files: the thing that the tests below change, or the reason why there is none."""


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


def files_of(place):
    names = [path.relative_to(place).as_posix() for path in sorted(place.rglob("*")) if path.is_file()]
    return [name for name in names if name.rpartition("/")[2] not in UNREAD]


def edits(document):
    """Yield a JSON value with one leaf changed, one key removed or one list shortened."""

    def at(place, key):
        value = place[key]
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        other = value[:-1] if isinstance(value, list) else {**value, "more": 1} if isinstance(value, dict) else None
        if isinstance(value, bool | int | float | str):
            other = not value if isinstance(value, bool) else value + ("x" if isinstance(value, str) else 1)
        place[key] = "given" if value is None else other
        if place[key] != value:
            yield copy.deepcopy(whole)
        place[key] = value
        if isinstance(place, dict):
            del place[key]
            yield copy.deepcopy(whole)
            place[key] = value
        for name in [name for name, _ in inner]:
            yield from at(value, name)

    whole = [copy.deepcopy(document)]
    for one in at(whole, 0):
        yield one[0]


def test_no_changed_value_of_a_saved_thing_is_read(thing, changed):
    place, _, _ = thing
    with_bytes, _ = changed
    for name in (name for name in files_of(place) if name.endswith(".json")):
        every = list(edits(json.loads((place / name).read_text())))
        for document in random.Random(0).sample(every, min(40, len(every))):
            with pytest.raises(SightwordError) as stopped:
                with_bytes(name, json.dumps(document).encode())
            assert name.rpartition("/")[2] in str(stopped.value), (name, document)
            assert len(str(stopped.value)) < 1000


def test_no_flipped_bit_of_a_saved_thing_gives_another(thing, changed):
    place, _, _ = thing
    (with_bytes, expected), draw = changed, random.Random(0)
    for name in files_of(place):
        whole = (place / name).read_bytes()
        for bit in draw.sample(range(8 * len(whole)), 24):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            try:
                found = with_bytes(name, bytes(data))
            except SightwordError as error:
                if not name.endswith("SHA256SUMS"):  # the message then names the file that the sums no longer fit
                    assert name.rpartition("/")[2] in str(error)  # noqa: PT017 - both outcomes are right
            else:
                assert found == expected, (name, bit)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
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


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "a/" * 5000 + "b", "a\0b", "../other", "/etc/passwd", "a/../../b", ".", "a//b", "\x1b[2J"]
)
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


def test_a_damaged_half_done_run_starts_afresh_with_its_reason(tmp_path, caplog):
    write, read, _ = THINGS["checkpoint"]
    write(tmp_path / "run")
    [state] = (tmp_path / "run").iterdir()
    data = state.read_bytes()
    for edited in (data.replace(b'\\"steps\\": 3', b'\\"steps\\": 9'), data.replace(b"60.0", b"90.0"), data[:-1]):
        assert edited != data
        state.parent.mkdir(exist_ok=True)
        state.write_bytes(edited)
        with contextlib.suppress(SightwordError):
            raise AssertionError(read(state.parent))
        assert "is not the file that was saved: its sha256 is not its name's" in caplog.text
        caplog.clear()


def test_each_module_that_writes_files_is_known(repository):
    found = set()
    for path in [*(repository / "sightword").rglob("*.py"), *(repository / "stages").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            of_format = name == "write" and getattr(getattr(called, "value", None), "id", "").isupper()
            sealing = name == "seal" and path.name in ("reading.py", "corpus.py")  # pictures that are held out
            if (name in WRITERS and not sealing) or of_format:
                found.add(path.relative_to(repository).as_posix())
    assert found == KNOWN.keys()
    reasons = {HOMES, NUMBERS, TABLES, ADDRESSED, KNOWN["sightword/search/picture_files.py"]}
    assert {*KNOWN.values()} - reasons <= THINGS.keys()
