"""The stages pairs and train on a small sample: outputs, equal bytes, the saved encoder, and recipes."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from sightword import SentenceEncoder
from sightword.captions.vocabulary import Normalisation, Vocabulary
from sightword.encoder.parts import Part
from sightword.entailment.data.pairs import read_split
from sightword.entailment.data.settings import SentencePairsSettings, Source
from sightword.entailment.training.energies import pair_energies
from sightword.entailment.training.settings import EntailSettings
from sightword.errors import EncoderError, FileFormatError, SemanticsError
from sightword.model.encoders import CaptionEncoder
from sightword.model.settings import ModelSettings
from stages.entailment import pairs, train

ENTAIL = EntailSettings(embedding=12, hidden=16, epochs=2, batch=50, validate_every=4, rate=0.01)


def sample_settings(repository, train=200):
    place = str(repository / "data/raw/sample")
    counts = {"train": train, "dev": 60, "test": 60}
    sources = {
        name: [Source(format="sample", path=place, part=name, count=count)] for name, count in counts.items()
    }  # fmt: skip
    return SentencePairsSettings(folder=place, **sources)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def done(tmp_path_factory, repository):
    folder = tmp_path_factory.mktemp("entailment")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pairs.work(sample_settings(repository))
        train.work(ENTAIL)()
    return folder


@pytest.fixture
def copy(done, tmp_path, monkeypatch):
    shutil.copytree(done, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    return tmp_path / "run"


def test_the_same_inputs_give_the_same_bytes(done, copy, repository):
    shutil.rmtree(copy / "models")
    pairs.work(sample_settings(repository))
    train.work(ENTAIL)()
    assert files(copy) == files(done)


@pytest.mark.parametrize("change", [{}, {"normalise": "none"}, {"energy": "symmetric"}, {"unit": "character"}])
def test_the_saved_encoder_and_threshold_give_the_accuracy_on_dev(copy, change):
    train.work(ENTAIL.model_copy(update=change))()
    decision = json.loads((copy / "models/entailment/decision.json").read_text())
    metrics = json.loads((copy / "metrics/entailment/train.json").read_text())
    encoder = SentenceEncoder.load(copy / "models/entailment/encoder")
    dev = read_split(copy / "data/entailment/pairs", "dev")
    premises, hypotheses = encoder.encode(dev.premises), encoder.encode(dev.hypotheses)
    energies = pair_energies(decision["energy"], premises, hypotheses)
    accuracy = 100 * ((energies <= decision["threshold"]) == dev.entailed).mean()
    assert accuracy == pytest.approx(decision["dev"])
    assert metrics["dev"] == pytest.approx(accuracy, abs=1e-3)
    assert (metrics["pairs"], metrics["batches"]) == (200, 8)
    lengths = np.linalg.norm(premises, axis=1)
    if change.get("normalise") == "none":
        ids = torch.tensor(encoder.vocabulary.encode(dev.premises[0]))
        captions = encoder.parts[0].captions
        last = captions.recurrent.onward(captions.embedding(ids)[None])[1][0, 0].abs().detach().numpy()
        assert np.abs(premises[0] - last).max() < 1e-6
        assert lengths.std() > 1e-3
    else:
        assert lengths == pytest.approx(1, abs=1e-5)
    assert (premises >= 0).all() == (decision["energy"] == "order")


def test_the_vocabulary_is_that_of_training(copy):
    encoder = SentenceEncoder.load(copy / "models/entailment/encoder")
    train = read_split(copy / "data/entailment/pairs", "train")
    words = {word for text in (*train.premises, *train.hypotheses) for word in text.split()}
    assert set(encoder.vocabulary.tokens) == words
    assert encoder.notes["training"]["energy"] == "order"


@pytest.mark.parametrize("kind", [{"cell": "gru"}, {"cell": "ngrams", "ngram_buckets": 50}])
def test_training_from_an_encoder_keeps_its_vocabulary_and_begins_with_its_weights(copy, kind):
    shape = ModelSettings(embedding=12, hidden=8, attention=4, **kind).shape
    vocabulary = Vocabulary.build(["A red circle in a blue sea."], normalise=Normalisation(case="lower"), min_count=1)
    torch.manual_seed(0)
    start = SentenceEncoder([Part(CaptionEncoder(len(vocabulary), shape), vocabulary, shape)])
    start.save(copy / "data/raw/starts/seen")
    settings = ENTAIL.model_copy(update={"start": "seen", "rate": 1e-9, "epochs": 1})
    train.work(settings)()
    found = SentenceEncoder.load(copy / "models/entailment/encoder")
    assert found.vocabulary == vocabulary
    texts = ["A red circle.", "A blue sea."]
    np.testing.assert_allclose(found.encode(texts), np.abs(start.encode(texts)), atol=1e-4)
    train.work(settings.model_copy(update={"rate": 0.01, "energy": "symmetric"}))()
    trained = SentenceEncoder.load(copy / "models/entailment/encoder")
    assert (trained.encode(texts) < 0).any()
    assert np.abs(trained.encode(texts) - start.encode(texts)).max() > 1e-3
    with pytest.raises(EncoderError, match=r"data/raw/starts/sen: start 'sen' is no folder .*; expected seen"):
        train.work(settings.model_copy(update={"start": "sen"}))


def test_a_failure_leaves_the_earlier_outputs(copy, tmp_path):
    before = files(copy)
    absent = SentencePairsSettings(
        folder=str(tmp_path),
        **{name: [Source(format="snli", path=str(tmp_path), part=name)] for name in ("train", "dev", "test")},
    )  # fmt: skip
    with pytest.raises(SemanticsError, match=r"train of .* is absent .* Run `sightword fetch snli`"):
        pairs.work(absent)
    assert files(copy) == before
    shutil.rmtree(copy / "data")
    with pytest.raises(FileFormatError, match=r"Run `make entailment` \(without make: `rm -f entailment/\.dvcignore"):
        train.work(ENTAIL)
