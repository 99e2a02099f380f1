"""Settings of the machine from environment variables."""

from __future__ import annotations

import math
import os

import pytest

from sightword import machine
from sightword.errors import SetupError


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


SELF, TOP, CPU = "proc/self/cgroup", "sys/fs/cgroup", "sys/fs/cgroup/cpu"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, math.inf),
        ({SELF: "0::/\n", f"{TOP}/cpu.max": "150000 100000\n"}, 1.5),
        ({SELF: "0::/\n", f"{TOP}/cpu.max": "max 100000\n"}, math.inf),
        ({SELF: "0::/\n", f"{TOP}/cpu.max": "a b\n"}, math.inf),
        (
            {
                SELF: "no group\n\n0::/jobs/one/step\n",
                f"{TOP}/jobs/cpu.max": "400000 100000\n",
                f"{TOP}/jobs/one/cpu.max": "200000 100000\n",
                f"{TOP}/jobs/one/step/cpu.max": "max 100000\n",
                f"{TOP}/jobs/other/cpu.max": "100000 100000\n",
            },
            2,
        ),
        ({SELF: "0::/docker/caf\udce9\n", f"{TOP}/cpu.max": "50000 50000\n"}, 1),
        ({SELF: "0::/../other\n", f"{TOP}/cpu.max": "300000 100000\n"}, 3),
        (
            {
                SELF: "7:cpuset:/x\n4:cpu,cpuacct:/job/step\n1:name=systemd:/y\n0::/z\n",
                f"{CPU}/cpu.cfs_quota_us": "-1\n",
                f"{CPU}/cpu.cfs_period_us": "100000\n",
                f"{CPU}/job/cpu.cfs_quota_us": "250000\n",
                f"{CPU}/job/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
    ],
    ids=["no Linux", "v2", "no limit", "odd", "above", "container", "outside of what is seen", "v1"],
)
def test_quota_is_the_least_of_the_group_and_those_above(tmp_path, files, expected) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(os.fsencode(text))
    assert machine.quota(tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [(0.5, 1), (2.9, 2), (8, 4), (math.inf, 4)])
def test_cores_are_the_least_of_affinity_and_quota(monkeypatch, quota, expected) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5}, raising=False)
    monkeypatch.setattr(machine, "quota", lambda: quota)
    for name in ("SIGHTWORD_THREADS", "SIGHTWORD_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    assert machine.cores() == expected
    assert (machine.current().threads, machine.current().workers) == (expected, expected)


def test_user_without_a_home_is_told_to_name_folders(monkeypatch) -> None:
    def unknown(_: object) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "SIGHTWORD_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(SetupError, match=r"this user has no home folder for caches\. Set SIGHTWORD_STORE to a folder"):
        machine.current()
