"""Trains the sample's image network on other scenes of the sample's world.

``python -m tools.sample_network data/raw/sample data/raw/features/sample_shufflenet.safetensors`` draws the scenes,
trains, and writes the weights without the classifier's, in minutes on two cores. The network is torchvision's and
begins with random weights. It learns the background of a scene, the shape, colour, size, count and position of each
group of objects, and which of these properties belong to one group.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import logging
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from torch import nn

from sightword import machine
from sightword.compute import devices
from sightword.corpus.sample.drawing import draw_scene
from sightword.corpus.sample.scene import FILE, Scene, World, load_world, random_scene, scenes_of, split_of, stream
from sightword.errors import CorpusError, SightwordError
from sightword.features.extractor import cut, normalise, positions
from sightword.features.networks import build, find_backbone
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.images.resized import resize
from sightword.io.files import Pathish, atomic_file, canonical_json, sha256_file
from sightword.settings import SPLITS

log = logging.getLogger("sightword")

MEAN, STD = torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)
BACKBONE = "shufflenet_v2_x0_5"
_TRIES = 10_000


class Phase(NamedTuple):
    """A part of the training, on pictures of one size."""

    side: int
    """Smaller side of the pictures, in pixels."""
    scenes: int
    """Number of scenes, drawn anew."""
    passes: int
    """Passes over the scenes."""
    rate: float
    """Highest learning rate."""


_FULL = 256
"""Smaller side of the pictures that the stage ``features`` reads for the sample."""
PHASES = (Phase(_FULL // 2, 4000, 20, 0.004), Phase(_FULL, 1200, 3, 0.001))
"""A step on small pictures costs a quarter."""
BATCH = 16
"""Pictures in a batch."""
HELD_OUT = 200
"""Pictures for the accuracies."""


def other_scenes(world: World, rng: random.Random, split: str = "train") -> Iterator[Scene]:
    """Yield random scenes of a split, without those of the sample.

    No scene has the same objects on the same background as a scene of the sample, and scenes of ``train`` have no
    combination that dev or test can have.

    Raises:
        CorpusError: the world has too few scenes.
    """
    sample = {scene.objects() for name in SPLITS for scene in scenes_of(world, name)}
    while True:
        tries = (random_scene(world, rng) for _ in range(_TRIES))
        found = next((one for one in tries if split_of(one) == split and one.objects() not in sample), None)
        if found is None:
            todo = "Describe more shapes, colours or backgrounds in scenes.yaml, or ask for fewer pictures."
            raise CorpusError(f"the sample has nearly all scenes of the split {split}", todo=todo)
        yield found


def properties(scene: Scene, world: World) -> dict[str, list[str]]:
    """Return the values of each property of a scene: the background, and five properties and their pairs of each group.

    Left and right are one value: features are the mean of a picture's and its mirror image's.
    """
    found = {"background": [str(scene.background)]}
    for group, layout in zip(scene.groups, _layouts(scene, world), strict=True):
        own = {"shape": group.shape, "colour": group.colour, "size": group.size, "count": group.count, "layout": layout}
        for names in itertools.chain(itertools.combinations(own, 1), itertools.combinations(own, 2)):
            found.setdefault(" and ".join(names), []).append(" ".join(str(own[name]) for name in names))
    return found


def _layouts(scene: Scene, world: World) -> list[str]:
    layouts = [str(scene.layout)]
    if len(scene.groups) == 2:
        layouts += [relation.converse for name, relation in world.relations.items() if name == scene.layout]
    kind = "relation" if len(scene.groups) == 2 else "place"
    return [f"{kind} {'beside' if layout in ('left', 'right') else layout}" for layout in layouts]


class Pictures:
    """Drawn pictures, and for each property the shares of its values.

    Args:
        world: the description of the sample.
        scenes: random scenes.
        count: the number of pictures.
        side: the smaller side of the pictures, in pixels.
        values: the values of each property.
        rng: draws the pictures.
    """

    def __init__(
        self,
        world: World,
        scenes: Iterator[Scene],
        count: int,
        side: int,
        values: Mapping[str, Sequence[str]],
        rng: random.Random,
    ) -> None:
        self.pixels: list[torch.Tensor] = []
        """uint8 (height, width, 3) of each picture."""
        self.shares = {name: torch.zeros(count, len(known)) for name, known in values.items()}
        """The shares of the values of each property, (N, values)."""
        for row, scene in enumerate(itertools.islice(scenes, count)):
            width, height = rng.choice(world.sizes)
            drawn = (round(width * side / _FULL), round(height * side / _FULL))
            picture = draw_scene(scene, drawn, world, rng)
            small = resize(picture, size=side, interpolation="lanczos", max_pixels=10_000_000)
            self.pixels.append(torch.from_numpy(np.array(small)))
            for name, found in properties(scene, world).items():
                for value in found:
                    self.shares[name][row, values[name].index(value)] += 1 / len(found)

    def batches(self, rng: random.Random) -> Iterator[tuple[torch.Tensor, list[int]]]:
        """Yield all pictures in random order, each mirrored or not: (B, 3, height, width) of one size, and the rows."""
        by_size: dict[tuple[int, ...], list[int]] = {}
        for row in rng.sample(range(len(self.pixels)), len(self.pixels)):
            by_size.setdefault(tuple(self.pixels[row].shape), []).append(row)
        batches = [rows[start : start + BATCH] for rows in by_size.values() for start in range(0, len(rows), BATCH)]
        rng.shuffle(batches)
        for rows in batches:
            pictures = [normalise(self.pixels[row], MEAN, STD) for row in rows]
            mirrored = [picture.flip(1) if rng.random() < 0.5 else picture for picture in pictures]
            yield torch.stack(mirrored).permute(0, 3, 1, 2), rows


def vocabulary(world: World) -> dict[str, list[str]]:
    """Return the values of each property in many random scenes, sorted."""
    rng, found = stream(world, "network", "vocabulary"), dict[str, set[str]]()
    for _ in range(20_000):
        for name, values in properties(random_scene(world, rng), world).items():
            found.setdefault(name, set()).update(values)
    return {name: sorted(values) for name, values in found.items()}


def train(
    world: World, phases: Sequence[Phase], *, seed: int = 0, held_out: int = HELD_OUT
) -> tuple[nn.Module, dict[str, float]]:
    """Return the trained network, with weights in half precision as the file has them, and its accuracies.

    The accuracies are the shares of ``held_out`` pictures, of objects and backgrounds that were not in training
    together, whose most likely ``shape and colour`` of each group and ``background`` are right.

    Raises:
        CorpusError: the world has too few scenes.
    """
    values = vocabulary(world)
    rng = stream(world, "network", seed)
    with devices.OwnRandom(seed):
        network = build(find_backbone(BACKBONE), initialise=True)
        head = network.get_submodule("fc")
        assert isinstance(head, nn.Linear)
        network.add_module("fc", nn.Linear(head.in_features, sum(map(len, values.values()))))
    for phase in phases:
        pictures = Pictures(world, other_scenes(world, rng), phase.scenes, phase.side, values, rng)
        log.info("%d scenes drawn, smaller side %d", phase.scenes, phase.side)
        _run(network, phase, pictures, rng)
    unseen = Pictures(world, other_scenes(world, rng, "dev"), held_out, phases[-1].side, values, rng)
    network.half().float()
    return network, _accuracies(network.eval(), unseen)


def _run(network: nn.Module, phase: Phase, pictures: Pictures, rng: random.Random) -> None:
    widths = [shares.shape[1] for shares in pictures.shares.values()]
    sizes = collections.Counter(tuple(pixels.shape) for pixels in pictures.pixels)
    steps = phase.passes * sum(math.ceil(count / BATCH) for count in sizes.values())
    optimiser = torch.optim.AdamW(network.parameters(), phase.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, phase.rate, total_steps=steps, pct_start=0.2)
    network.train()
    for number in range(phase.passes):
        total = 0.0
        for batch, rows in pictures.batches(rng):
            scores = network(batch).split(widths, dim=1)
            pairs = zip(scores, pictures.shares.values(), strict=True)
            loss = torch.stack([nn.functional.cross_entropy(mine, shares[rows]) for mine, shares in pairs]).sum()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
            total += loss.item() * len(rows)
        log.info("pass %d of %d: loss %.3f", number + 1, phase.passes, total / phase.scenes)


@torch.inference_mode()
def _accuracies(network: nn.Module, pictures: Pictures) -> dict[str, float]:
    """Return the share of pictures with the right objects and background, from the mean of ten crops."""
    crop = round(min(pictures.pixels[0].shape[:2]) * 0.875)
    crops, right = torch.empty(10, crop, crop, 3), {"shape and colour": 0, "background": 0}
    widths = [shares.shape[1] for shares in pictures.shares.values()]
    for row, pixels in enumerate(pictures.pixels):
        cut(
            normalise(pixels.view(-1, 3), MEAN, STD),
            positions([(pixels.shape[0], pixels.shape[1])], crop, "ten"),
            crops,
        )
        scores = dict(zip(pictures.shares, network(crops.permute(0, 3, 1, 2)).mean(0).split(widths), strict=True))
        for name in right:
            wanted = pictures.shares[name][row] > 0
            best = scores[name].topk(int(wanted.sum())).indices
            right[name] += bool(wanted[best].all())
    return {name: count / len(pictures.pixels) for name, count in right.items()}


def save(network: nn.Module, path: Pathish, about: Mapping[str, str]) -> None:
    """Write all weights but the classifier's as safetensors in half precision, with a text about them."""
    backbone = find_backbone(BACKBONE)
    state = {
        name: (values.half() if values.is_floating_point() else values).contiguous()
        for name, values in network.state_dict().items()
        if not backbone.classifier_key(name)
    }
    data = save_tensors(state, {"about": canonical_json(about)})  # one entry: safetensors gives several no order
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the network of the sample and write its weights."""
    parser = argparse.ArgumentParser(prog="python -m tools.sample_network", description=__doc__)
    parser.add_argument("sample", metavar="FOLDER", type=Path, help=f"the folder of {FILE}: data/raw/sample")
    parser.add_argument("weights", metavar="FILE", type=Path, help="the .safetensors file to write")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        devices.use(machine.current())
        network, accuracies = train(load_world(given.sample), PHASES, held_out=HELD_OUT)
        about = {
            "architecture": f"torchvision {BACKBONE} without its classifier",
            "licence": "Apache-2.0",
            "made_by": "python -m tools.sample_network",
            "scenes_sha256": sha256_file(given.sample / FILE),
        }
        save(network, given.weights, about)
    except (SightwordError, OSError) as error:
        sys.exit(f"sample_network: {error}")
    for name, share in accuracies.items():
        log.info("%s: right in %.1f %% of the pictures held out", name, 100 * share)
    log.info("%s: sha256 %s", given.weights, sha256_file(given.weights))


if __name__ == "__main__":
    main()
