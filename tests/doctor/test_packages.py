"""Python, packages, pins, torch and torchvision."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import packages


@pytest.fixture
def own_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")


def test_the_python_of_the_tests_is_fit(project, own_first) -> None:
    (found,) = project.check(packages.check_python)
    assert found.state == "ok"
    assert sys.prefix in found.what


def test_another_python_first_on_path_is_a_problem(project, tmp_path: Path, monkeypatch) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    monkeypatch.setenv("PATH", f"{other}/bin{os.pathsep}{sysconfig.get_path('scripts')}")
    found = only(project.check(packages.check_python), "problem")
    assert f"{other}/bin/python, of another environment" in found.what
    assert "activate" in found.todo


def test_a_link_or_wrapper_to_this_python_is_accepted(project, tmp_path: Path, monkeypatch) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sysconfig.get_path("scripts")}/python "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{sysconfig.get_path('scripts')}")
    assert states(project.check(packages.check_python)) == {"ok"}


def test_no_python_and_no_dvc_on_path(project, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = project.check(packages.check_python)
    assert [one.state for one in found] == ["ok", "problem", "warning"]
    assert "no `python` on PATH" in found[1].what
    assert "no `dvc` on PATH" in found[2].what


def test_the_code_of_another_checkout_is_reported(project, own_first) -> None:
    (project.folder / "pipeline").mkdir()
    assert str(project.folder) in only(project.check(packages.check_python), "warning").what


def test_packages_that_do_not_fit_are_what_pip_says(project, monkeypatch) -> None:
    for code, said, state in ((1, "a 1.0 requires b, which is not installed.\n", "problem"), (0, "", "ok")):
        done = subprocess.CompletedProcess([], code, said, "")
        monkeypatch.setattr(packages.subprocess, "run", lambda *_, done=done, **__: done)
        found = project.check(packages.check_packages, project=False)
        assert said.strip() in only(found, state).what


def test_pins_are_compared_without_how_they_were_built(project) -> None:
    from importlib.metadata import version

    pins = {"torch": version("torch").partition("+")[0], "Jinja2": version("jinja2")}
    lines = [f"{name}=={value}  # a word" for name, value in pins.items()]
    (project.folder / "constraints.txt").write_text("\n".join(["# pins", *lines, "not-installed-here==1.0", ""]))
    assert "warning" not in states(project.check(packages.check_packages))
    project.edit("constraints.txt", f"Jinja2=={pins['Jinja2']}", "Jinja2==0.1")
    assert f"Jinja2 {pins['Jinja2']} instead of ==0.1" in only(project.check(packages.check_packages), "warning").what


@pytest.mark.parametrize(
    ("facts", "state", "word"),
    [
        ({"torch": "2", "torchvision": "0", "patched": False}, "ok", "loads beside"),
        ({"torch": "2", "torchvision": "0", "patched": True}, "ok", "without its C++ operators"),
        ({"failed": "ImportError: libcudart.so.13"}, "problem", "libcudart.so.13"),
        ({"late": True}, "warning", "a minute or more"),
        ({"torch": "2", "torchvision_error": "no module"}, "problem", "no module"),
    ],
)
def test_torch_that_loads_or_not(project, facts, state, word) -> None:
    project.facts["torch"] = facts
    assert word in only(project.check(packages.check_torch), state).what
