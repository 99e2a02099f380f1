"""What is reckoned before a run, against what real writers wrote."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_project
from looks import only, states
from PIL import Image

from pipeline.doctor import capacity, needs
from pipeline.doctor.capacity import available, look_at_disk, look_at_memory
from pipeline.doctor.context import Situation, precomputed_shape
from pipeline.doctor.corpus_size import CorpusSize, measure
from pipeline.doctor.findings import Check, examine
from pipeline.doctor.torch_facts import encoder_sizes
from pipeline.lineage.lock import Lock
from pipeline.params import params_file
from sightword import machine
from sightword.features.table import Origin, write_features
from sightword.images.resized import Source, write_resized
from sightword.training.checkpoint import Checkpoint
from sightword.training.settings import TrainSettings

TORCH = {"torch": "2", "devices": [], "dimension": 1024, "network_bytes": 1_400_000, "encoder_bytes": 1_268_032,
         "weight_bytes": 1_259_840}  # fmt: skip


@pytest.mark.parametrize(("count", "width"), [(3, 8), (700, 1024)])
def test_the_size_of_features(tmp_path: Path, count: int, width: int) -> None:
    names = [f"picture-{number:05d}.jpg" for number in range(count)]
    values = np.zeros((count, width), np.float32)
    origin = Origin("resnet152", "", "w", "", "{}", "fp32", "extracted")
    write_features(tmp_path / "features.h5", names, ["0" * 64] * count, width, [(np.arange(count), values)], origin)
    corpus = CorpusSize(count, len(names[0]), 0.0, 1, "")
    assert needs.feature_bytes(corpus, width) == pytest.approx(
        (tmp_path / "features.h5").stat().st_size, rel=1e-3, abs=1200
    )
    assert precomputed_shape(tmp_path / "features.h5") == (count, width)


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden": 24},
        {"hidden": 24, "cell": "lstm", "average": "ema", "loss": "infonce"},
        {"hidden": 40, "bidirectional": False, "pooling": "max", "average": "swa", "snapshots": "epoch"},
    ],
)
def test_the_sizes_of_snapshots_and_checkpoints(tmp_path: Path, monkeypatch, settings: dict[str, Any]) -> None:
    from stages import train

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_SCRATCH", str(tmp_path / "scratch"))
    small_project.write_corpus(without=())
    small_project.write_pictures(width=300)
    seen: dict[str, int] = {}

    def look(self: Checkpoint) -> None:
        seen.update({path.name: path.stat().st_size for path in self.folder.glob("*.safetensors")})

    monkeypatch.setattr(Checkpoint, "done", look)
    wanted = TrainSettings(epochs=4, cycle=2, batch=4, attention=8, **settings)
    train.work(wanted)()  # as the runner does once the facts are written
    tokens = train_tokens()
    facts = encoder_sizes(wanted, tokens, 300)
    (state,) = [size for name, size in seen.items() if name.startswith("state-")]
    assert needs.checkpoint_bytes(facts, wanted) == pytest.approx(state, rel=0.05)
    snapshots = [path.stat().st_size for path in Path("models/snapshots").glob("*.safetensors")]
    assert needs.snapshots(wanted) == len(snapshots)
    assert needs.snapshot_bytes(facts) == pytest.approx(snapshots[0], rel=0.02)


def train_tokens() -> int:
    from sightword.captions.vocabulary import Vocabulary

    return len(Vocabulary.load("data/captions/vocabulary.json"))


def test_a_network_that_no_memory_could_hold_is_only_reckoned() -> None:
    settings = TrainSettings(hidden=200_000)
    sizes = encoder_sizes(settings, 100, 2048)
    assert sizes["weight_bytes"] > 4 * 2 * 3 * 200_000**2


def photographs(folder: Path, count: int) -> list[str]:
    """Pictures that compress as photographs do: not at all flat, not all noise."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), np.uint8)).resize(
            (400, 300), Image.Resampling.BICUBIC
        )
        noise = random.normal(0, 6, (300, 400, 3))
        Image.fromarray(np.clip(np.asarray(coarse) + noise, 0, 255).astype(np.uint8)).save(folder / f"{number:03d}.jpg")
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("encoding", ["webp", "png", "raw"])
def test_the_size_of_resized_pictures(project, tmp_path: Path, encoding) -> None:
    folder = project.folder / "data/raw/own/images"
    names = photographs(folder, 20)
    project.edit("params.yaml", "format: sample  ", "format: table  ")
    project.edit("params.yaml", "  path: data/raw/sample", "  path: data/raw/own")
    project.edit("params.yaml", "pictures: data/corpus/pictures", "pictures: data/raw/own/images")
    project.edit("params.yaml", "encoding: webp", f"encoding: {encoding}")
    situation = Situation(project.folder, project.folder)
    corpus = measure(situation)
    assert corpus is not None
    assert corpus.pictures == 20
    settings = params_file.load(project.folder / "params.yaml")["resize"]
    write_resized(tmp_path / "resized", [Source(name, str(folder / name)) for name in names], settings)
    written = sum(path.stat().st_size for path in (tmp_path / "resized").glob("shard-*"))
    assert corpus.pictures * corpus.resized == pytest.approx(written, rel=0.05)


def test_the_sample_is_reckoned_before_it_is_drawn(project) -> None:
    corpus = measure(Situation(project.folder, project.folder))
    assert corpus is not None
    assert (corpus.pictures, corpus.how) == (480, "scenes.yaml")


def disk_of(free: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.disk_usage("/")
    monkeypatch.setattr(capacity.shutil, "disk_usage", lambda _: real._replace(free=int(free)))


def test_a_disk_that_is_large_tight_or_too_small(project, monkeypatch) -> None:
    project.known |= {"torch": TORCH}
    (ample,) = project.look(look_at_disk)  # all folders of the tests lie on one disk
    assert ample.state == "ok"
    assert "480 pictures (scenes.yaml)" in ample.what
    assert "4 snapshots" in ample.what
    for free, state in ((1e6, "problem"), (1e12, "ok")):
        disk_of(free, monkeypatch)
        assert "are free" in only(project.look(look_at_disk), state).what


def test_more_epochs_and_a_larger_network_need_more(project) -> None:
    def total() -> float:
        situation = Situation(project.folder, project.folder, known={"torch": TORCH})
        corpus = measure(situation)
        assert corpus is not None
        return sum(item.bytes for item in needs.disk(situation, corpus))

    before = total()
    project.edit("params.yaml", "epochs: 8\n", "epochs: 80\n")
    assert total() - before == pytest.approx(2 * 36 * 1_270_000, rel=0.01)  # in the scratch folder, then in the project


def test_without_a_corpus_nothing_can_be_reckoned(project) -> None:
    (project.folder / "data/raw/sample/scenes.yaml").unlink()
    assert "not known" in only(project.look(look_at_disk), "warning").what
    assert project.look(look_at_memory) == []


def test_memory_that_is_enough_or_not(project, monkeypatch) -> None:
    project.known |= {"torch": TORCH}
    for free, expected in ((1e12, {"ok"}), (1e6, {"problem"})):
        monkeypatch.setattr(capacity, "available", lambda free=free: free)
        found = project.look(look_at_memory)
        assert [one.what.split()[2] for one in found] == ["resize", "features", "train"]
        assert states(found) == expected


def test_what_has_run_and_is_here_needs_nothing(project) -> None:
    situation = Situation(project.folder, project.folder)
    for entry in situation.lock.entries.values():
        for out in entry.outs:
            (project.folder / out.path).mkdir(parents=True)
            (project.folder / out.path / "file").write_text("x")
    # The entries with the parameters of now: the repository's own lock may be of others while somebody works on it.
    values = {name: section.model_dump() for name, section in (situation.settings or {}).items()}
    locked = {
        name: replace(entry, params={"params.yaml": {name: values[name]}})
        for name, entry in situation.lock.entries.items()
    }
    situation.__dict__["lock"] = Lock(locked)
    checks = [Check("disk", look_at_disk), Check("memory", look_at_memory)]
    situation.known = {"torch": TORCH, "dvc": {"site_cache": str(project.folder)}}
    found = list(examine(checks, situation))
    assert [one.state for one in found] == ["ok", "ok"]
    assert "no more disk is needed" in found[0].what
    assert "have run" in found[1].what


def test_the_memory_of_a_card(project, monkeypatch) -> None:
    monkeypatch.setattr(capacity, "available", lambda: 1e12)
    card = {"name": "a card", "free": 1e6, "total": 8e9, "kind": "sm_90"}
    project.known |= {"torch": {**TORCH, "devices": [card]}}
    found = [one for one in project.look(look_at_memory) if one.state == "warning"]
    assert ["a card" in one.what for one in found] == [True, True]
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    assert states(project.look(look_at_memory)) == {"ok"}


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch) -> None:
    whole = available()
    assert whole is None or whole > 1e6
    (tmp_path / "max").write_text("2000000\n")
    (tmp_path / "current").write_text("1500000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 200000\n")
    monkeypatch.setattr(capacity, "GROUPS", ((tmp_path / "max", tmp_path / "current"),))
    assert available() == 700_000
    (tmp_path / "max").write_text("max\n")
    assert available() != 700_000
    monkeypatch.setattr(capacity, "MEMORY", tmp_path / "none")
    assert available() is None


@pytest.mark.slow
def test_what_a_training_holds_is_about_what_was_reckoned(tmp_path: Path, repository, monkeypatch) -> None:
    from memory import peak

    monkeypatch.chdir(tmp_path)
    small_project.write_corpus()
    small_project.write_pictures(width=2048)
    values = (repository / "recipes/sample.yaml").read_text()
    for old, new in (("hidden: 96 ", "hidden: 512 "), ("epochs: 8\n", "epochs: 2\n"), ("batch: 32", "batch: 8"),
                     ("members: 2 ", "members: 1 ")):  # fmt: skip
        assert old in values
        values = values.replace(old, new, 1)
    (tmp_path / "params.yaml").write_text(values)
    held = 1e6 * peak(repository, tmp_path, "-m", "stages", "train", "-q")
    settings = params_file.load("params.yaml")
    facts = {**TORCH, "dimension": 2048, **encoder_sizes(settings["train"], train_tokens(), 2048)}
    situation = Situation(tmp_path, tmp_path, known={"torch": facts})
    reckoned = needs.memory(situation, CorpusSize(12, 8, 0.0, 20, ""), machine.current())
    assert next(one.bytes for one in reckoned if one.stage == "train") == pytest.approx(held, rel=0.35)
