"""Energies and loss against loops in float64, their gradients, and batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.captions.vocabulary import Normalisation, Vocabulary
from sightword.entailment.data.pairs import SentencePairs
from sightword.entailment.training.energies import ENERGIES, margin_loss, pair_energies, torch_energies
from sightword.entailment.training.task import EncodedPairs, batches
from sightword.errors import SemanticsError

RANDOM = np.random.default_rng(0)


def by_loop(energy, premise, hypothesis):
    if energy == "order":
        return math.fsum(max(0.0, high - low) ** 2 for low, high in zip(premise, hypothesis, strict=True))
    product = math.fsum(low * high for low, high in zip(premise, hypothesis, strict=True))
    return 1 - product / (math.hypot(*premise) * math.hypot(*hypothesis))


@pytest.mark.parametrize("energy", ENERGIES)
def test_energies_and_loss_are_those_of_a_loop(energy):
    premises, hypotheses = np.abs(RANDOM.normal(size=(2, 1500, 7)))
    hypotheses[0] = premises[0] / 2  # below its premise in all dimensions
    entailed = RANDOM.random(1500) < 0.4
    wanted = [by_loop(energy, *pair) for pair in zip(premises.tolist(), hypotheses.tolist(), strict=True)]
    found = pair_energies(energy, premises, hypotheses)
    assert found == pytest.approx(wanted, abs=1e-12)
    assert found[0] == pytest.approx(0, abs=1e-15)
    single = pair_energies(energy, premises.astype(np.float32), hypotheses.astype(np.float32))
    assert single == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    ours = torch_energies(energy, torch.from_numpy(premises), torch.from_numpy(hypotheses))
    assert ours.numpy() == pytest.approx(wanted, abs=1e-12)
    costs = [one if yes else max(0.0, 0.2 - one) for one, yes in zip(wanted, entailed, strict=True)]
    for reduction, scale in (("sum", 1.0), ("mean", 1 / 1500)):
        loss = margin_loss(ours, torch.from_numpy(entailed), margin=0.2, reduction=reduction)
        assert loss.item() == pytest.approx(math.fsum(costs) * scale, rel=1e-12)


@pytest.mark.parametrize("energy", ENERGIES)
def test_the_gradient_is_that_of_differences(energy):
    sides = [torch.from_numpy(np.abs(RANDOM.normal(size=(12, 5)))).requires_grad_() for _ in range(2)]
    entailed = torch.arange(12) % 2 == 0

    def loss(premises, hypotheses):
        return margin_loss(torch_energies(energy, premises, hypotheses), entailed, margin=0.9, reduction="sum")

    assert torch.autograd.gradcheck(loss, sides)


def test_the_order_has_a_direction():
    general, special = np.array([[0.1, 0.0]]), np.array([[0.5, 0.4]])
    assert pair_energies("order", special, general) == 0
    assert pair_energies("order", general, special) == pytest.approx(0.4**2 + 0.4**2)
    assert pair_energies("symmetric", np.zeros((1, 2)), special) == 1
    with pytest.raises(SemanticsError, match="no energy is called 'cone'; expected order or symmetric"):
        pair_energies("cone", general, special)
    with pytest.raises(ValueError, match="premises"):
        pair_energies("order", general, special[:0])


def encoded(premises, hypotheses):
    pairs = SentencePairs.of([(*pair, "neutral", "s") for pair in zip(premises, hypotheses, strict=True)])
    vocabulary = Vocabulary.build([*premises, *hypotheses], normalise=Normalisation(case="lower"), unit="word")
    return EncodedPairs.of(pairs, vocabulary)


def test_sentences_with_equal_ids_are_one():
    found = encoded(["A dog", "a  dog", "a cat"], ["a dog", "a cat", "A dog"])
    assert len(found.sentences) == 2
    assert (found.premises.tolist(), found.hypotheses.tolist()) == ([0, 0, 1], [0, 1, 0])
    with pytest.raises(SemanticsError, match=r"the sentence '_' has no word after normalisation|'   '"):
        encoded(["a", "   "], ["b", "c"])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 20))
def test_an_epoch_has_each_pair_once(premises, size):
    pairs = encoded([f"word{number}" for number in premises], [f"claim{place}" for place in range(len(premises))])
    order = batches(pairs, size=size, seed=3, epoch=1)
    assert sorted(np.concatenate(order).tolist()) == list(range(len(premises)))
    assert [len(rows) for rows in order[:-1]] == [size] * (len(order) - 1)
    again = batches(pairs, size=size, seed=3, epoch=1)
    assert [rows.tolist() for rows in order] == [rows.tolist() for rows in again]
