"""The image network of the sample is trained on other scenes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from sightword.corpus.sample.scene import Group, Scene, World, load_world, random_scene, scenes_of, split_of
from sightword.errors import CorpusError
from sightword.features.networks import find_backbone
from sightword.features.weights import Weights
from sightword.io import yaml_reader
from sightword.io.files import sha256_file
from tools import sample_network
from tools.sample_network import Phase, other_scenes, properties


@pytest.fixture(scope="module")
def world(repository: Path) -> World:
    return load_world(repository / "data/raw/sample")


def test_training_never_sees_objects_on_the_background_of_a_scene_of_the_sample(world: World) -> None:
    sample = {scene.objects() for split in ("train", "dev", "test") for scene in scenes_of(world, split)}
    for split in ("train", "dev"):
        scenes = other_scenes(world, random.Random(3), split)
        found = [next(scenes) for _ in range(300)]
        assert not sample & {scene.objects() for scene in found}
        assert {split_of(scene) for scene in found} == {split}


def test_a_world_without_other_scenes(world: World, monkeypatch) -> None:
    monkeypatch.setattr(sample_network, "_TRIES", 5)
    everything = world.model_copy(update={"counts": {1: ["a"]}})
    with pytest.raises(CorpusError, match="nearly all scenes of the split none"):
        next(other_scenes(everything, random.Random(3), "none"))


def test_properties_belong_to_their_group_and_left_is_right(world: World) -> None:
    star, ring = Group("star", "red", "small", 2), Group("ring", "blue", "large", 1)
    found = properties(Scene((star, ring), "snow", "left"), world)
    assert found["shape and colour"] == ["star red", "ring blue"]
    assert found["background"] == ["snow"]
    assert found == properties(Scene((star, ring), "snow", "right"), world)
    above = properties(Scene((star, ring), "snow", "above"), world)
    assert above["shape and layout"] == ["star relation above", "ring relation below"]
    for number in range(50):
        scene = random_scene(world, random.Random(number))
        assert {len(values) for name, values in properties(scene, world).items() if name != "background"} == {
            len(scene.groups)
        }


def test_a_few_steps_lower_the_loss_and_write_a_file_for_the_stage(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sample_network, "PHASES", (Phase(64, 40, 4, 0.003), Phase(96, 8, 2, 0.001)))
    monkeypatch.setattr(sample_network, "HELD_OUT", 3)
    path = tmp_path / "net.safetensors"
    with caplog.at_level("INFO"):
        sample_network.main([str(repository / "data/raw/sample"), str(path)])
    losses = [float(line.rsplit(" ", 1)[1]) for line in caplog.messages if line.startswith("pass")]
    assert len(losses) == 6
    assert losses[3] < losses[0]
    assert f"sha256 {sha256_file(path)}" in caplog.messages[-1]
    assert any(line.startswith("shape and colour: right in ") for line in caplog.messages)
    network = Weights(find_backbone(sample_network.BACKBONE), path.name, folder=tmp_path).load()
    state = network.state_dict()
    assert state["conv1.1.running_mean"].abs().sum() > 0  # BatchNorm's statistics came along
    assert torch.equal(state["conv1.0.weight"], state["conv1.0.weight"].half().float())


def test_the_weights_in_git_were_trained_beside_the_sample_in_git(repository: Path) -> None:
    """Another scenes.yaml may have the scenes that the network was trained on."""
    settings = yaml_reader.parse((repository / "params.yaml").read_text(), "sample.yaml")["features"]
    path = repository / settings["inputs"] / settings["weights"]
    assert settings["weights_sha256"] == sha256_file(path)
    assert path.stat().st_size <= 1_500_000
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["about"])
    assert about["scenes_sha256"] == sha256_file(repository / "data/raw/sample/scenes.yaml")
    assert about["licence"] == "Apache-2.0"
    assert settings["backbone"] == sample_network.BACKBONE


def test_a_missing_world_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"sample_network: .*scenes\.yaml"):
        sample_network.main([str(tmp_path / "none"), str(tmp_path / "net.safetensors")])
    assert not (tmp_path / "net.safetensors").exists()
