"""The max-margin loss on the energies of labelled pairs."""

from __future__ import annotations

from typing import Literal

import torch

from sightword.entailment.training.energies import SHORTEST, EnergyName


def torch_energies(energy: EnergyName, premises: torch.Tensor, hypotheses: torch.Tensor) -> torch.Tensor:
    """Return the energies (N,) as :func:`sightword.entailment.training.energies.pair_energies`, with gradients to both
    sides.

    Args:
        energy: ``order`` or ``symmetric``.
        premises: (N, D), float.
        hypotheses: (N, D), float.
    """
    if energy == "order":
        return (hypotheses - premises).clamp(min=0).square().sum(dim=1)
    lengths = [torch.linalg.vector_norm(side, dim=1).clamp_min(SHORTEST) for side in (premises, hypotheses)]
    energies: torch.Tensor = 1 - (premises * hypotheses).sum(dim=1) / (lengths[0] * lengths[1])
    return energies


def margin_loss(
    energies: torch.Tensor, entailed: torch.Tensor, *, margin: float, reduction: Literal["mean", "sum"]
) -> torch.Tensor:
    """Return the loss of a batch: E of an entailed pair, ``max(0, margin - E)`` of another one (released code).

    Args:
        energies: (N,), float.
        entailed: (N,), bool.
        margin: the energy from which a pair that is not entailed costs nothing.
        reduction: over the pairs.
    """
    losses = torch.where(entailed, energies, (margin - energies).clamp(min=0))
    return losses.sum() if reduction == "sum" else losses.mean()
