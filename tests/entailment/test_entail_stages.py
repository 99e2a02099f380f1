"""The stages on small runs: equal bytes, saved encoders, thresholds from dev, other encoders, the page, messages."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pages_read import check_text

from sightword import SentenceEncoder
from sightword.captions.vocabulary import Normalisation, Vocabulary
from sightword.encoder.parts import Part, parts_of
from sightword.entailment.data.pairs import SentencePairs, read_split, write_pairs
from sightword.entailment.judging import TAKEN, energies_by, measure, read_others
from sightword.entailment.page import SNLI, differences, render
from sightword.entailment.settings import (
    EntailmentSettings,
    EntailSettings,
    NetworkSettings,
    SentencePairsSettings,
    Source,
)
from sightword.entailment.training.energies import DECISION as CHOSEN
from sightword.entailment.training.energies import pair_energies
from sightword.errors import EncoderError
from sightword.io.files import write_json, write_table, write_tsv
from sightword.model.encoders import CaptionEncoder, Encoders
from sightword.model.settings import ModelSettings
from sightword.model.shape import RecurrentShape
from stages.entailment import evaluate, train
from stages.entailment import pairs as pairs_stage

CPU = torch.device("cpu")
DECISION = {"energy": "order", "threshold": 0.02, "criterion": "accuracy", "dev": 60.0}
TRAINING = {"energy": "order", "pairs": 240, "best_batch": 2, "batches": 3, "dev": 60.0}
SETTINGS = {"words": 100, "classifier": NetworkSettings(hidden=8, epochs=1), "encoders": "others"}


def drawn_pairs(number, seed):
    draw = np.random.default_rng(seed)
    rows = []
    for _ in range(number):
        colour, animal, place = draw.choice(["red", "blue"]), draw.choice(["dog", "cat", "cow"]), draw.integers(99)
        label = draw.choice(["entailment", "neutral", "contradiction"])
        other = {"entailment": f"a {animal}", "neutral": f"a {animal} sleeps", "contradiction": "nobody"}[label]
        rows.append((f"a {colour} {animal} near number {place}", other, label, f"part {place % 2}"))
    return SentencePairs.of(rows)


def counts_of(splits):
    found = {}
    for name, pairs in splits.items():
        labels = {label: pairs.labels.count(label) for label in ("entailment", "neutral", "contradiction")}
        found[name] = {"pairs": len(pairs), "labels": labels, "sources": dict.fromkeys(sorted(set(pairs.sources)), 1)}
    return found


def encoder_of(seed, similarity="order", members=1):
    vocabulary = Vocabulary.build(["a red dog", "blue cat near number", "cow sleeps nobody"], unit="word")
    shape = RecurrentShape(6, 5, similarity=similarity)
    torch.manual_seed(seed)
    networks = [Encoders(len(vocabulary), 3, shape) for _ in range(members)]
    return SentenceEncoder(parts_of(networks, vocabulary, shape))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("entailment")
    splits = {name: drawn_pairs(number, place) for place, (name, number) in enumerate(SIZES.items())}
    (folder / "data/entailment/pairs").mkdir(parents=True)
    write_pairs(folder / "data/entailment/pairs", splits, counts_of(splits))
    encoder_of(0).save(folder / "models/entailment/encoder")
    CHOSEN.write(folder / "models/entailment", DECISION, ["encoder/SHA256SUMS"])
    write_json(folder / "metrics/entailment/train.json", TRAINING)
    for name, column in (("loss", "loss"), ("dev", "accuracy")):
        write_tsv(folder / f"plots/entailment/train/{name}.tsv", ("batch", column), [(1, 2.0), (3, 1.0)])
    encoder_of(1, "cosine", members=2).save(folder / "others/seeing")
    texts = [*splits["test"].premises[:9], "a dog"]
    captions = {"image_id": ["x"] * 10, "caption": pa.array(range(10), pa.int32()), "text": texts}
    captions["split"] = ["train"] * 6 + ["dev"] * 3 + ["train"]
    write_table(folder / "others/seeing/captions.parquet", pa.table(captions))
    (folder / "others/README.md").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        evaluate.work(EntailmentSettings(**SETTINGS))
    return folder


SIZES = {"train": 240, "dev": 80, "test": 90}
OUTPUTS = ("data/entailment/scores", "plots/entailment/evaluate", "report/entailment", "metrics/entailment")


def files(folder):
    paths = [path for name in OUTPUTS for path in sorted((folder / name).rglob("*")) if path.is_file()]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def splits_of(folder):
    return {name: read_split(folder / "data/entailment/pairs", name) for name in SIZES}


def metrics_of(folder):
    return json.loads((folder / "metrics/entailment/evaluate.json").read_text())


def test_the_same_inputs_give_the_same_bytes(done, monkeypatch):
    before = files(done)
    monkeypatch.chdir(done)
    monkeypatch.setenv("SIGHTWORD_THREADS", "2")
    evaluate.work(EntailmentSettings(**SETTINGS))
    assert files(done) == before


def test_the_metrics_of_all_systems(done):
    found, scores = metrics_of(done), pq.read_table(done / "data/entailment/scores/scores.parquet").to_pandas()
    own = [name for base in ("order", "seeing", "seeing_untrained") for name in (base, f"{base}_classifier")]
    systems = [*own[:2], "majority", "hypothesis_only", "new_words", *own[2:]]
    assert list(found["test"]) == list(found["dev"]) == systems
    for name in systems:
        column = "accepted" if name == "order" else f"accepted_{name}"
        right = scores[column] == scores["entailed"]
        assert found["test"][name]["accuracy"] == pytest.approx(100 * right.mean(), abs=1e-4), name
        for label, one in found["test"][name]["class"].items():
            assert one["accuracy"] == pytest.approx(100 * right[scores["label"] == label].mean(), abs=1e-4)
        assert found["test"][name]["threshold"] == found["dev"][name]["threshold"]
    assert found["test"]["order"]["threshold"] == 0.02
    assert len(found["significance"]) == 9 * 8 / 2
    assert set(found["test"]["order"]["source"]) == {"part 0", "part 1"}
    summary = json.loads((done / "metrics/entailment/summary.json").read_text())
    assert summary["accuracy"] == found["test"]["order"]["accuracy"]
    assert summary["seeing_untrained"] == found["test"]["seeing_untrained"]["accuracy"]


def test_exchanged_sides_give_the_scores_of_exchanged_pairs_at_the_same_thresholds(done):
    splits = splits_of(done)
    exchanged = replace(splits["test"], premises=splits["test"].hypotheses, hypotheses=splits["test"].premises)
    others, settings = read_others(done / "others", TAKEN, CPU), EntailmentSettings(**SETTINGS)
    found = measure({**splits, "test": exchanged}, encoder_of(0), DECISION, others, settings, device=CPU).metrics
    given = metrics_of(done)
    for name, one in given["swapped"].items():
        wanted = {score: found["test"][name][score] for score in ("accuracy", "auc", "threshold")}
        assert {score: one[score] for score in wanted} == pytest.approx(wanted, abs=1e-6), name
    same = [name for name, one in given["swapped"].items() if one["auc"] == given["test"][name]["auc"]]
    assert same == ["majority", "seeing", "seeing_untrained"]  # these do not see the order


def test_premises_that_are_training_captions_are_left_out(done):
    unseen, test = metrics_of(done)["unseen"]["seeing"], read_split(done / "data/entailment/pairs", "test")
    rest = np.array([premise not in test.premises[:6] for premise in test.premises])
    assert unseen["pairs"] == rest.sum() < len(test)
    assert unseen["premises_seen"] == pytest.approx(100 * (1 - rest.mean()), abs=1e-5)
    scores = pq.read_table(done / "data/entailment/scores/scores.parquet").to_pandas()[rest]
    right = (scores["accepted_seeing"] == scores["entailed"]).mean()
    assert unseen["systems"]["seeing"]["accuracy"] == pytest.approx(100 * right, abs=1e-4)
    assert set(unseen["systems"]) == set(metrics_of(done)["test"]) - {"order_classifier"}


@pytest.mark.parametrize(("sides", "equal"), [("both", False), ("hypothesis", True)])
def test_the_classifier_on_the_hypothesis_never_sees_the_premise(done, sides, equal):
    splits = splits_of(done)
    other = {name: replace(part, premises=part.premises[::-1]) for name, part in splits.items()}
    settings = EntailmentSettings(**{**SETTINGS, "classifier": NetworkSettings(hidden=8, epochs=1, sides=sides)})
    found = [measure(one, encoder_of(0), DECISION, [], settings, device=CPU).metrics for one in (splits, other)]
    assert (found[0]["dev"]["order_classifier"] == found[1]["dev"]["order_classifier"]) == equal
    text = render(found[0], counts_of(splits), TRAINING, [], [], settings)
    assert ("see the hypothesis only" in text) == equal


def test_a_gain_over_the_hypothesis_alone_counts_beyond_chance_only(done):
    counts = {name: {"pairs": 9, "labels": labels, "sources": {}} for name, labels in SNLI.items()}
    for difference, p, wanted in ((2.0, 0.2, True), (-2.0, 0.001, True), (2.0, 0.001, False)):
        metrics = metrics_of(done)
        metrics["significance"]["order_vs_hypothesis_only"] |= {"difference": difference, "holm": p}
        text = render(metrics, counts, TRAINING, [], [], EntailmentSettings())
        assert ("No gain from the premise is shown" in text) == wanted


def test_the_page_needs_nothing_else(done):
    text = (done / "report/entailment/index.html").read_text()
    check_text(text)
    for part in ("Scores", "hypothesis only", "seeing, random weights", "Does looking at pictures teach entailment?",
                 "not a training caption", "Wrong pairs", "Not the published protocol",
                 "training has 240 pairs (part"):  # fmt: skip
        assert part in text, part
    for other in ("seeing, random weights, classifier", "new words", "hypothesis only"):
        assert f"seeing, classifier against {other}" in text
    assert text.count("<svg") == 5
    assert not re.findall(r'(?:src|href)="(?!#)', text)


def test_published_rows_stand_beside_their_own_protocol_only(done):
    counts = {name: {"pairs": sum(labels.values()), "labels": labels, "sources": {}} for name, labels in SNLI.items()}
    assert differences(counts) == []
    metrics = metrics_of(done)
    text = render(metrics, counts, TRAINING, [], [], EntailmentSettings())
    assert "published</small>" in text
    assert "<td>88.6</td>" in text
    counts["train"] = {**counts["train"], "labels": {**SNLI["train"], "neutral": 9}}
    assert "published</small>" not in render(metrics, counts, TRAINING, [], [], EntailmentSettings())


@pytest.mark.parametrize("similarity", ["order", "reversed_order", "cosine"])
def test_an_encoder_is_judged_by_its_own_similarity(similarity):
    encoder = encoder_of(2, similarity)
    premises, hypotheses = encoder.encode(["a red dog", "blue"]), encoder.encode(["a dog", "cat sleeps"])
    # A caption is to its picture as a hypothesis to its premise.
    similarities = [encoder.similarity(h, p)[0, 0] for p, h in zip(premises, hypotheses, strict=True)]
    shift = 1.0 if similarity == "cosine" else 0.0
    assert energies_by(encoder, premises, hypotheses) == pytest.approx(shift - np.array(similarities), abs=1e-6)


def test_a_folder_without_encoders_gives_none_and_a_wrong_one_a_message(tmp_path):
    (tmp_path / "README.md").write_text("")
    assert read_others(tmp_path, TAKEN, CPU) == []
    with pytest.raises(EncoderError, match="is no folder"):
        read_others(tmp_path / "absent", TAKEN, CPU)
    encoder_of(1).save(tmp_path / "own")
    with pytest.raises(EncoderError, match=r"own: holds the files of an encoder, .* Move its files into a folder"):
        read_others(tmp_path / "own", TAKEN, CPU)


ENTAIL = EntailSettings(embedding=12, hidden=16, epochs=2, batch=50, validate_every=4, rate=0.01)


def sample_settings(repository, train=200):
    place, counts = str(repository / "data/raw/sample"), {"train": train, "dev": 60, "test": 60}
    sources = {name: [Source(format="sample", path=place, part=name, count=n)] for name, n in counts.items()}
    return SentencePairsSettings(folder=place, **sources)


def every_file(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, repository):
    folder = tmp_path_factory.mktemp("entailment")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pairs_stage.work(sample_settings(repository))
        train.work(ENTAIL)()
    return folder


@pytest.fixture
def copy(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    return tmp_path / "run"


def test_training_twice_gives_the_same_bytes(trained, copy, repository):
    shutil.rmtree(copy / "models")
    pairs_stage.work(sample_settings(repository))
    train.work(ENTAIL)()
    assert every_file(copy) == every_file(trained)


@pytest.mark.parametrize("change", [{"normalise": "none"}, {"energy": "symmetric"}, {"unit": "character"}])
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
