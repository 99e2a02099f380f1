"""Bad input to a stage, as a program: one clear message, exit code 1, earlier outputs as they were."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import fork_server
import h5py
import numpy as np
import pytest
from PIL import Image
from ruamel.yaml import YAML
from stage_here import MACHINE, run_here

from sightword.features.tables.table import Origin, write_features

RAW = Path("data/raw/own")


def run(repository, folder, stage):
    """As a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(repository), **MACHINE}
    environment.pop("DVC_STAGE", None)
    return subprocess.run(
        [fork_server.python(), "-m", "stages", stage],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def change(folder, **values):
    path = folder / "params.yaml"
    document = YAML(typ="safe", pure=True).load(path.read_text())
    for name, value in values.items():
        section, _, key = name.partition("__")
        if key:
            document[section][key] = value
        else:
            document[section] = value
    with path.open("w") as stream:
        YAML().dump(document, stream)


def corpus(folder, form, **own):
    paths = {"path": str(RAW), "pictures": str(RAW / "pictures")}
    others = {"beside": "data/raw/captions", "beside_files": "", "beside_without": None}
    change(folder, corpus={"format": form, **paths, "require_pictures": True, **others, "seal": 0, **own})


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def prepared(repository, tmp_path_factory):
    """A project of three drawn pictures whose stages corpus, resize and features have run."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / RAW / "pictures").mkdir(parents=True)
    (folder / "data/raw/features").mkdir(parents=True)
    rows = ["image,caption,split"]
    for number, split in enumerate(("train", "dev", "test")):
        Image.new("RGB", (60, 40), (90 * number, 20, 200)).save(folder / RAW / f"pictures/{number}.png")
        rows.append(f"{number}.png,a picture,{split}")
    (folder / RAW / "captions.csv").write_text("\n".join(rows) + "\n")
    (folder / "params.yaml").write_text((repository / "params.yaml").read_text())
    corpus(folder, "table", file=None, columns={}, draw_dev=0.0, draw_test=0.0)
    change(folder, resize__side=40, features__crop=32, features__weights="random", features__weights_sha256="")
    for stage in ("corpus", "resize", "features"):
        done = run_here(repository, folder, stage)
        assert done.returncode == 0, done.stderr
    return folder


def missing_folder(folder):
    change(folder, corpus__path="data/raw/nowhere", corpus__pictures="data/raw/nowhere/pictures")


def half_a_json(folder):
    corpus(folder, "karpathy", file=None, text="raw", restval="train")
    whole = json.dumps({"images": [{"filename": "0.png", "split": "train", "sentences": [{"raw": "a"}]}]})
    (folder / RAW / "dataset_own.json").write_text(whole[: len(whole) // 2])


def misspelt_key(folder):
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("margin:", "margn:"))


def other_weights(folder):
    (folder / "data/raw/features/w.safetensors").write_bytes(b"something else")
    change(folder, features__weights="w.safetensors", features__weights_sha256="1" * 64)


def changed_features(folder):
    origin = Origin("none", "", "none", "", "{}", "fp32", "extracted")
    block = (np.arange(3), np.ones((3, 4), np.float32))
    path = folder / "data/raw/features/f.h5"
    write_features(path, ["0.png", "1.png", "2.png"], [""] * 3, 4, [block], origin)
    with h5py.File(path, "a") as file:
        file.attrs["backbone"] = "vgg19"
    change(folder, features__source="precomputed", features__precomputed="f.h5")


def broken_picture(folder):
    picture = folder / RAW / "pictures/1.png"
    picture.write_bytes(picture.read_bytes()[:40])


AS_A_PROCESS = (other_weights,)
"""An error after torch is loaded; a process takes seconds to start."""


@pytest.mark.parametrize(
    ("stage", "spoil", "message"),
    [
        ("corpus", missing_folder, "data/raw/nowhere: does not exist. Put the corpus there"),
        ("corpus", half_a_json, "dataset_own.json, line 1, column"),
        ("corpus", misspelt_key, "train.margn: no such key (did you mean 'margin'?)"),
        ("resize", broken_picture, "1 picture cannot be used"),
        ("features", other_weights, "w.safetensors: has the sha256"),
        ("features", changed_features, "f.h5: is damaged or was changed: the sha256 of its bytes from 512 on is"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_bad_input_is_reported_and_earlier_outputs_stay(repository, prepared, tmp_path, stage, spoil, message):
    folder = tmp_path / "project"
    shutil.copytree(prepared, folder)
    spoil(folder)
    outputs = {name: contents(folder / "data" / name) for name in ("corpus", "resized", "features")}
    done = (run if spoil in AS_A_PROCESS else run_here)(repository, folder, stage)
    assert done.returncode == 1, done.stderr
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith((f"{stage}: ", "  ", "Fix the file"))
    assert "Traceback" not in done.stderr
    assert {name: contents(folder / "data" / name) for name in outputs} == outputs
    assert not list((folder / "data").glob(".*"))
