"""The stage train as a process: killed at any moment and started again, it ends with the same bytes; its memory."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from memory import peak
from ruamel.yaml import YAML
from stage_here import run_here
from training_project import curves, finish, outputs, start, wait_for, write_project

from sightword.captions.table import CaptionTable, write_captions
from sightword.captions.vocabulary import FOLDER, Vocabulary
from sightword.features.tables.table import Origin, write_features
from sightword.training import engine
from sightword.vse.training.task import CaptionTask


@pytest.fixture
def project(repository, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_project(repository)
    return tmp_path


@pytest.mark.slow
def test_run_killed_twice_ends_with_the_same_bytes(project, repository, tmp_path_factory) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    finish(start(project, repository, scratch))
    wanted = outputs(project)
    assert sum(name.endswith(".safetensors") for name in wanted) == 4
    assert list((scratch / "train").glob("*/*")) == []  # nothing is left, so a second run is a whole one
    said = finish(start(project, repository, scratch))
    assert "goes on after" not in said
    assert outputs(project) == wanted

    whole = curves(project)
    earlier = {name: digest for name, digest in wanted.items() if not name.startswith("plots/")}
    draw = random.Random(1)
    for target in (1, 5):
        shutil.rmtree(project / "plots")  # as DVC does before a stage
        process = start(project, repository, scratch)
        wait_for(target, process, project)
        time.sleep(draw.random() * 0.2)
        assert process.poll() is None
        process.kill()
        process.communicate()
        left = outputs(project)
        assert earlier.items() <= left.items()  # the earlier ones stay until the new ones are whole
        assert all(lines == whole[name][: len(lines)] for name, lines in curves(project).items())
    said = finish(start(project, repository, scratch))
    assert "goes on after batch" in said
    assert outputs(project) == wanted


def test_checkpoint_stays_until_the_facts_are_written(project, repository, tmp_path) -> None:
    """DVC deletes the outputs of a run that did not end well: then the checkpoint is all that is left."""
    document = YAML(typ="safe", pure=True).load(Path("params.yaml").read_text())
    document["train"] |= {"epochs": 2, "cycle": 1}
    with Path("params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    scratch = tmp_path / "scratch"
    under_dvc = {"DVC_STAGE": "train", "SIGHTWORD_STORE": str(tmp_path / "store")}

    def half_done() -> int:
        return sum(path.is_dir() for path in (scratch / "train").iterdir())

    said = finish(start(project, repository, scratch, **under_dvc))  # without dvc.yaml there are no facts
    assert "the facts of this run are not kept" in said
    wanted = outputs(project)
    assert sum(name.endswith(".safetensors") for name in wanted) == 2
    assert half_done() == 1
    for more, left in ((under_dvc, 1), ({}, 0)):
        for folder in ("models", "metrics", "plots"):
            shutil.rmtree(folder)
        said = finish(start(project, repository, scratch, **more))
        assert "goes on after batch" in said
        assert ("the facts of this run are not kept" in said) == bool(left)
        assert outputs(project) == wanted
        assert half_done() == left


def test_half_done_run_with_a_file_added_to_the_data_starts_afresh(project, repository, tmp_path, monkeypatch):
    honest = CaptionTask.step

    def step(self, number):
        if number % 20 == 19:
            raise KeyboardInterrupt
        return honest(self, number)

    def said() -> str:
        done = run_here(repository, project, "train", SIGHTWORD_SCRATCH=str(tmp_path / "scratch"))
        assert done.returncode == 130
        return done.stderr

    monkeypatch.setattr(engine, "SECONDS", 0.0)
    monkeypatch.setattr(CaptionTask, "step", step)
    assert "goes on" not in said()
    assert "goes on after batch 19" in said()
    Path("data/captions/other.txt").write_text("")
    assert "goes on" not in said()
    assert sum(path.is_dir() for path in (tmp_path / "scratch/train").iterdir()) == 2


# COCO trains on a plain computer: its features are held once, beside what a batch needs


COCO = 113_287
WIDTH = 2048
DEV = 100


def of_pictures(repository: Path, folder: Path, pictures: int, **settings: object) -> Path:
    """What the stage train reads: five captions a picture, of Flickr8k's lengths."""
    random = np.random.default_rng(0)
    names = [f"{number:06d}" for number in range(pictures)]
    splits = ["dev" if number < DEV else "train" for number in range(pictures)]
    blocks = (
        (rows, random.standard_normal((len(rows), WIDTH), np.float32))
        for rows in np.array_split(np.arange(pictures), pictures // 1000 + 1)
    )
    origin = Origin("resnet152", "", "w", "", "{}", "fp32", "extracted")
    write_features(folder / "data/features/features.h5", names, [""] * pictures, WIDTH, blocks, origin)
    lines = ["a dog runs over the green grass", "two men on a bench in the snow, one of them with a red hat on"]
    vocabulary = Vocabulary.build(lines)
    ids = [np.asarray(vocabulary.encode(line), np.int32) for line in lines]
    captions = 5 * pictures
    write_captions(
        folder / "data/captions/captions.parquet",
        CaptionTable(
            image_ids=[name for name in names for _ in range(5)],
            captions=list(range(5)) * pictures,
            splits=[split for split in splits for _ in range(5)],
            texts=[lines[number % 2] for number in range(captions)],
            ids=[ids[number % 2] for number in range(captions)],
        ),
    )
    FOLDER.write(folder / "data/captions", vocabulary.to_json(), ["captions.parquet"])
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["select"]["members"] = 1
    document["train"] |= {"epochs": 1, "cycle": 1, "captions_per_epoch": "one", **settings}
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    return folder


@pytest.mark.full
def test_memory_is_that_of_the_features_and_a_batch(repository, tmp_path):
    held = {}
    for pictures in (1_000, COCO // 10):
        folder = of_pictures(repository, tmp_path / str(pictures), pictures, hidden=64, batch=500)
        scratch = str(tmp_path / f"scratch-{pictures}")
        held[pictures] = peak(repository, folder, "-m", "stages", "train", "-q", SIGHTWORD_SCRATCH=scratch)
    growth = (held[COCO // 10] - held[1_000]) / (COCO // 10 - 1_000)  # megabytes a picture
    assert growth > WIDTH * 4 / 1e6
    # 1.5 GB stands for torch and a batch of the largest published network.
    assert growth * COCO + 1500 < 6000
