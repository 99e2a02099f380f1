"""From the modules of a scenario to the encoder that is saved: parts, and maps into each space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from sightword.encoder.parts import Part, head
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.grounded.training.batches import Described
from sightword.grounded.training.network import Network
from sightword.grounded.training.sequential import Affine, sequential
from sightword.grounded.training.settings import Scenario
from sightword.model.embedding import embed_captions


def plain(parts: Sequence[Part], notes: dict[str, Any]) -> SentenceEncoder:
    """Return the encoder of parts without further spaces: the concatenation of their vectors."""
    return _encoder(parts, {"sentence": nn.Sequential()}, "sentence", notes)


def trained(before: Sequence[Part], own: Part, network: Network, notes: dict[str, Any]) -> SentenceEncoder:
    """Return the encoder of a trained network.

    Args:
        before: parts whose vectors stand before the trained part's; the trained maps do not read them.
        own: the trained part.
        network: the trained maps.
        notes: kept in the folder.
    """
    scenario, skipped = network.scenario, sum(part.shape.width for part in before)
    heads = {"sentence": nn.Sequential()}
    if scenario.has_grounded:
        heads["grounded"] = _behind(skipped, network.grounded)
    if scenario.projection:
        heads["visual"] = _behind(skipped, network.visual)
    return _encoder([*before, own], heads, scenario.judged, notes)


def predicted(part: Part, split: Described, scenario: Scenario, notes: dict[str, Any]) -> SentenceEncoder:
    """Return the encoder SEQ: ``sentence`` has the principal axes, ``visual`` the predicted picture's features."""
    found = sequential(embed_captions(part.captions, split.ids), split.features, split.picture_of)
    heads = {"sentence": _linear(found.sentence), "visual": _linear(found.picture)}
    return _encoder([part], heads, scenario.judged, notes)


def _encoder(
    parts: Sequence[Part], heads: dict[str, nn.Sequential], judged: str, notes: dict[str, Any]
) -> SentenceEncoder:
    return SentenceEncoder(parts, "join", notes=notes, heads=heads, default=judged)


@torch.no_grad()
def _behind(skipped: int, module: nn.Sequential) -> nn.Sequential:
    """Return a copy of ``module`` that ignores its first ``skipped`` inputs."""
    linear = [layer for layer in module if isinstance(layer, nn.Linear)]
    found = head([skipped + linear[0].in_features, *(layer.out_features for layer in linear)])
    for own, layer in zip((one for one in found if isinstance(one, nn.Linear)), linear, strict=True):
        own.weight.zero_()
        own.weight[:, own.in_features - layer.in_features :] = layer.weight
        own.bias.copy_(layer.bias)
    return found.to(linear[0].weight.device)


@torch.no_grad()
def _linear(affine: Affine) -> nn.Sequential:
    outputs, inputs = affine.matrix.shape
    found = head([inputs, outputs])
    layer = found[0]
    assert isinstance(layer, nn.Linear)
    layer.weight.copy_(torch.from_numpy(affine.matrix))
    layer.bias.copy_(torch.from_numpy(affine.bias))
    return found
