"""Python, packages, torch, graphics cards, settings of the machine, and room on disks."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import namedtuple
from importlib.metadata import version
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import machine
from pipeline.doctor.machine import check_devices, check_disk, check_packages, check_python, check_settings, check_torch

SCRIPTS = sysconfig.get_path("scripts")
CARD = {"name": "a card", "free": 10e9, "total": 80e9}
CPU = {"torch": "2.13.0+cpu", "cuda_build": None, "devices": []}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}")
    for name in [*os.environ]:
        if name.startswith("SIGHTWORD_") and name not in ("SIGHTWORD_STORE", "SIGHTWORD_CACHE", "SIGHTWORD_SCRATCH"):
            monkeypatch.delenv(name)


def test_python_of_this_environment_or_a_wrapper_is_ok(project, tmp_path: Path, monkeypatch) -> None:
    assert sys.prefix in only(project.check(check_python), "ok").what
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {SCRIPTS}/python "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{SCRIPTS}")
    assert states(project.check(check_python)) == {"ok"}


def test_python_of_another_environment_or_none_is_a_problem(project, tmp_path: Path, monkeypatch) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    monkeypatch.setenv("PATH", f"{other}/bin{os.pathsep}{SCRIPTS}")
    found = only(project.check(check_python), "problem")
    assert f"{other}/bin/python, of another environment" in found.what
    assert "activate" in found.todo
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no `python` on PATH" in only(project.check(check_python), "problem").what


def test_code_of_another_checkout_is_reported(project) -> None:
    (project.folder / "pipeline").mkdir()
    assert str(project.folder) in only(project.check(check_python), "warning").what


def test_packages_that_do_not_fit_are_what_pip_says(project, monkeypatch) -> None:
    lacks = "a 1.0 requires b, which is not installed."
    for code, said, wrong, state in (
        (1, lacks, "", "problem"),
        (1, "", "No module named pip", "warning"),
        (0, "", "", "ok"),
    ):
        done = subprocess.CompletedProcess([], code, said, wrong)
        monkeypatch.setattr(machine.subprocess, "run", lambda *_, done=done, **__: done)
        assert said + wrong in only(project.check(check_packages, project=False), state).what


def test_pins_are_compared_without_how_they_were_built(project) -> None:
    pins = {"torch": version("torch").partition("+")[0], "Jinja2": version("jinja2")}
    lines = [f"{name}=={value}  # a word" for name, value in pins.items()]
    (project.folder / "constraints.txt").write_text("\n".join(["# pins", *lines, "not-installed-here==1.0", ""]))
    assert "warning" not in states(project.check(check_packages))
    project.edit("constraints.txt", f"Jinja2=={pins['Jinja2']}", "Jinja2==0.1")
    assert f"Jinja2 {pins['Jinja2']} instead of ==0.1" in only(project.check(check_packages), "warning").what


@pytest.mark.parametrize(
    ("facts", "state", "word"),
    [
        ({"torch": "2", "torchvision": "0"}, "ok", "torch 2 and torchvision 0 load"),
        ({"failed": "ImportError: libcudart.so.13"}, "problem", "libcudart.so.13"),
        ({"late": True}, "warning", "a minute or more"),
        ({"torch": "2", "torchvision_error": "no module"}, "problem", "no module"),
    ],
)
def test_torch_that_loads_or_not(project, facts, state, word) -> None:
    project.facts["torch"] = facts
    assert word in only(project.check(check_torch), state).what


@pytest.mark.parametrize(
    ("facts", "there", "device", "state", "word"),
    [
        (CPU, False, "auto", "ok", "no CUDA device"),
        (CPU, True, "auto", "warning", "built for the CPU only"),
        ({**CPU, "cuda_build": "13.0"}, True, "auto", "warning", "torch is built for CUDA 13.0"),
        (CPU, False, "cuda", "problem", "no NVIDIA driver"),
        ({**CPU, "devices": [CARD]}, True, "cuda:1", "problem", "there are 1 CUDA devices"),
        ({**CPU, "devices": [CARD]}, True, "auto", "ok", "10.0 GB of 80.0 GB free"),
    ],
)
def test_cards_and_drivers(project, monkeypatch, facts, there, device, state, word) -> None:
    monkeypatch.setattr(machine, "DRIVERS", (Path("/" if there else "/no/such/driver"),))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("SIGHTWORD_DEVICE", device)
    project.facts["torch"] = facts
    assert word in only(project.check(check_devices), state).what


@pytest.mark.parametrize(
    ("name", "value", "state", "word"),
    [
        ("SIGHTWORD_DEVICE", "cpu", "ok", "device cpu"),
        ("SIGHTWORD_THREADS", "many", "problem", "SIGHTWORD_THREADS=many"),
        ("SIGHTWORD_DEVICE", "gpu", "problem", "SIGHTWORD_DEVICE=gpu"),
        ("SIGHTWORD_SCRACH", "x", "warning", "nothing reads it"),
    ],
)
def test_settings_right_or_wrong(project, monkeypatch, name, value, state, word) -> None:
    monkeypatch.setenv(name, value)
    found = only(project.check(check_settings), state)
    assert word in found.what
    assert ("SIGHTWORD_SCRATCH" in found.todo) == (state == "warning")  # the nearest name


def test_documented_variables_are_known(repository) -> None:
    documented = set(re.findall(r"\bSIGHTWORD_[A-Z_]+", (repository / "docs/machine.md").read_text()))
    assert documented <= machine.known_variables()


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1e12, 1e12 - free, free))


@pytest.mark.parametrize(("free", "state"), [(500e9, "ok"), (1e9, "warning"), (5e6, "problem")])
def test_disk_that_is_large_too_small_or_full(project, monkeypatch, tmp_path, free, state) -> None:
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "not/yet/there"))
    set_free(monkeypatch, free)
    found = project.check(check_disk)
    assert states(found) == {state}
    assert all("free" in one.what for one in found)


@pytest.mark.parametrize(
    ("variable", "name"), [("SIGHTWORD_STORE", "the store"), ("SIGHTWORD_SCRATCH", "the scratch folder")]
)
def test_folder_that_cannot_be_written_to_is_a_problem(project, monkeypatch, variable, name) -> None:
    set_free(monkeypatch, 500e9)
    monkeypatch.setenv(variable, "/proc/nothing")  # not even for root
    found = only(project.check(check_disk), "problem")
    assert found.what.startswith(f"{name} cannot be written to: /proc")
    assert variable in found.todo


def test_full_disk_of_a_cache_names_no_results_of_others(project, monkeypatch) -> None:
    project.facts["dvc"] = {"cache": "/proc/nothing"}

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", full)
    found = {one.what.partition(":")[0]: one.todo for one in project.check(check_disk)}
    assert "docs/lab.md" in found["DVC's cache cannot be written to"]
    assert "dvc gc" not in str(found)  # one clone does not know what others keep there
