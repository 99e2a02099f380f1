"""A project in the current folder in which the stage train runs, as a process, in seconds."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import fork_server
import numpy as np
from ruamel.yaml import YAML

from sightword.captions.settings import CaptionsSettings
from sightword.corpus.reading import clean
from sightword.corpus.records import Caption, Image, write_tables
from sightword.features.tables.table import Origin, write_features

PICTURES = 150
WORDS = ["red", "dog", "runs", "over", "snow", "two", "kids", "play", "ball", "green", "hat", "near", "boat"]


def write_project(repository: Path, **settings: object) -> None:
    """Write what the stages before train would write, and parameters for a run of a few seconds."""
    draw = random.Random(0)
    names = [f"{number:04d}.jpg" for number in range(PICTURES)]
    images = [Image(name, name, "dev" if number % 5 == 0 else "train") for number, name in enumerate(names)]
    captions = [Caption(name, key, " ".join(draw.choices(WORDS, k=5))) for name in names for key in "012"]
    write_tables("data/corpus", clean(images, captions, None, require_pictures=False), "pictures")
    features = np.random.default_rng(0).normal(size=(PICTURES, 12)).astype(np.float32)
    origin = Origin("", "", "", "", "{}", "fp32", "precomputed")
    blocks = [(np.arange(PICTURES, dtype=np.int64), features)]
    write_features("data/features/features.h5", names, [""] * PICTURES, 12, blocks, origin)
    from stages.captions import work

    work(CaptionsSettings())
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["train"] |= {"hidden": 96, "epochs": 8, "cycle": 2, "batch": 16, "loss": "infonce", "dropout_states": 0.2}
    document["train"] |= settings
    with Path("params.yaml").open("w") as stream:
        YAML().dump(document, stream)


def start(
    project: Path, repository: Path, scratch: Path, *, program: Sequence[str] = (), **more: str
) -> subprocess.Popen[str]:
    """Start the stage; the program that runs Python's modules may be another one."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "SIGHTWORD_DEVICE": "cpu",
        "SIGHTWORD_THREADS": "1",
        "SIGHTWORD_SCRATCH": str(scratch),
    }
    environment.pop("DVC_STAGE", None)
    environment |= more
    return subprocess.Popen(
        [*(program or [fork_server.python()]), "-m", "stages", "train"], cwd=project, env=environment,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """Wait until the stage has ended well; what it wrote."""
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def outputs(project: Path) -> dict[str, str]:
    """The hash of each output."""
    paths = [path for folder in ("models", "metrics", "plots") for path in (project / folder).rglob("*")]
    return {
        str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file()
    }


def curves(project: Path) -> dict[str, list[str]]:
    """The lines of each table that is there to be watched."""
    folder = project / "plots/train"
    return {str(path.relative_to(folder)): path.read_text().splitlines() for path in folder.rglob("*.tsv")}


def wait_for(epoch: int, process: subprocess.Popen[str], project: Path) -> None:
    """Until the curves show that epoch."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if len(curves(project).get("recall.tsv", [])) > epoch + 1:  # the names of the columns, and epoch 0
            return
        time.sleep(0.01)
    raise AssertionError(f"epoch {epoch} was not reached")
