"""The encoder as a module of sentence-transformers.

The library itself is too heavy for a test's environment. The stand-in does with a module what the library's
``SentenceTransformer`` documents and does (version 6.2): it imports the class that ``modules.json`` names,
prepares batches sorted by length, sends them through the modules, and saves.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os

import numpy as np
import pytest
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.export.sentence_transformers import SightwordModule
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

MODEL = ModelSettings(embedding=5, hidden=6, attention=4)
TEXTS = ["a dog runs", "", "two big dogs run in the snow .", "\N{SNOWMAN}", "a dog runs"]


class StandIn(nn.Sequential):
    """A model of one module, or of a folder."""

    def __init__(self, folder: str | None = None, *, modules: list[nn.Module] | None = None) -> None:
        if folder is not None:
            with open(os.path.join(folder, "modules.json")) as file:
                entries = json.load(file)
            modules = [self._load(folder, entry) for entry in entries]
        assert modules
        super().__init__(*modules)
        first = next(self[0].parameters(), None)
        assert first is not None

    @staticmethod
    def _load(folder: str, entry: dict) -> nn.Module:
        module, name = entry["type"].rsplit(".", 1)
        found = getattr(importlib.import_module(module), name)
        assert len(inspect.signature(found.load).parameters) > 1  # one alone means the loading of old versions
        return found.load(
            folder,
            subfolder=entry["path"],
            token=None,
            cache_folder=None,
            revision=None,
            local_files_only=False,
            trust_remote_code=True,
            model_kwargs=None,
            processor_kwargs=None,
            config_kwargs=None,
            backend="torch",
        )

    def forward(self, features: dict, **kwargs) -> dict:
        for module in self:
            wanted = getattr(module, "forward_kwargs", set())
            features = module(features, **{key: value for key, value in kwargs.items() if key in wanted})
        return features

    @torch.inference_mode()
    def encode(self, inputs, *, prompt=None, batch_size=2, normalize_embeddings=False) -> np.ndarray:
        self.eval()
        assert self[0].modalities == ["text"]
        order = np.argsort([-len(text) for text in inputs])
        found = []
        for start in range(0, len(inputs), batch_size):
            batch = [inputs[place] for place in order[start : start + batch_size]]
            features = self.forward(self[0].preprocess(batch, prompt=prompt))
            embeddings = features["sentence_embedding"]
            if normalize_embeddings:
                embeddings = nn.functional.normalize(embeddings, p=2, dim=1)
            found.extend(embeddings)
        return torch.stack([found[place] for place in np.argsort(order)]).numpy()

    def get_embedding_dimension(self) -> int:
        return self[0].get_embedding_dimension()

    def save(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        assert self[0].save_in_root
        self[0].save(os.path.join(path, ""), safe_serialization=True)
        kind = type(self[0])
        entries = [{"idx": 0, "name": "0", "path": "", "type": f"{kind.__module__}.{kind.__name__}"}]
        with open(os.path.join(path, "modules.json"), "w") as file:
            json.dump(entries, file)


def made(**change) -> SentenceEncoder:
    torch.manual_seed(0)
    renormalise = change.pop("renormalise", False)
    model = MODEL.model_copy(update=change)
    vocabulary = Vocabulary.build(["a dog runs in the snow .", "two big dogs"])
    members = [Encoders(len(vocabulary), 7, model.shape) for _ in range(2)]
    return SentenceEncoder(parts_of(members, vocabulary, model.shape), renormalise=renormalise)


@pytest.mark.parametrize("change", [{}, {"cell": "lstm", "pooling": "max"}, {"pooling": "last"}])
def test_a_batch_may_be_wider_than_its_longest_text(change):
    module = SightwordModule(made(**change)).train()
    features = module.preprocess(TEXTS)
    wide = {name: torch.nn.functional.pad(values, (0, 5)) for name, values in features.items()}
    found, expected = (module(given)["sentence_embedding"] for given in (wide, features))
    assert torch.allclose(found, expected, atol=1e-6)


def test_folder_of_encoder_and_of_sentence_transformers_are_one(tmp_path):
    encoder = made()
    encoder.save(tmp_path / "encoder")
    model = StandIn(str(tmp_path / "encoder"))
    expected = encoder.encode(TEXTS)
    assert np.abs(model.encode(TEXTS) - expected).max() < 1e-6
    model.save(str(tmp_path / "model"))
    assert np.array_equal(SentenceEncoder.load(tmp_path / "model").encode(TEXTS), expected)
    assert np.array_equal(StandIn(str(tmp_path / "model")).encode(TEXTS), model.encode(TEXTS))
    named = SightwordModule.load("flickr8k", revision=None)  # as a name of the hub is passed
    assert named.get_embedding_dimension() == SentenceEncoder.from_pretrained("flickr8k").width


def test_it_can_be_trained_on():
    module = SightwordModule(made())
    embeddings = module.train()(module.preprocess(TEXTS))["sentence_embedding"]
    embeddings.square().sum(dim=1).sub(0.5).square().sum().backward()
    caption_side = [name for name, _ in module.named_parameters() if ".captions." in name]
    with_gradient = [name for name, weights in module.named_parameters() if weights.grad is not None]
    assert with_gradient == caption_side
    assert len(caption_side) == 2 * 13


def test_other_inputs_are_named():
    module = SightwordModule(made())
    with pytest.raises(EncoderError, match="input 1 is dict, not a text"):
        module.preprocess(["a dog", {"image": "a.png"}])
    with pytest.raises(EncoderError, match=r"input 1 has 200,000 tokens; expected at most 5,000\. Set model\.max_seq"):
        module.preprocess(["a", "a" * 200_000])


def test_set_length_cuts_longer_sentences_and_is_logged_once(caplog):
    module = SightwordModule(made())
    module.max_seq_length = 5
    model = StandIn(modules=[module])
    assert np.array_equal(model.encode(["a dog runs", "a"]), model.encode(["a dog", "a"]))
    assert np.array_equal(model.encode(["dogs"], prompt="a "), model.encode(["a dog"]))
    assert module.preprocess(["a" * 300_000])["input_ids"].shape == (1, 5)
    assert caplog.messages == ["1 of 2 texts are cut to their first 5 tokens (max_seq_length)"]
    module.max_seq_length = 6_000
    assert module.preprocess(["a" * 7_000])["input_ids"].shape == (1, 6_000)
    assert SightwordModule(made()).max_seq_length == 5_000
