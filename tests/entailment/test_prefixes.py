"""The GRU over different beginnings against the house's GRU over whole sentences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.entailment.training.prefixes import Prefixes, embed, fits
from sightword.entailment.training.settings import EntailSettings
from sightword.entailment.training.task import build

SENTENCES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=7), min_size=1, max_size=12)


def encoder(**change):
    torch.manual_seed(0)
    captions = build(EntailSettings(embedding=5, hidden=6).model_copy(update=change), 6)
    for bias in (weights for name, weights in captions.recurrent.named_parameters() if "bias" in name):
        torch.nn.init.normal_(bias)
    return captions


def rows_of(sentences):
    return [np.array(ids, np.int64) for ids in sentences]


@given(SENTENCES)
def test_each_beginning_is_there_once(sentences):
    found = Prefixes.of(rows_of(sentences))
    wanted = {tuple(ids[:end]) for ids in sentences for end in range(1, len(ids) + 1)}
    assert len(found.places) == len(wanted)
    for ids, end in zip(sentences, found.ends.tolist(), strict=True):
        read, line = [], end
        for step in reversed(found.steps):
            if step.lines.start <= line < step.lines.stop:
                read.append(int(found.tokens[found.places[line]]))
                own = line - step.lines.start
                line = int(step.before[own if step.branch is None else step.branch[own]])
        assert read[::-1] == ids


@given(SENTENCES, st.booleans())
def test_vectors_and_gradients_are_those_of_whole_sentences(sentences, scaled):
    rows, captions = rows_of(sentences), encoder(normalise="l2" if scaled else "none").double()
    target = torch.from_numpy(np.random.default_rng(0).normal(size=(len(rows), 6)))

    def found(function):
        captions.zero_grad()
        vectors = function(rows)
        (vectors * target).sum().backward()
        return [vectors.detach(), *(weights.grad.clone() for weights in captions.parameters())]

    ours, theirs = found(lambda given: embed(captions, given)), found(captions.embed)
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max() < 1e-12


def test_in_bfloat16_the_gradients_are_near():
    rows, captions = rows_of([[1, 2, 3], [1, 2], [1, 4, 4, 2], [3]] * 5), encoder()

    def gradients(*, half):
        captions.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            vectors = embed(captions, rows)
        assert vectors.dtype == torch.float32
        vectors.square().sum(dim=0)[0].backward()
        return torch.cat([weights.grad.ravel() for weights in captions.parameters()])

    exact = gradients(half=False)
    assert (gradients(half=True) - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize(
    ("change", "wanted"), [({}, True), ({"cell": "lstm"}, False), ({"bidirectional": True}, False),
                           ({"pooling": "max"}, False), ({"pooling": "attention"}, False)],
)  # fmt: skip
def test_other_networks_encode_whole_sentences(change, wanted):
    assert fits(encoder(**change)) == wanted
