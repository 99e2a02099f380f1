"""A person's finished run and experiment, pushed to remotes of three sorts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import people
import pytest
import servers
from checkout import Checkout
from small_run import SmallRun

EXPERIMENT = "retrieval.split=dev"
"""The first person's experiment, in which two stages run."""


class FirstPerson(Checkout):
    """Runs the pipeline, and an experiment; what came out of both."""

    origin: Path
    first: dict[str, object]
    dev: dict[str, object]


@pytest.fixture(scope="session")
def ssh_server(tmp_path_factory) -> Iterator[servers.SSHServer]:
    if not servers.sshd() or not shutil.which("ssh-keygen"):
        pytest.skip("no sshd and ssh-keygen here (Debian: openssh-server; `make system-packages`)")
    server = servers.SSHServer(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def remotes(ssh_server, tmp_path_factory) -> Iterator[dict[str, dict[str, str]]]:
    """The settings of each remote."""
    folder = tmp_path_factory.mktemp("remotes")
    with servers.s3(folder) as s3:
        yield {
            "folder": {"url": str(folder / "plain")},
            "ssh": ssh_server.settings(folder / "ssh"),
            "s3": s3.settings(),
        }


@pytest.fixture(scope="session")
def person_a(small_run: SmallRun, tmp_path_factory, remotes) -> FirstPerson:
    """Has run the pipeline, committed the result, and run one experiment; nothing was pushed to the remotes."""
    folder = tmp_path_factory.mktemp("person_a")
    a = small_run.copy(folder / "clone", folder / "own", FirstPerson)
    (folder / "home").mkdir()
    a.environment |= {"HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    # Remotes come first: DVC reads them from the commit that an experiment stands on.
    with (a.folder / ".dvc/config").open("a") as config:
        config.writelines(servers.as_config(name, settings) for name, settings in remotes.items())
    a.run("git", "commit", "-qam", "remotes")
    a.first = people.results(a)
    a.run("dvc", "exp", "run", "-n", "dev", "-S", EXPERIMENT)
    a.dev = people.results(a)
    a.run("git", "checkout", "-q", ".")
    a.run("dvc", "checkout", "-q", "dvc.yaml")
    a.origin = folder / "origin.git"
    a.run("git", "init", "-q", "--bare", str(a.origin))
    a.run("git", "remote", "add", "origin", str(a.origin))
    a.run("git", "push", "-q", "origin", "HEAD")
    return a
