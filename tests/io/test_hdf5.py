"""An HDF5 file on a disk that fails: an OSError, the earlier file, and a process that lives."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faulty_disk import FaultyDisk
from odd_files import held_open

from sightword.errors import FileFormatError
from sightword.features.tables.table import Origin, read_features, write_features

ORIGIN = Origin("net", "avgpool", "random:0", "ab", "{}", "fp32", "extracted")
COUNT, WIDTH = 64, 512
BLOCK = 16
VALUES = np.random.default_rng(0).standard_normal((COUNT, WIDTH)).astype(np.float32)
SIZE = COUNT * (4 * WIDTH + 64 + 4)


def write(path: Path, values: np.ndarray = VALUES) -> None:
    blocks = [(np.arange(at, at + BLOCK), values[at : at + BLOCK]) for at in range(0, COUNT, BLOCK)]
    write_features(path, [f"{number:04d}" for number in range(COUNT)], [""] * COUNT, WIDTH, blocks, ORIGIN)


def without_reservation(*_: object) -> None:
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def test_whichever_write_fails_the_earlier_file_stays(tmp_path) -> None:
    path = tmp_path / "f.h5"
    write(path)
    whole = path.read_bytes()
    with FaultyDisk(tmp_path) as disk:
        write(path)
    assert disk.kinds["write"] > 5
    write(path, VALUES + 1)
    earlier = path.read_bytes()
    for at in range(1, disk.count - 3):  # the last four come when the new file is in its place
        with FaultyDisk(tmp_path, at=at, error=errno.ENOSPC, lasting=True), pytest.raises(OSError) as caught:
            write(path)
        assert caught.value.errno == errno.ENOSPC
        assert path.read_bytes() == earlier
        assert list(tmp_path.iterdir()) == [path]
    write(path)
    assert path.read_bytes() == whole


def test_a_file_system_that_reserves_nothing_gives_the_same_bytes(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one.h5")
    monkeypatch.setattr(os, "posix_fallocate", without_reservation)
    write(tmp_path / "two.h5")
    monkeypatch.delattr(os, "posix_fallocate")  # as on macOS
    write(tmp_path / "three.h5")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_room_is_asked_for_before_anything_is_computed(tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def blocks():
        pytest.fail("a block was asked for")
        yield

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_features(tmp_path / "f.h5", ["a"], [""], 3, blocks(), ORIGIN)
    assert caught.value.filename == str(tmp_path / "f.h5")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_within_a_write_is_raised_when_the_write_is_over(tmp_path, monkeypatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "posix_fallocate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "f.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_may_write_no_further_lives(tmp_path, repository) -> None:
    """HDF5 itself would end it with a segmentation fault; a limit of the file's size stands for a full disk."""
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{repository}:{repository}/tests/support"},
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert list(tmp_path.iterdir()) == []


def limited(folder: Path) -> None:
    """Write in processes that may write only so many bytes each."""
    for reserving in (True, False):
        if not reserving:
            os.posix_fallocate = without_reservation
        for limit in (0, 1, 600, 2048, 40_000, SIZE // 2, SIZE - 100, SIZE + 1000):
            child = os.fork()
            if child == 0:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                try:
                    write(folder / "f.h5")
                except OSError as error:
                    os._exit(0 if error.errno == errno.EFBIG else 1)
                os._exit(2)
            assert os.waitpid(child, 0)[1] == 0, (reserving, limit)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    limited(Path(sys.argv[1]))


@pytest.mark.parametrize(("mode", "change"), [("a", ""), ("r+", "file.attrs['x'] = 1")])
def test_a_file_open_for_writing_elsewhere_is_not_called_damaged(tmp_path, mode, change) -> None:
    path = tmp_path / "features.h5"
    write(path)
    with held_open(path, mode, change), pytest.raises(FileFormatError) as caught:
        read_features(path)
    assert str(caught.value) == (
        f"{path}: is open for writing in another program. "
        "Wait until the other program has closed the file, or end it (`lsof` names it)."
    )
    if change:
        with pytest.raises(FileFormatError, match="is damaged"):
            read_features(path)
    else:
        assert read_features(path).image_ids


def test_file_of_a_killed_writer_is_called_unclosed(tmp_path) -> None:
    path = tmp_path / "features.h5"
    write(path)
    with held_open(path, "r+", "file.attrs['x'] = 1; file.flush()", killed=True):
        pass
    with pytest.raises(FileFormatError) as caught:
        read_features(path)
    assert str(caught.value).startswith(
        f"{path}: was opened for writing by a program that ended before it closed the file. "
        "`dvc checkout` brings the file back. Run `dvc repro features`"
    )
