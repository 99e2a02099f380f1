"""The initial weights are those of the released code that the parameters name."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pipeline.params import overlay, recipes
from sightword.captions.vocabulary import Vocabulary
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders, initialise
from sightword.model.settings import ModelSettings
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask, Data

TOKENS, FEATURES, WIDTH, HIDDEN, ATTENTION = 300, 90, 40, 60, 16
VOCABULARY = Vocabulary(tuple(map(chr, range(256, 254 + TOKENS))))
SHAPE = ModelSettings(embedding=WIDTH, hidden=HIDDEN, attention=ATTENTION)
TORCH = 1 / math.sqrt(HIDDEN)
"""The limit of torch's own start of a recurrent layer."""


def initial(name, shape=SHAPE, seed=0):
    torch.manual_seed(seed)
    encoders = Encoders(TOKENS, FEATURES, shape.shape)
    initialise(encoders, name)
    return {key: value.double().numpy() for key, value in encoders.state_dict().items()}


def is_uniform(values, limit):
    return (
        np.abs(values).max() <= limit and stats.kstest(values.ravel() / limit, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    )


def is_orthogonal(values):
    """The rows, or the columns of a high matrix, have length 1 and right angles."""
    flat = values if len(values) <= values.shape[1] else values.T
    return np.allclose(flat @ flat.T, np.eye(len(flat)), atol=1e-5)


@pytest.mark.parametrize("name", ["char_gru", "vsepp", "order_embeddings"])
def test_the_map_of_the_pictures_starts_by_xaviers_rule(name):
    found = initial(name)
    assert is_uniform(found["images.linear.weight"], math.sqrt(6 / (FEATURES + 2 * HIDDEN)))
    bias = found["images.linear.bias"]
    if name == "char_gru":  # torch's own
        assert is_uniform(bias, 1 / math.sqrt(FEATURES))
        assert np.abs(bias).max() > 0.8 / math.sqrt(FEATURES)
    else:
        assert not bias.any()


@pytest.mark.parametrize("name", ["char_gru", "vsepp", "order_embeddings"])
def test_embeddings_of_tokens_are_normal_or_uniform_and_that_of_padding_is_zero(name):
    padding, *tokens = initial(name)["captions.embedding.weight"]
    assert not padding.any()
    tokens = np.asarray(tokens)
    if name == "char_gru":
        assert stats.kstest(tokens.ravel(), stats.norm.cdf).pvalue > 1e-3
    else:
        assert is_uniform(tokens, 0.1)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("direction", ["onward", "backward_"])
def test_recurrent_layer_starts_as_torchs_except_order_embeddings(direction, cell):
    shape = SHAPE.model_copy(update={"cell": cell})
    gates = {"gru": 3, "lstm": 4}[cell]
    for name in ("char_gru", "vsepp", "order_embeddings"):
        found = initial(name, shape)
        layer = {
            kind: found[f"captions.recurrent.{direction}.{kind}_l0"]
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        of_gates = np.split(layer["weight_hh"], gates)
        if name == "order_embeddings":
            assert is_uniform(layer["weight_ih"], 0.1)
            assert not layer["bias_ih"].any()
            assert not layer["bias_hh"].any()
            assert all(is_orthogonal(gate) for gate in of_gates)
            assert not np.allclose(of_gates[0], of_gates[1])
        else:
            assert all(is_uniform(values, TORCH) for values in layer.values())
            assert not any(is_orthogonal(gate) for gate in of_gates)


@pytest.mark.parametrize(("hidden", "attention"), [(HIDDEN, ATTENTION), (4, 32)])
@pytest.mark.parametrize("name", ["char_gru", "vsepp", "order_embeddings"])
def test_attention_of_char_gru_starts_orthogonal(name, hidden, attention):
    found = initial(name, SHAPE.model_copy(update={"hidden": hidden, "attention": attention}))
    weight = found["captions.pooling.hidden.weight"]
    assert weight.shape == (attention, 2 * hidden)
    assert is_orthogonal(weight) == (name == "char_gru")
    assert is_uniform(found["captions.pooling.hidden.bias"], 1 / math.sqrt(2 * hidden))
    assert is_uniform(found["captions.pooling.out.weight"], 1 / math.sqrt(attention))


@pytest.mark.parametrize("name", ["char_gru", "vsepp", "order_embeddings"])
def test_a_run_starts_from_the_weights_that_its_parameters_name(name):
    settings = TrainSettings(**SHAPE.model_dump(), seed=3, initialisation=name, batch=2)
    features = np.zeros((2, FEATURES), np.float32)
    pairs = Pairs(["a", "b"], features, ["", ""], [np.array([2])] * 2, np.zeros(2, np.int64), np.arange(2))
    run = CaptionTask(settings, Data(pairs, None, VOCABULARY), torch.device("cpu"))
    expected = initial(name, seed=3)
    for key, value in run.encoders.state_dict().items():
        assert np.array_equal(value.double().numpy(), expected[key]), key


def test_recipes_start_as_their_papers_do(repository):
    named = {"coco-order": "order_embeddings", "coco-vsepp": "vsepp", "flickr8k": "char_gru"}
    for recipe, name in named.items():
        settings = overlay.resolve(recipes.find(recipe, repository), repository).sections["train"]
        assert settings.initialisation == name
