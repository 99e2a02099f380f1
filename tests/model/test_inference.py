"""The GRU without gradients: the states of the one that trains."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.model.encoders import CaptionEncoder
from sightword.model.inference import gru_states
from sightword.model.packing import Packing
from sightword.model.settings import ModelSettings


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.booleans(), st.sampled_from([1, 2]))
def test_states_are_those_of_pytorchs_layers_alone_on_each_row(lengths, both, threads):
    torch.manual_seed(len(lengths))
    layers = [torch.nn.GRU(3, 5, batch_first=True).double() for _ in range(1 + both)]
    tokens = torch.randn(6, 3, dtype=torch.float64)
    rows = [torch.randint(6, (length,)) for length in lengths]
    packing = Packing.of(torch.tensor(lengths))
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            found = packing.unpack(gru_states(layers, tokens, packing.pack(padded), packing))
            for row, states in zip(rows, found, strict=True):
                expected = [layers[0](tokens[row])[0]]
                if both:
                    expected.append(layers[1](tokens[row.flip(0)])[0].flip(0))
                torch.testing.assert_close(states[: len(row)], torch.cat(expected, 1), rtol=0, atol=1e-12)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("change", [{}, {"bidirectional": False, "pooling": "last"}, {"mask_padding": False}])
def test_an_encoder_gives_the_same_with_and_without_gradients(change):
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=16, attention=4).model_copy(update=change)
    encoder = CaptionEncoder(9, model.shape, dropout=0.5).eval()
    rows = [np.random.default_rng(length).integers(1, 9, length) for length in (3, 11, 1, 7)]
    with torch.no_grad():
        found = encoder.embed(rows)
    trained = encoder.embed(rows)
    assert trained.requires_grad
    torch.testing.assert_close(found, trained.detach(), rtol=0, atol=1e-6)


def test_dropout_is_drawn_where_the_module_trains_without_gradients():
    torch.manual_seed(0)
    encoder = CaptionEncoder(9, ModelSettings(embedding=5, hidden=16, attention=4).shape, dropout=0.5).train()
    rows = [np.array([1, 2, 3])]
    with torch.no_grad():
        assert not torch.equal(encoder.embed(rows), encoder.embed(rows))
