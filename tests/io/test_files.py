"""Files appear whole or not at all, with the same bytes for the same content."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import change
from hypothesis import given
from hypothesis import strategies as st
from odd_files import silent_pipe

from sightword.errors import CorpusError, FileFormatError
from sightword.io import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class Stop(Exception):  # noqa: N818 - stands for a kill, not an error of ours
    pass


def test_a_file_replaces_the_earlier_one_only_when_the_block_succeeds(tmp_path):
    path = tmp_path / "a" / "x.txt"
    files.write_text(path, "one")
    with pytest.raises(Stop), files.atomic_file(path) as temporary:
        temporary.write_text("half")
        raise Stop
    assert path.read_text() == "one"
    files.write_text(path, "two")
    assert path.read_text() == "two"
    assert names(path.parent) == ["x.txt"]


def test_a_folder_replaces_the_earlier_one_whole(tmp_path):
    final = tmp_path / "out"
    with files.atomic_folder(final) as folder:
        (folder / "old").write_text("1")
    with pytest.raises(Stop), files.atomic_folder(final) as folder:
        (folder / "half").write_text("2")
        raise Stop
    assert names(final) == ["old"]
    with files.atomic_folder(final) as folder:
        (folder / "new").write_text("3")
    assert names(final) == ["new"]
    assert names(tmp_path) == ["out"]


def test_left_temporary_folder_goes_after_two_days(tmp_path):
    for age, name in enumerate(["now", "yesterday", "before", "busy"]):
        left = tmp_path / f".out.{age:012x}.tmp"
        left.mkdir()
        (left / "x").write_text(name)
        (left / "link").symlink_to("gone")
        for path in (left / "x", left / "link", left)[name == "busy" :]:
            os.utime(path, (time.time() - age * 87_000,) * 2, follow_symlinks=False)
    with files.atomic_folder(tmp_path / "out") as folder:
        (folder / "x").write_text("whole")
    assert sorted(path.read_text() for path in tmp_path.glob("*/x")) == ["busy", "now", "whole", "yesterday"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_earlier_one(tmp_path, monkeypatch):
    final = tmp_path / "out"
    with files.atomic_folder(final) as folder:
        (folder / "old").write_text("1")
    replace, calls = os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="No space"), files.atomic_folder(final) as folder:
        (folder / "new").write_text("2")
    assert names(final) == ["old"]
    assert names(tmp_path) == ["out"]


def test_two_writers_of_a_folder_at_once_both_end_well(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "sync", lambda path: None)  # thousands of runs meet at last

    def write(name):
        for _ in range(400):
            with files.atomic_folder(tmp_path / "out") as folder:
                (folder / name).touch()

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(write, name) for name in "abcd"]:
            done.result()
    assert len(names(tmp_path / "out")) == 1
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_full_disk_error_names_the_final_file(tmp_path, code):
    def full(*_):
        raise OSError(code, os.strerror(code))

    with pytest.raises(OSError) as told, files.atomic_file(tmp_path / "a") as temporary:
        full(temporary)
    assert (told.value.errno, told.value.filename) == (code, str(tmp_path / "a"))
    with (
        pytest.raises(OSError) as told,
        files.atomic_folder(tmp_path / "out") as folder,
        files.atomic_file(folder / "b/c"),
    ):
        full()
    assert (told.value.errno, told.value.filename) == (code, str(tmp_path / "out/b/c"))

    assert names(tmp_path) == []


def test_written_file_has_permissions_of_plain_files(tmp_path):
    (tmp_path / "plain").write_text("")
    (tmp_path / "folder").mkdir()
    files.write_text(tmp_path / "ours", "")
    with files.atomic_folder(tmp_path / "our_folder"):
        pass

    def mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    assert mode("ours") == mode("plain")
    assert mode("our_folder") == mode("folder")


def test_json_that_is_cut_off_empty_or_missing_is_named_with_its_place(tmp_path):
    whole = json.dumps({"images": list(range(9))}, indent=1)
    (tmp_path / "cut.json").write_text(whole[:20])
    with pytest.raises(FileFormatError, match=r"cut.json, line 4, column \d+: is not valid JSON"):
        files.read_json(tmp_path / "cut.json")
    (tmp_path / "empty.json").write_text(" ")
    with pytest.raises(FileFormatError, match="is empty"):
        files.read_json(tmp_path / "empty.json")
    with pytest.raises(FileFormatError, match=r"none\.json: does not exist\. Make it"):
        files.read_json(tmp_path / "none.json", todo="Make it.")
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(FileFormatError, match=r"not UTF-8 text \(byte 7\)"):
        files.read_json(tmp_path / "latin.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match=r"deep\.json: is nested too deeply"):
        files.read_json(tmp_path / "deep.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "nan.json", {"a": float("nan")})
    assert not (tmp_path / "nan.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'["\ud83d\ude00", "\\ud83d", "\n\uDE00"]', "has half a character"),
        (r'{"\ud83d": 1}', "has half a character"),
        ('{"a":\n1' + "0" * 4300 + "}", "has a number too long; expected up to 4300 digits"),
    ],
)
def test_json_that_no_table_can_take_is_refused(tmp_path, text, message):
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(FileFormatError, match=f"odd.json: {message}"):
        files.read_json(tmp_path / "odd.json")
    (tmp_path / "odd.json").write_text(r'["\ud83d\ude00", "\\ud83d"]')
    assert files.read_json(tmp_path / "odd.json") == ["\U0001f600", r"\ud83d"]


def test_parquet_doubled_column_or_other_encoding_is_named_with_place(tmp_path):
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], ["id", "text", "id"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    assert files.read_table(tmp_path / "twice.parquet", ["text"], foreign=True).to_pylist() == [{"text": "b"}]
    with pytest.raises(
        FileFormatError, match=r"twice\.parquet: has two columns id; expected one of each name\. Make it"
    ):
        files.read_table(tmp_path / "twice.parquet", ["id", "text"], todo="Make it.", foreign=True)
    latin = pa.array([b"ok", None, b"caf\xe9", b"more"]).cast(pa.binary()).view(pa.string())
    chunks = pa.chunked_array([pa.array(["one"] * 5), latin])
    pq.write_table(pa.table({"id": range(9), "text": chunks}), tmp_path / "latin.parquet", use_dictionary=False)
    with pytest.raises(FileFormatError, match=r"latin\.parquet, row 8: text is not UTF-8 text \(byte 3\)"):
        files.read_table(tmp_path / "latin.parquet", ["id", "text"], foreign=True)
    assert files.read_table(tmp_path / "latin.parquet", ["id"], foreign=True).num_rows == 9
    odd = (tmp_path / "twice.parquet").read_bytes().replace(b"text", b"t\xe9xt")
    (tmp_path / "odd.parquet").write_bytes(odd)
    with pytest.raises(FileFormatError, match=r"odd\.parquet: has a column whose name is not UTF-8"):
        files.read_table(tmp_path / "odd.parquet", ["id"], foreign=True)


def test_parquet_tables_keep_their_metadata_and_are_checked_for_their_columns(tmp_path):
    table = pa.table({"a": [1], "b": ["x"]}).replace_schema_metadata({"key": "value"})
    for name in ("one", "two"):
        files.write_table(tmp_path / name, table)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    found = files.read_table(tmp_path / "one", ["b", "a"])
    assert found.column_names == ["b", "a"]
    assert found.schema.metadata[b"key"] == b"value"
    with pytest.raises(FileFormatError, match=r"one: has no column c \(it has: a, b\)"):
        files.read_table(tmp_path / "one", ["a", "c"])
    (tmp_path / "cut").write_bytes((tmp_path / "one").read_bytes()[:50])
    with pytest.raises(FileFormatError, match="not a whole Parquet file"):
        files.read_table(tmp_path / "cut", ["a"], foreign=True)


def test_table_of_another_program_is_refused_unless_foreign(tmp_path):
    table = pa.table({"a": [1, 2]})
    files.write_table(tmp_path / "own", table)
    assert pq.read_table(tmp_path / "own").equals(table)  # other programs see nothing of the seal
    pq.write_table(table, tmp_path / "other")
    assert files.read_table(tmp_path / "other", ["a"], foreign=True).equals(table)
    (tmp_path / "cut").write_bytes((tmp_path / "own").read_bytes()[:50])
    for name in ("other", "cut"):
        with pytest.raises(FileFormatError, match=f"{name}: is damaged or was changed, or is a table .* Make it"):
            files.read_table(tmp_path / name, ["a"], todo="Make it.")


def test_tsv_floats_have_six_digits_and_none_is_empty(tmp_path):
    files.write_tsv(tmp_path / "x.tsv", ("a", "b"), [(1, 0.123456789), ("x", None)])
    assert (tmp_path / "x.tsv").read_text() == "a\tb\n1\t0.123457\nx\t\n"


def test_pipe_as_target_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError), files.atomic_file(pipe) as temporary:
        temporary.write_text("new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize(
    "read",
    [files.read_json, files.sha256_file, lambda path: files.read_table(path, ["a"])],
    ids=["json", "sum", "table"],
)
def test_a_pipe_is_not_waited_for(tmp_path, read):
    with (
        silent_pipe(tmp_path / "pipe"),
        pytest.raises(FileFormatError, match="a pipe or a device, not a regular file"),
    ):
        read(tmp_path / "pipe")


def build(records):
    return files.mapping(records, "the id", "file", CorpusError, todo="Give each picture an id of its own.")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2))))
def test_records_give_a_mapping_just_when_no_key_has_two_values(records):
    contradictory = any(a == b and x != y for a, x in records for b, y in records)
    placed = [(key, value, f"row {row}") for row, (key, value) in enumerate(records)]
    if contradictory:
        with pytest.raises(CorpusError, match="stands twice, with the file "):
            build(placed)
    else:
        assert list(build(placed).items()) == list(dict(records).items())


def test_two_values_are_quoted_with_their_places():
    with pytest.raises(CorpusError) as found:
        build([(1, "a.png", "x.json, images[0]"), (2, "c", ""), (1, "b" * 10**6, "y.json, images[7]")])
    assert str(found.value).startswith(
        "y.json, images[7]: the id 1 stands twice, with the file 'a.png' (x.json, images[0]) and the file 'bbb"
    )
    assert len(str(found.value)) < 300


def test_a_stage_loads_no_pandas_until_a_table_becomes_a_frame(repository, tmp_path):
    shutil.copy(repository / "params.yaml", tmp_path)
    shutil.copy(repository / "dvc.yaml", tmp_path)
    shutil.copytree(repository / "data/raw/sample", tmp_path / "data/raw/sample")
    change(tmp_path / "data/raw/sample/scenes.yaml", pictures__train=1, pictures__dev=1, pictures__test=1)
    code = """if True:
        import runpy, sys
        sys.argv = ["stages", "corpus"]
        runpy.run_module("stages", run_name="__main__")
        assert "pyarrow" in sys.modules and not {"pandas", "torch", "scipy", "h5py"} & sys.modules.keys()
        import pyarrow as pa
        from sightword.io.files import read_table
        frame = read_table("data/corpus/images.parquet", ["image_id", "split"]).to_pandas()
        assert pa.Table.from_pandas(frame).column_names == ["image_id", "split"] and len(frame) == 3
        assert pa.array(frame.split.where(frame.split != "dev")).null_count == 1
    """
    environment = os.environ | {"PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
