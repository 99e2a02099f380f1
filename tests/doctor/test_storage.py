"""Cache, folders, locks and kinds of disks."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import filesystems, storage
from pipeline.doctor.filesystems import is_network, kind_of, look_at_places
from pipeline.doctor.storage import look_at_cache, look_at_folders, look_at_locks


def cache_facts(folder: Path, **other: object) -> dict[str, object]:
    return {"cache": str(folder), "cache_types": None, "shared": False, "links": ["hardlink", "symlink"], **other}


def test_folders_that_can_be_written_to_need_not_be_there_yet(project, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "not/yet/there"))
    assert states(project.look(look_at_folders)) == {"ok"}


@pytest.mark.parametrize(
    ("variable", "name"), [("SIGHTWORD_STORE", "the store"), ("SIGHTWORD_SCRATCH", "the scratch folder")]
)
def test_a_folder_that_cannot_be_written_to(project, monkeypatch, variable, name) -> None:
    monkeypatch.setenv(variable, "/proc/nothing")  # not even for root
    found = only(project.look(look_at_folders), "problem")
    assert found.what.startswith(f"{name} cannot be written to: /proc")
    assert variable in found.todo


def test_a_read_only_folder(project, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "locked/store"))
    expected = {"ok"} if os.geteuid() == 0 else {"problem"}  # bits do not stop root, and no more does the check
    assert states(project.look(look_at_folders)) == expected


def test_a_disk_without_room_for_files(project, monkeypatch) -> None:
    real = os.statvfs
    full = {name: getattr(real("/"), name) for name in ("f_files", "f_favail")} | {"f_files": 10, "f_favail": 3}
    monkeypatch.setattr(storage.os, "statvfs", lambda _: type("Full", (), full))
    assert "3 more files" in project.look(look_at_folders)[0].what


@pytest.mark.parametrize(
    ("types", "links", "state", "word"),
    [
        (None, ["reflink", "hardlink"], "ok", "by reflink"),
        (
            None,
            ["hardlink", "symlink"],
            "ok",
            "take their place twice; `dvc config --local cache.type hardlink,symlink`",
        ),
        (None, [], "ok", "take their place twice"),
        (["hardlink"], ["symlink"], "problem", "only symlink, copy is possible"),
        (["hardlink", "copy"], ["hardlink"], "ok", "by hardlink"),
        (["symlink"], ["symlink"], "ok", "by symlink"),
    ],
)
def test_links(project, types, links, state, word) -> None:
    cache = project.folder / ".dvc/cache"
    cache.mkdir()
    project.known["dvc"] = cache_facts(cache, cache_types=types, links=links)
    found = only(project.look(look_at_cache), state)
    assert word in found.what


def test_a_shared_cache_without_its_bits_and_one_outside_that_is_not_shared(
    project, tmp_path: Path, monkeypatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    project.known["dvc"] = cache_facts(cache, shared=True)
    assert "write and setgid" in only(project.look(look_at_cache), "warning").what
    cache.chmod(0o2775)
    assert states(project.look(look_at_cache)) == {"ok"}
    project.known["dvc"] = cache_facts(cache)
    monkeypatch.setenv("HOME", str(project.folder))
    assert "outside the project" in only(project.look(look_at_cache), "warning").what
    monkeypatch.setenv("HOME", str(tmp_path))
    assert states(project.look(look_at_cache)) == {"ok"}


def test_dvc_that_cannot_work(project) -> None:
    project.known["dvc"] = {"error": "configuration error"}
    assert "configuration error" in only(project.look(look_at_cache), "problem").what


def test_no_locks(project) -> None:
    assert states(project.look(look_at_locks)) == {"ok"}


def rwlock(project, text: str) -> None:
    (project.folder / ".dvc/tmp").mkdir(exist_ok=True)
    (project.folder / ".dvc/tmp/rwlock").write_text(text)


def held_by(pid: int) -> str:
    return json.dumps(
        {"write": {"data/x": {"pid": pid, "cmd": "dvc repro"}}, "read": {"p": [{"pid": pid, "cmd": "dvc repro"}]}}
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"write": {"a": {}}}', '{"write": 1}'])
def test_a_damaged_list_of_locks(project, text) -> None:
    rwlock(project, text)
    assert "cut off" in only(project.look(look_at_locks), "problem").what


def test_locks_of_dead_living_and_other_processes(project) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    rwlock(project, held_by(dead.pid))
    assert f"process {dead.pid} (dvc repro) is dead" in only(project.look(look_at_locks), "warning").what
    program = "print(flush=True); import time; time.sleep(60)"
    for name, state in ((["dvc"], "warning"), ([], "problem")):
        with subprocess.Popen([sys.executable, "-c", program, *name], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            rwlock(project, held_by(process.pid))
            found = project.look(look_at_locks)
            process.kill()
        assert str(process.pid) in only(found, state).what


def test_a_lock_that_is_held_is_seen_and_not_taken(project) -> None:
    (project.folder / ".dvc/tmp").mkdir()
    path = project.folder / ".dvc/tmp/lock"
    with open(path, "w") as file:
        file.write("4711\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "process 4711" in only(project.look(look_at_locks), "warning").what
    assert states(project.look(look_at_locks)) == {"ok"}  # the file stays, which means nothing
    project.known["dvc"] = {"hardlink_lock": True}
    assert f"rm {path}" in only(project.look(look_at_locks), "warning").todo


MOUNTS = r"""/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
me@host:/x /home/me/far fuse.sshfs rw 0 0
//pc/share /mnt/my\040share cifs rw 0 0
tmpfs /tmp tmpfs rw 0 0
overlay /home/me/near overlay rw 0 0
gvfsd-fuse /run/user/1 fuse.gvfsd-fuse rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind", "network"),
    [
        ("/data", "ext4", False),
        ("/home/me", "nfs4", True),
        ("/homework", "ext4", False),
        ("/home/me/far/away", "fuse.sshfs", True),
        ("/home/me/near", "overlay", False),
        ("/mnt/my share/x", "cifs", True),
        ("/run/user/1/x", "fuse.gvfsd-fuse", False),
    ],
)
def test_kinds_of_file_systems(folder, kind, network) -> None:
    assert kind_of(Path(folder), MOUNTS) == kind
    assert is_network(kind) is network


def test_network_file_systems_and_memory(project, tmp_path: Path, monkeypatch) -> None:
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(filesystems, "MOUNTS", mounts)
    monkeypatch.setenv("SIGHTWORD_STORE", "/lab/store")
    monkeypatch.setenv("SIGHTWORD_SCRATCH", "/lab/scratch")
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nlab:/ /lab nfs rw 0 0\nx {project.folder.parent} nfs4 rw 0 0\n")
    found = project.look(look_at_places)
    assert [one.what.partition(" lies")[0] for one in found] == ["the project", "the scratch folder"]  # the store may
    project.known["dvc"] = {"hardlink_lock": True}
    assert "the scratch folder" in only(project.look(look_at_places), "warning").what
    mounts.write_text("/dev/vda / ext4 rw 0 0\ntmpfs /lab tmpfs rw 0 0\n")
    assert all("in memory" in one.what for one in project.look(look_at_places))
    mounts.unlink()
    assert project.look(look_at_places) == []
