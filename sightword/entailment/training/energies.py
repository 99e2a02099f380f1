"""The energy of a pair (premise, hypothesis): low where the premise entails the hypothesis; the max-margin loss; the
folder of a trained encoder with its energy and threshold.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.entailment.data.pairs import TODO
from sightword.errors import SemanticsError
from sightword.io.files import Pathish
from sightword.io.saved import SUMS, Format, as_folder, entry
from sightword.messages import quote

EnergyName = Literal["order", "symmetric"]
ENERGIES: tuple[EnergyName, ...] = get_args(EnergyName)

DECISION = Format("decision.json", 1, TODO)
"""The format of ``models/entailment/``, in which ``encoder/`` has the encoder."""
SHORTEST = 1e-12
"""Length below which a vector has no direction."""
_ROWS = 1024
"""Pairs whose energies are computed together."""

Floats = NDArray[np.floating[Any]]


def read_decision(folder: Pathish) -> dict[str, Any]:
    """Return ``energy``, ``threshold``, ``criterion`` of a trained encoder; EncoderError if the folder is damaged."""
    place = as_folder(folder)
    about, names = DECISION.read(place)
    DECISION.require(names, f"encoder/{SUMS}", where=place)
    with DECISION.checked(place / DECISION.description):
        energy = entry(about, "energy", str)
        if energy not in ENERGIES:
            raise ValueError(f"energy is {quote(energy)}; expected {' or '.join(ENERGIES)}")
        threshold, criterion = entry(about, "threshold", float), entry(about, "criterion", str)
    return {"energy": energy, "threshold": threshold, "criterion": criterion}


def pair_energies(energy: str, premises: Floats, hypotheses: Floats) -> NDArray[np.float64]:
    """Return the energy (N,) of each pair of vectors (N, D), computed in float64.

    ``order``: ``sum_d max(0, h_d - p_d)^2``, since a hypothesis is more general than the premise that entails it
    (Vendrov et al. 2016, section 5.1 and equation 2); ``symmetric``: 1 - cosine, which is 1 for a zero vector.

    Raises:
        SemanticsError: the energy is unknown.
        ValueError: the shapes differ.
    """
    if energy not in ENERGIES:
        raise SemanticsError(f"no energy is called {energy!r}", expected=" or ".join(ENERGIES))
    if premises.shape != hypotheses.shape:
        raise ValueError(f"premises {premises.shape}, hypotheses {hypotheses.shape}")
    one = _order if energy == "order" else _symmetric
    energies = np.empty(len(premises), np.float64)
    for start in range(0, len(energies), _ROWS):
        rows = slice(start, start + _ROWS)
        energies[rows] = one(premises[rows].astype(np.float64), hypotheses[rows].astype(np.float64))
    return energies


def _order(premises: NDArray[np.float64], hypotheses: NDArray[np.float64]) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = np.square(np.maximum(hypotheses - premises, 0.0)).sum(axis=1)
    return sums


def _symmetric(premises: NDArray[np.float64], hypotheses: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = [np.maximum(np.sqrt(np.square(side).sum(axis=1)), SHORTEST) for side in (premises, hypotheses)]
    cosines = (premises * hypotheses).sum(axis=1) / (lengths[0] * lengths[1])
    energies: NDArray[np.float64] = 1.0 - np.minimum(cosines, 1.0)
    return energies


def torch_energies(energy: EnergyName, premises: torch.Tensor, hypotheses: torch.Tensor) -> torch.Tensor:
    """Return the energies (N,) of :func:`pair_energies` of (N, D) tensors, with gradients to both sides."""
    if energy == "order":
        return (hypotheses - premises).clamp(min=0).square().sum(dim=1)
    lengths = [torch.linalg.vector_norm(side, dim=1).clamp_min(SHORTEST) for side in (premises, hypotheses)]
    energies: torch.Tensor = 1 - (premises * hypotheses).sum(dim=1) / (lengths[0] * lengths[1])
    return energies


def margin_loss(
    energies: torch.Tensor, entailed: torch.Tensor, *, margin: float, reduction: Literal["mean", "sum"]
) -> torch.Tensor:
    """Return the loss of a batch: E of an entailed pair, ``max(0, margin - E)`` of another one (released code)."""
    losses = torch.where(entailed, energies, (margin - energies).clamp(min=0))
    return losses.sum() if reduction == "sum" else losses.mean()
