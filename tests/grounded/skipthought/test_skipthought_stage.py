"""The stage skipthought: its files, equal bytes, a killed process, and wrong input."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import FileFormatError
from sightword.grounded.skipthought import task as training
from sightword.grounded.skipthought.network import load
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.io.files import atomic_folder
from sightword.text.storage import write_text
from sightword.training import engine
from stages.grounded import skipthought

SMALL = SkipthoughtSettings(embedding=6, hidden=8, batch=16, steps=12, validate_every=5)


@pytest.fixture
def project(random_text, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTWORD_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    with atomic_folder("data/text") as folder:
        write_text(
            folder, random_text.vocabulary, [random_text.tokens], np.diff(random_text.offsets), random_text.passage,
            random_text.split, max_tokens=12,
        )  # fmt: skip
    return tmp_path / "project"


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_killed_stage_ends_with_the_same_files(project, tmp_path, monkeypatch):
    skipthought.work(SMALL)()
    wanted = files(project)
    metrics = json.loads((project / "metrics/grounded/skipthought.json").read_text())
    assert (metrics["steps"], metrics["tokens"], metrics["objective"]) == (12, 20, "skipthought")
    assert metrics["held_out_perplexity"] == pytest.approx(np.exp(metrics["held_out_loss"]), rel=1e-4)
    table = (project / "plots/grounded/skipthought/held_out.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in table] == ["batch", "0", "5", "10", "12"]
    assert not list((tmp_path / "scratch/skipthought").glob("*/"))

    step = training.TextTask.step

    def until_killed(self, number):
        if number == 7:
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(engine, "SECONDS", 0.0)
    monkeypatch.setattr(training.TextTask, "step", until_killed)
    with pytest.raises(KeyboardInterrupt):
        skipthought.work(SMALL)
    assert files(project) == wanted
    done = []
    monkeypatch.setattr(training.TextTask, "step", lambda self, number: done.append(1) or step(self, number))
    skipthought.work(SMALL)()
    assert len(done) == 5
    assert files(project) == wanted


def test_the_saved_encoder_encodes_and_can_be_trained_on(project, random_text):
    skipthought.work(SMALL.model_copy(update={"objective": "infonce"}))()
    found = json.loads((project / "metrics/grounded/skipthought.json").read_text())
    assert (found["pairs"], "triples" in found) == (len(random_text.pairs(0)), False)
    network = load(project / "models/skipthought")
    loss = network.loss(random_text, random_text.pairs(0)[:16])
    loss.backward()
    assert network.captions.embedding.weight.grad.any()
    encoder = SentenceEncoder.load(project / "models/skipthought/encoder")
    assert encoder.encode(["w0001 w0004"]).shape == (1, 8)
    assert encoder.spaces == ("sentence",)


def test_a_damaged_text_is_one_message_and_writes_nothing(project):
    path = project / "data/text/text.h5"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"text.h5: is damaged"):
        skipthought.work(SMALL)
    assert not (project / "models").exists()
