"""The wheel: its files and licences, the encoder and the commands in a clean environment, a project that it makes."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from checkout import environment, locked
from installed import CORE, ENCODE, TEXTS, check_embeddings, link_packages, run, saved_encoder
from packaging.requirements import Requirement
from small_run import shrink

import sightword
from sightword.encoder.pretrained import packaged
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.messages import install_extra

PROGRAM = """
from sightword import SentenceEncoder, evaluate, extract, score
reveal_type(SentenceEncoder.load)
reveal_type(extract)
reveal_type(score)
reveal_type(evaluate)
"""


@pytest.fixture(scope="module")
def files(repository) -> list[str]:
    """The files of the repository."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=repository).stdout.splitlines()
    return [name for name in listed if (repository / name).is_file()]


@pytest.fixture(scope="module")
def wheel(repository, files, tmp_path_factory) -> Path:
    """The wheel, built from a copy of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in files:
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, folder / "source" / name)
    options = ("--no-index", "--no-build-isolation", "--no-deps", "-w", folder)
    built = run(sys.executable, "-m", "pip", "wheel", *options, folder / "source")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def install(wheel: Path, place: Path) -> Path:
    """Install the wheel, without what it needs, in a new environment; return the folder of its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    assert run(sys.executable, "-m", "pip", "--python", place / "bin/python", "install", *options).returncode == 0
    (site,) = (place / "lib").glob("python*/site-packages")
    return site


@pytest.mark.full
def test_wheel_holds_the_packages_and_the_files_of_a_project_once(files, wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    beside = {
        name
        for name in files
        if re.match(
            r"(recipes|data|\.dvc/plots)/|([a-z]+/)?((dvc|params)\.yaml|\.dvcignore)$|\.git(ignore|attributes)$",
            name,
        )
    }
    code = {name for name in files if name.startswith(("sightword/", "pipeline/", "stages/"))}
    assert held == code | {f"pipeline/project/{name}" for name in beside}


@pytest.mark.full
def test_wheel_names_the_licences_of_code_and_weights(wheel, repository):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = message_from_bytes(archive.read(path))
        listed = {
            name: archive.read(f"{path.removesuffix('METADATA')}licenses/{name}").decode()
            for name in about.get_all("License-File")
        }
    assert listed == {name: (repository / name).read_text() for name in listed}
    own = {text.split(maxsplit=1)[0] for name, text in listed.items() if name != "LICENSE"}
    assert {Path(name).parent.name for name in listed} == {"", *packaged()}
    assert set(about["License-Expression"].split(" AND ")) == {"Apache-2.0", *own}


@pytest.mark.full
def test_wheel_in_a_clean_environment_encodes_and_runs_commands(wheel, tmp_path):
    encoder = saved_encoder(tmp_path / "encoder")
    place = tmp_path / "environment"
    site = install(wheel, place)
    (about,) = site.glob("sightword-*.dist-info")
    asked = [Requirement(text) for text in metadata.Distribution.at(about).requires or []]
    names = [one.name for one in asked if one.marker is None]
    assert set(names) == CORE
    link_packages(site, names)

    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text("[mypy-numpy.*,torch.*,pydantic.*]\nfollow_imports = skip\n")
    checker = ("-m", "mypy", "--follow-imports", "silent", "--python-executable", place / "bin/python", "program.py")
    found = run(sys.executable, *checker, cwd=tmp_path)
    assert (found.returncode, found.stdout.count('Revealed type is "def (')) == (0, 4), found.stdout

    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = run(place / "bin/python", "-c", ENCODE, tmp_path / "encoder", json.dumps(TEXTS), cwd=tmp_path, env=clean)
    check_embeddings(done, encoder)
    done = run(place / "bin/python", "-c", ENCODE, "flickr8k", json.dumps(TEXTS), cwd=tmp_path, env=clean)
    check_embeddings(done, SentenceEncoder.from_pretrained("flickr8k"))
    command = place / "bin/sightword"
    shown = run(command, "--help", cwd=tmp_path, env=clean)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "audit" in shown.stdout
    assert run(command, "--version", env=clean).stdout == f"sightword {sightword.__version__}\n"
    refused = run(command, "params", cwd=tmp_path, env=clean)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"{install_extra('pipeline')}\n")
    assert refused.stderr.count("\n") == 1


COMMANDS = """
import contextlib, io, json
from pipeline.cli import main

said = {}
for words in (
    ["params", "--check"],
    ["search", "models/encoder", "a red circle", "--json", "--top", "1"],
    ["evaluate", "flickr8k", "--data", "data/corpus/senteval", "--tasks", "STSSample"],
    ["audit", "metrics/summary.json:image_r10"],
    ["sweep", "--csv"],
    ["compare", "HEAD", "workspace", "--samples", "100"],
    ["doctor", "--quick"],
):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(words) == 0, words
    said[words[0]] = out.getvalue()
print(json.dumps(said))
"""
SAID = {
    "params": "all 10 sections are right",
    "evaluate": "STSSample  scenes",
    "audit": "train",
    "sweep": "image_r10",
    "compare": "Bootstrap: 100 resamples",
}


@pytest.mark.full
def test_project_of_the_wheel_runs_and_an_upgrade_reruns_dependent_stages(wheel, small_run, tmp_path):
    """Its stages start as a user's do, and take two threads; those of the shared small run are copies, with one."""
    place, demo = tmp_path / "environment", tmp_path / "demo"
    site = install(wheel, place)
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # after the wheel, without its .pth files
    own = {
        **environment(tmp_path / "store", forked=False),
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SIGHTWORD_THREADS": "2",
    }
    own.pop("PYTHONPATH", None)

    def call(*command: object, cwd: Path = demo) -> str:
        done = run(*command, cwd=cwd, env=own)
        assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    sightword_, dvc = place / "bin/sightword", (place / "bin/python", "-m", "dvc")
    assert "\n  flickr8k  " in call(sightword_, "params", "--list", cwd=tmp_path)
    assert call(sightword_, "init", "demo", cwd=tmp_path).endswith("Next: cd demo && dvc repro\n")
    shrink(demo)
    call("git", "add", "-A")
    call("git", "commit", "-qm", "start")
    call(*dvc, "repro")
    assert locked(demo) == small_run.locked()
    call("git", "add", "-A")
    call("git", "commit", "-qm", "sample")
    said = json.loads(call(place / "bin/python", "-c", COMMANDS).splitlines()[-1])
    assert all(words in said[command] for command, words in SAID.items()), said
    assert re.search(r'"id": "(test|dev|train)-\d+\.', said["search"])
    assert "PROBLEM" not in said["doctor"]
    assert "up to date" in call(*dvc, "status", "dvc.yaml")

    with (site / "sightword/evaluation/retrieval/ranks.py").open("a") as code:
        code.write("# a newer version\n")
    refused = run(*dvc, "repro", "--force", "--single-item", "retrieval", cwd=demo, env=own)
    assert refused.returncode
    assert "has other code than this list: sightword/evaluation/retrieval/ranks.py" in refused.stderr
    assert "(files: 4 changed;" in call(sightword_, "init", "--renew")
    assert json.loads(call(*dvc, "status", "--json", "dvc.yaml")).keys() == {"epochs", "report", "retrieval", "select"}
    call(*dvc, "repro")
    assert "up to date" in call(*dvc, "status", "dvc.yaml")
