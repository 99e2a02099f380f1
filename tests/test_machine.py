"""Settings of the machine from environment variables."""

from __future__ import annotations

import getpass
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from checkout import Checkout

from sightword import machine
from sightword.errors import SetupError
from sightword.storage.store import Store


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("SIGHTWORD_ENGINE", "spark", "SIGHTWORD_ENGINE=spark: no such engine; expected torch, openvino or ray"),
        ("SIGHTWORD_WORKERS", "²", "SIGHTWORD_WORKERS=²: not a usable number; expected a whole number of at least 0"),
    ],
)
def test_an_unusable_value_is_told(monkeypatch, name, text, message) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(SetupError) as caught:
        machine.current()
    assert str(caught.value).startswith(message)


def control_groups(root: Path, groups: str, mounts: list[str], files: dict[str, str]) -> Path:
    """A root of a file system with the groups of this process, where they are mounted, and their limits."""
    written = {"proc/self/cgroup": groups, "proc/self/mountinfo": "".join(f"{line}\n" for line in mounts), **files}
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.fsencode(text))
    return root


V1 = "33 31 0:30 {top} /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct"
SETS = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset"
V2 = "25 23 0:22 {top} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
CPU = "sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        ("0::/\n", [V2.format(top="/")], {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", [V2.format(top="/")], {"sys/fs/cgroup/cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", [V2.format(top="/")], {}, math.inf),
        (
            "0::/jobs/one/step\n",
            [V2.format(top="/")],
            {
                "sys/fs/cgroup/jobs/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/jobs/one/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/jobs/one/step/cpu.max": "max 100000\n",
                "sys/fs/cgroup/jobs/other/cpu.max": "100000 100000\n",
            },
            2,
        ),
        (
            "0::/docker/abc\n",
            [V2.format(top="/docker/abc")],
            {"sys/fs/cgroup/cpu.max": "50000 50000\n", "sys/fs/cgroup/docker/abc/cpu.max": "9 1\n"},
            1,
        ),
        ("0::/../other\n", [V2.format(top="/")], {"sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3),
        (
            "7:cpuset:/x\n4:cpu,cpuacct:/job/step\n1:name=systemd:/y\n0::/z\n",
            [SETS, V1.format(top="/"), V2.format(top="/").replace("/cgroup rw", "/cgroup/unified rw")],
            {
                f"{CPU}/cpu.cfs_quota_us": "-1\n",
                f"{CPU}/cpu.cfs_period_us": "100000\n",
                f"{CPU}/job/cpu.cfs_quota_us": "250000\n",
                f"{CPU}/job/cpu.cfs_period_us": "100000\n",
                f"{CPU}/job/step/cpu.cfs_quota_us": "-1\n",
                f"{CPU}/job/step/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            "4:cpuacct,cpu:/docker/abc\n",
            [V1.format(top="/docker/abc")],
            {f"{CPU}/cpu.cfs_quota_us": "50000\n", f"{CPU}/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
    ],
    ids=["v2", "no limit", "top", "above", "v2 in a container", "outside of what is seen", "v1", "v1 in a container"],
)
def test_the_quota_is_the_least_of_the_group_and_those_above(tmp_path, groups, mounts, files, expected) -> None:
    assert machine.quota(control_groups(tmp_path, groups, mounts, files)) == expected


@pytest.mark.parametrize(
    "odd",
    [
        "40 25 0:40 / /mnt/empty rw - tmpfs  rw",
        "41 25 0:41 / /mnt/caf\udce9 rw shared:9 - ext4 /dev/sda1 rw",
        "42 25 0:42 / /mnt/a\u2028b rw shared:9 - ext4 /dev/sda1 rw",
        "43 25 0:43 / /mnt/a\rb rw shared:9 - ext4 /dev/sda1 rw",
        "44 25 0:44 / - rw - tmpfs none rw",
        "45 25 0:45 / /mnt rw",
        "46 25 0:46 / /mnt rw - tmpfs",
        "no mount",
        "",
    ],
)
def test_quota_is_found_beside_any_other_mount(tmp_path, odd) -> None:
    files = {"sys/fs/cgroup/cpu.max": "150000 100000\n"}
    groups = "no group\n\n0::/caf\udce9\n"
    assert machine.quota(control_groups(tmp_path, groups, [odd, V2.format(top="/"), odd], files)) == 1.5


@pytest.mark.parametrize("name", ["caf\udce9", "a\u2028b"])
def test_quota_is_found_in_a_group_and_at_a_mount_point_of_any_name(tmp_path, name) -> None:
    mount = V2.format(top="/").replace("/sys/fs/cgroup", f"/{name}")
    files = {f"{name}/jobs/{name}/cpu.max": "250000 100000\n"}
    assert machine.quota(control_groups(tmp_path, f"0::/jobs/{name}\n", [mount], files)) == 2.5


@pytest.mark.parametrize("text", ["", "max", "a b", "100000 0", "1 2 3", "\udce9 1"])
def test_limit_that_is_no_number_is_none(tmp_path, text) -> None:
    assert machine.quota(control_groups(tmp_path, "0::/\n", [V2.format(top="/")], {"sys/fs/cgroup/cpu.max": text})) == (
        math.inf
    )


def test_without_control_groups_there_is_no_quota(tmp_path) -> None:
    assert machine.quota(tmp_path) == math.inf


@pytest.mark.parametrize(("quota", "expected"), [(0.5, 1), (2.9, 2), (8, 4), (math.inf, 4)])
def test_cores_are_the_least_of_affinity_and_quota(monkeypatch, quota, expected) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5}, raising=False)
    monkeypatch.setattr(machine, "quota", lambda: quota)
    for name in ("SIGHTWORD_THREADS", "SIGHTWORD_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    assert machine.cores() == expected
    assert (machine.current().threads, machine.current().workers) == (expected, expected)


@pytest.fixture
def homeless(monkeypatch, tmp_path) -> Path:
    """No variable and no entry in passwd names a home folder; returns the folder for temporary files."""

    def unknown(_: object) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "SIGHTWORD_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("home", [None, "", "relative", "/none/such"])
def test_user_without_a_home_has_a_folder_of_their_own(homeless, monkeypatch, home) -> None:
    if home is not None:
        monkeypatch.setenv("HOME", home)
    own = homeless / f"sightword-home-{os.geteuid()}"
    assert machine.home() == own == machine.substitute_home()
    assert own.stat().st_mode & 0o777 == 0o700
    assert machine.current().store == str(own / ".cache/sightword")
    assert machine.expanded("~/store") == own / "store"
    assert machine.expanded("store") == Path("store")
    assert str(Store("~/store").place).endswith(f"{own}/store")


@pytest.fixture
def there(homeless, monkeypatch) -> Path:
    """A home folder that cannot be written, not even by root."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    folder = homeless / "there"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def test_home_that_cannot_be_written_stays_home_and_caches_move(there) -> None:
    caches = machine.substitute_home() / ".cache"
    for _ in ("here", "in a program that this process starts"):
        assert machine.give_home() == f"{there} cannot be written"
        assert Path(os.environ["HOME"]) == machine.home() == machine.expanded("~") == there
        assert Path(os.environ["XDG_CACHE_HOME"]) == machine.caches() == caches
        assert machine.current().store == str(caches / "sightword")
    assert not [*there.iterdir()]


def test_home_that_cannot_be_written_with_a_cache_folder_has_the_caches(there) -> None:
    (there / ".cache").mkdir()
    assert machine.give_home() == ""
    assert "XDG_CACHE_HOME" not in os.environ
    assert machine.current().store == str(there / ".cache/sightword")


def test_caches_that_the_user_names_stay_with_a_home_that_cannot_be_written(there, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/caches")
    assert machine.give_home() == ""
    assert machine.current().store == "/some/caches/sightword"
    assert not machine.substitute_home().exists()


def test_substitute_for_caches_that_others_can_write_is_refused(there) -> None:
    machine.substitute_home().mkdir()
    machine.substitute_home().chmod(0o777)
    with pytest.raises(
        SetupError, match=r"there cannot be written, and .* others too\. Set XDG_CACHE_HOME to a folder"
    ):
        machine.give_home()


def test_root_folder_is_a_home_only_with_caches(there, monkeypatch) -> None:
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.X_OK and Path(path).name != ".cache")
    assert machine.give_home() == "this user has no home folder"
    assert Path(os.environ["HOME"]) == machine.substitute_home()


def test_home_that_this_user_may_not_enter_is_none(there, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert machine.home() == machine.substitute_home()


def test_substitute_that_others_can_write_is_refused(homeless) -> None:
    machine.substitute_home().mkdir()
    machine.substitute_home().chmod(0o777)
    with pytest.raises(SetupError, match=r"has no home folder, and .* belongs to others too\. Set HOME to a folder"):
        machine.home()
    machine.substitute_home().rmdir()
    machine.substitute_home().symlink_to("/tmp")
    with pytest.raises(SetupError, match="belongs to others too"):
        machine.home()


def test_home_and_name_are_given_to_programs_that_need_them(homeless, monkeypatch) -> None:
    assert machine.give_home() == "this user has no home folder"
    assert Path.home() == machine.substitute_home()
    assert getpass.getuser() == f"user-{os.geteuid()}"
    monkeypatch.setenv("HOME", str(homeless))
    assert not machine.give_home()


NOBODY = """
import os, pwd
def unknown(_):
    raise KeyError("uid not found")
pwd.getpwuid = unknown
"""
"""What Python runs at its start, also in DVC, for a user whom passwd does not list."""


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Checkout:
    return Checkout(repository, tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("store"), forked=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("audit", "metrics/summary.json:image_r10"), 0, "image_r10"),
        (("store", "stats"), 1, "sightword-home-{user}/.cache/sightword: there is no store here"),
        (("doctor",), None, "this user has no home folder: caches and copies are in {folder}/sightword-home-{user}"),
        (("init", "new"), 0, "Next: cd new && dvc repro"),
        (("fetch",), 0, "flickr8k"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_work_for_a_user_without_home_and_name(project, tmp_path, command, code, words) -> None:
    (tmp_path / "start").mkdir()
    (tmp_path / "start/sitecustomize.py").write_text(NOBODY)
    unknown = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "SIGHTWORD_STORE")
    environment = {name: value for name, value in project.environment.items() if name not in unknown}
    environment |= {"PYTHONPATH": f"{tmp_path / 'start'}:{project.folder}", "TMPDIR": str(tmp_path)}
    where = tmp_path if command[0] == "init" else project.folder
    done = subprocess.run(
        [sys.executable, "-c", "import sys, pipeline.cli; sys.exit(pipeline.cli.main())", *command],
        cwd=where, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "RuntimeError" not in done.stdout
    assert code in (None, done.returncode), done.stderr
    assert words.format(user=os.geteuid(), folder=tmp_path) in done.stdout + done.stderr
