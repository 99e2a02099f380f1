"""The three stages on a small sample: what they write, the same bytes, the page, and the messages."""

from __future__ import annotations

import json
import re
import shutil

import pyarrow.parquet as pq
import pytest
import torch
from pages_read import check_text

from sightword import Concepts
from sightword.compute import devices
from sightword.errors import CorpusError
from sightword.hypernyms.data.settings import TaxonomySettings
from sightword.hypernyms.judging.settings import HypernymsSettings
from sightword.hypernyms.page.page import Words, render
from sightword.hypernyms.training.settings import EmbedSettings
from stages.hypernyms import evaluate, taxonomy, train

NONE = Words([], 0.0, 0)
EMBED = EmbedSettings(dimension=10, epochs=2, batch=100, rate=0.03)


def run_all(folder, monkeypatch, repository):
    monkeypatch.chdir(folder)
    sample = TaxonomySettings(format="sample", path=str(repository / "data/raw/sample"), dev=300, test=300)
    taxonomy.work(sample)
    train.work(EMBED)()
    evaluate.work(HypernymsSettings())


@pytest.fixture(scope="module")
def done(tmp_path_factory, repository):
    folder = tmp_path_factory.mktemp("hypernyms")
    with pytest.MonkeyPatch.context() as patch:
        run_all(folder, patch, repository)
    return folder


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_inputs_give_the_same_bytes(done, tmp_path, monkeypatch, repository):
    monkeypatch.setenv("SIGHTWORD_THREADS", "2")
    run_all(tmp_path, monkeypatch, repository)
    assert files(tmp_path) == files(done)


def test_one_thread_computes_each_energy(done, tmp_path, monkeypatch):
    """Several threads would share the energies of cones at other places, with other last bits."""
    shutil.copytree(done, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    seen, scores = set(), Concepts.scores

    def watched(concepts, low, high):
        seen.add(torch.get_num_threads())
        return scores(concepts, low, high)

    monkeypatch.setattr(Concepts, "scores", watched)
    with devices.threads(3):
        evaluate.work(HypernymsSettings())
        assert torch.get_num_threads() == 3
    assert seen == {1}


def test_the_metrics(done):
    found = json.loads((done / "metrics/hypernyms/evaluate.json").read_text())
    own = found["test"]["order"]
    assert 70 < own["accuracy"] < 100
    assert own["pairs"] == 600
    assert own["direct_pairs"] + own["indirect_pairs"] == 300
    assert found["test"]["closure"]["direct"] == found["dev"]["closure"]["direct"] == 0
    assert found["test"]["closure"]["false_right"] == 100
    assert found["dev"]["order"]["threshold"] == own["threshold"]
    assert found["leak"] == {"in_training": 0.0, "mislabelled": 0.0}
    summary = json.loads((done / "metrics/hypernyms/summary.json").read_text())
    assert summary["accuracy"] == own["accuracy"]
    embedding = json.loads((done / "metrics/hypernyms/train.json").read_text())
    assert found["dev"]["order"]["accuracy"] == pytest.approx(embedding["dev"], abs=1e-3)
    assert (embedding["batches"], embedding["parameters"]) == (2 * 681, 33000)


def test_the_mistakes_are_wrong_and_the_worst_first(done):
    concepts = Concepts.load(done / "models/hypernyms/concepts")
    rows = pq.read_table(done / "data/hypernyms/scores/mistakes.parquet").to_pylist()
    assert 0 < len(rows) <= 50
    for row in rows:
        assert concepts.is_a(row["hyponym"], row["hypernym"]) != row["label"]
        assert row["hyponym_gloss"].startswith("a scene with")
    scores = pq.read_table(done / "data/hypernyms/scores/scores.parquet").to_pandas()
    own = json.loads((done / "metrics/hypernyms/evaluate.json").read_text())["test"]["order"]
    assert 100 * (scores["accepted"] == scores["label"]).mean() == pytest.approx(own["accuracy"], abs=1e-5)
    distances = [abs(row["energy"] - concepts.threshold) for row in rows]
    assert distances == sorted(distances, reverse=True)


def test_the_page_needs_nothing_else(done):
    text = (done / "report/hypernyms/index.html").read_text()
    check_text(text)
    for part in (
        "Scores",
        "By type of pair",
        "Training",
        "direct edges",
        "closure",
        "ceiling",
        "Mistakes",
        "No published split",
    ):
        assert part in text, part
    assert text.count("<svg") == 5
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert text.count("<script>") == 1  # sorts tables, looks words up, and is part of the page
    assert {path.name for path in (done / "report/hypernyms/plots").iterdir()} >= {"depth.svg", "energies.svg"}


def test_the_box_of_the_page_has_the_nearest_hypernyms_and_their_place_in_the_taxonomy(done):
    text = (done / "report/hypernyms/index.html").read_text()
    known = json.loads(re.search(r'<script type="application/json">(.*?)</script>', text)[1])
    pairs = pq.read_table(done / "data/hypernyms/taxonomy/pairs.parquet").to_pandas()
    names = pq.read_table(done / "data/hypernyms/taxonomy/concepts.parquet")["name"].to_pylist()
    true = {(names[one.hyponym], names[one.hypernym]) for one in pairs.itertuples() if one.label}
    concepts = Concepts.load(done / "models/hypernyms/concepts")
    assert known
    for name, _, above in known:
        expected = [
            [
                other,
                f"{energy:.3f}",
                "yes" if energy <= concepts.threshold else "no",
                "yes" if (name, other) in true else "no",
            ]
            for other, energy in concepts.hypernyms(name, 5)
        ]
        assert above == expected


def test_published_rows_stand_beside_their_own_protocol_only(done):
    metrics, counts, embedding = (
        json.loads((done / path).read_text())
        for path in (
            "metrics/hypernyms/evaluate.json",
            "metrics/hypernyms/taxonomy.json",
            "metrics/hypernyms/train.json",
        )
    )
    ganea = ("ganea2018-50", "92.8"), ("ganea2018-10", "85.9"), ("ganea2018-90", None)
    for protocol, shown in (("released", "92.3"), *ganea, ("clean", None), ("", None)):
        text = render(metrics, {**counts, "protocol": protocol}, embedding, [], [], NONE, HypernymsSettings())
        assert ("published</small>" in text) == (shown is not None)
        assert shown is None or f"<td>{shown}</td>" in text
    wrong = {**counts, "protocol": "released", "test": {**counts["test"], "mislabelled": 13.0, "ceiling": 93.5}}
    text = render(metrics, wrong, embedding, [], [], NONE, HypernymsSettings())
    assert "an accuracy above 93.5 %" in text
    assert "splits drawn this way" not in text
    share, ceiling = ({"mean": mean, "deviation": 0.6, "lowest": 12.34, "highest": 94.0} for mean in (13.8, 93.1))
    wrong["draws"] = {"number": 40, "mislabelled": share, "ceiling": ceiling}
    text = render(metrics, wrong, embedding, [], [], NONE, HypernymsSettings())
    assert "Over 40 splits drawn this way: 13.8 ± 0.6 % (12.3 to 94.0) of the false pairs, ceiling 93.1 ± 0.6 %" in text


def test_a_list_that_is_missing_leaves_the_earlier_outputs(done, tmp_path, monkeypatch, repository):
    shutil.copytree(done, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    before = files(tmp_path / "run")
    settings = TaxonomySettings(
        format="sample", path=str(repository / "data/raw/sample"), dev_pairs="a", test_pairs="b"
    )
    with pytest.raises(CorpusError, match="data/raw/hypernyms/a: does not exist"):
        taxonomy.work(settings)
    assert files(tmp_path / "run") == before
