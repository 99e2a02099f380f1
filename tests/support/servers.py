"""Real servers on this machine that a test starts and stops: SSH with files, and S3."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PRIVILEGE_SEPARATION = Path("/run/sshd")
"""An empty folder that sshd wants when root starts it; a package's service makes it at boot."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sshd() -> str | None:
    """The program, which is not on every user's path."""
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


class SSHServer:
    """An SSH server of this user alone, with its own host key and one key that is let in.

    Args:
        folder: for its keys and settings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user = getpass.getuser()
        self.port = free_port()
        self.key = folder / "key"
        for name in ("host", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(folder / name)], check=True
            )
        shutil.copy(folder / "key.pub", folder / "authorized")
        (folder / "config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\n"
            "MaxStartups 100\nMaxSessions 100\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Listen, once more after :meth:`stop`."""
        program = sshd()
        assert program
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.folder / "config")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_for(self.port, self._process, self.folder / "log")

    def stop(self) -> None:
        """End it with all connections, as when its machine goes down."""
        if self._process:
            # The listener last: its children are found through it.
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.kill()
            self._process.wait()
            self._process = None

    def settings(self, path: Path) -> dict[str, str]:
        """Of a DVC remote in a folder there."""
        return {"url": f"ssh://127.0.0.1{path}", "port": str(self.port), "user": self.user, "keyfile": str(self.key)}


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(900):
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port}: {log.read_text()}")


@dataclass(frozen=True)
class S3Server:
    """An S3 service in memory, with one bucket."""

    endpoint: str
    bucket: str = "lab"

    def settings(self) -> dict[str, str]:
        """Of a DVC remote in the bucket."""
        return {
            "url": f"s3://{self.bucket}/sightword",
            "endpointurl": self.endpoint,
            "access_key_id": "test",
            "secret_access_key": "test",
            "region": "us-east-1",
        }

    def get(self, key: str) -> bytes:
        """The bytes of an object."""
        with self._ask(f"{self.bucket}/{key}", "GET") as answer:
            return bytes(answer.read())

    def put(self, key: str, data: bytes) -> None:
        """Make or replace an object."""
        self._ask(f"{self.bucket}/{key}", "PUT", data).close()

    def remove(self, key: str) -> None:
        """Remove an object."""
        self._ask(f"{self.bucket}/{key}", "DELETE").close()

    def check_credentials(self, whether: bool) -> None:
        """Answer only those who have a key and a permission, from now on; or everybody."""
        self._ask("moto-api/reset-auth", "POST", b"0" if whether else b"inf").close()

    def _ask(self, path: str, method: str, data: bytes | None = None) -> Any:
        signed = (
            "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"  # which it does not check at first
        )
        headers = {"Authorization": signed, "Content-Type": "application/octet-stream"}
        return _plainly(urllib.request.Request(f"{self.endpoint}/{path}", data, headers, method=method))

    def objects(self, prefix: str = "") -> dict[str, str]:
        """The MD5 of each object in the bucket, by its key."""
        with _plainly(f"{self.endpoint}/{self.bucket}?list-type=2&max-keys=1000&prefix={prefix}") as answer:
            listed = answer.read().decode()
        assert "<IsTruncated>true" not in listed
        keys = re.findall(r"<Key>(.*?)</Key>", listed)
        tags = re.findall(r"<ETag>(?:&quot;|\")?([0-9a-f]{32})(?:&quot;|\")?</ETag>", listed)
        return dict(zip(keys, tags, strict=True))


def _plainly(request: str | urllib.request.Request) -> Any:
    """The answer to a request, whatever proxy the machine has."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)


@contextlib.contextmanager
def s3(folder: Path) -> Iterator[S3Server]:
    port = free_port()
    with open(folder / "s3.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_for(port, process, folder / "s3.log")
        server = S3Server(f"http://127.0.0.1:{port}")
        make = urllib.request.Request(f"{server.endpoint}/{server.bucket}", method="PUT")
        with _plainly(make) as answer:
            assert answer.status == 200
        yield server
    finally:
        process.kill()
        process.wait()


def as_config(name: str, settings: dict[str, str]) -> str:
    """The lines of a DVC remote in ``.dvc/config``; what `dvc remote add` and `modify` write, in one go."""
    return "".join([f"['remote \"{name}\"']\n", *(f"    {option} = {value}\n" for option, value in settings.items())])
