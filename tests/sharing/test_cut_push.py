"""A server that dies in the middle of a push: what arrived is whole, and the next push sends the rest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers

COUNT, SIZE = 200, 1 << 18
SOME = 10
"""Files that have arrived when the server dies."""


class Folder:
    """A remote by SSH, whose server is stopped."""

    def __init__(self, server: servers.SSHServer, folder: Path) -> None:
        self.settings, self.cut, self.mend = server.settings(folder), server.stop, server.start
        self._folder = folder

    def arrived(self) -> dict[str, str]:
        """The MD5 of what counts, by its name: two hex digits, then thirty."""
        found = [path for path in self._folder.glob("files/md5/??/*") if not path.name.startswith(".")]
        return {
            path.parent.name + path.name: hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
            for path in found
        }


class Bucket:
    """A remote in S3, to which the line is cut."""

    def __init__(self, server: servers.S3Server) -> None:
        self._server, self._relay = server, servers.Relay(int(server.endpoint.rpartition(":")[2]))
        self.settings = {**server.settings(), "endpointurl": f"http://127.0.0.1:{self._relay.port}"}
        self.cut, self.mend = self._relay.stop, self._relay.start
        self.mend()

    def arrived(self) -> dict[str, str]:
        """The MD5 of what counts, by its name."""
        found = self._server.objects()
        return {"".join(key.rsplit("/", 2)[1:]): md5 for key, md5 in found.items()}


@pytest.fixture
def remote(request, tmp_path) -> Iterator[Folder | Bucket]:
    if request.param == "ssh":
        yield Folder(request.getfixturevalue("ssh_server"), tmp_path / "remote")
        return
    with servers.s3(tmp_path) as server:
        bucket = Bucket(server)
        yield bucket
        bucket.cut()


def all_whole(arrived: dict[str, str]) -> bool:
    return all(name.removesuffix(".dir") == md5 for name, md5 in arrived.items())


@pytest.mark.full
@pytest.mark.system
@pytest.mark.parametrize("remote", ["ssh", "s3"], indirect=True)
def test_a_push_that_was_cut_is_told_and_finished_by_the_next(remote, tmp_path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(tmp_path / "site"),
        "AWS_MAX_ATTEMPTS": "1",  # else each file is tried for half a minute
    }

    def start(*command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(*command: str) -> str:
        process = start(*command)
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        return out

    run("git", "init", "-q")
    run("dvc", "init", "-q")
    (project / ".dvc/config").write_text("[core]\n    remote = lab\n" + servers.as_config("lab", remote.settings))
    for number in range(COUNT):
        (project / f"data/{number}").write_bytes(os.urandom(SIZE))
    run("dvc", "add", "-q", "data")

    pushing = start("dvc", "push", "-j", "4")
    try:
        while len(remote.arrived()) < SOME and pushing.poll() is None:
            time.sleep(0.005)
        remote.cut()
        out, error = pushing.communicate(timeout=120)
    finally:
        pushing.kill()
        remote.mend()
    assert pushing.returncode == 1, out
    assert "files failed to upload" in error
    assert "Traceback" not in error
    there = remote.arrived()
    assert SOME <= len(there) < COUNT
    assert all_whole(there)
    assert not any(name.endswith(".dir") for name in there)  # the list of the folder comes last
    assert "in sync" not in run("dvc", "status", "--cloud")

    assert f"{COUNT + 1 - len(there)} files pushed" in run("dvc", "push")
    assert len(remote.arrived()) == COUNT + 1
    assert all_whole(remote.arrived())
    assert "in sync" in run("dvc", "status", "--cloud")
