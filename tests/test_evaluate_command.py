"""``sightword evaluate``: any encoder by its name, its scores as a table, and its messages."""

from __future__ import annotations

import json
import os
import re
import sys

import numpy as np
import pytest
import torch

from pipeline.cli import main
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.relatedness import TfIdf
from sightword.evaluation.semantics.results import read_pairs
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

SENTENCES = ["a dog runs", "a cat sits", "two dogs run fast", "the red ball", "a dog and a cat"]

MODULE = '''
import numpy as np

def lengths(sentences):
    return np.array([[len(s), s.count("a"), 1.0] for s in sentences])

class Model:
    """As sentence-transformers: encode, and callable for other things."""
    sizes = []
    prepared = []
    def encode(self, sentences, batch_size=32, show_progress_bar=None):
        self.sizes.append(batch_size)
        return lengths(sentences)
    def __call__(self, features):
        raise AssertionError("not this one")

class Careful(Model):
    def prepare(self, sentences):
        self.prepared.append(len(sentences))

model = Model()
number = 5
'''


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder to work in, with a data set, an encoder of one's own and word vectors."""
    folder = tmp_path / "senteval/downstream/STS/STSOwn-en-test"
    folder.mkdir(parents=True)
    pairs = [(a, b) for a in SENTENCES for b in SENTENCES if a < b]
    (folder / "STS.input.street.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (folder / "STS.gs.street.txt").write_text("".join(f"{len(set(a) & set(b)) / 3:.3f}\n" for a, b in pairs))
    (tmp_path / "my_encoder.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("def f(:")
    os.mkfifo(tmp_path / "pipe")
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    random = np.random.default_rng(0).normal(size=(len(words), 4))
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in row)}" for word, row in zip(words, random, strict=True)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_encoder", None)


def run(*argv):
    return main(["evaluate", *argv, "--data", "senteval", "--tasks", "STSOwn"])


def test_a_users_function_is_evaluated_and_the_table_shows_its_scores(work, capsys):
    (work / "seen.txt").write_text("A dog runs.\nsomething else\n")
    options = ["--out", "new/scores.json", "--pairs", "new/pairs.parquet", "--training-captions", "seen.txt"]
    assert run("my_encoder:lengths", *options) == 0
    scores = json.loads((work / "new/scores.json").read_text())
    import my_encoder

    captions = ["A dog runs.", "something else"]
    floor = {"tfidf": TfIdf(captions)}
    expected = evaluate(my_encoder.lengths, ["STSOwn"], work / "senteval", captions, controls=floor)
    assert scores == json.loads(json.dumps(expected))
    lines = capsys.readouterr().out.splitlines()
    street = scores["STSOwn"]["street"]
    assert re.split(r"\s{2,}", lines[0]) == [
        *["task", "subtask", "pairs", "pearson", "95 % interval", "spearman", "seen", "pearson, unseen"],
        "tf-idf",
    ]
    lo, hi = street["pearson_ci95"]
    assert re.split(r"\s{2,}", lines[1]) == [
        *["STSOwn", "street", "10", f"{street['pearson']:.4f}", f"{lo:.3f} to {hi:.3f}", f"{street['spearman']:.4f}"],
        *["20.0%", f"{street['unseen']['pearson']:.4f}", f"{scores['controls']['tfidf']['STSOwn']['street']:.4f}"],
    ]
    assert [line.split()[1] for line in lines[2:]] == ["mean", "mean", "pooled"]
    pairs = read_pairs(work / "new/pairs.parquet").subtasks["STSOwn", "street"]
    assert len(pairs) == 10
    assert np.corrcoef(pairs.score, pairs.gold)[0, 1] == pytest.approx(street["pearson"])


def test_an_object_is_asked_by_its_method_with_the_batch_size_it_takes(work):
    for name in ("my_encoder:model", "my_encoder:Model()", "my_encoder:Careful()"):
        assert run(name, "--batch-size", "7") == 0
    import my_encoder

    assert set(my_encoder.Model.sizes) == {7}
    assert my_encoder.Careful.prepared == [5]
    assert run("my_encoder:model") == 0
    assert my_encoder.Model.sizes[-1] == 32


def test_an_encoder_folder_is_evaluated(work, capsys):
    torch.manual_seed(0)
    settings = ModelSettings(embedding=5, hidden=6, attention=4)
    vocabulary = Vocabulary.build(SENTENCES)
    encoder = SentenceEncoder(parts_of([Encoders(len(vocabulary), 7, settings.shape)], vocabulary, settings.shape))
    encoder.save(work / "models/encoder")
    assert run("models/encoder", "--batch-size", "2") == 0
    expected = evaluate(encoder.encode, ["STSOwn"], work / "senteval")["STSOwn"]["street"]["pearson"]
    assert f"{expected:.4f}" in capsys.readouterr().out


def test_two_encoders_are_tested_on_the_same_pairs(work, capsys):
    assert run("my_encoder:lengths", "vectors.txt", "--no-trained-head", "--lower-case") == 0
    said = capsys.readouterr().out
    a, b, tested = (re.split(r"\s{2,}", line) for line in said.splitlines() if "  street" in line)
    ours, theirs = (float(cell.split()[0]) for cell in tested[3:5])
    assert (ours, theirs) == pytest.approx((float(a[3]), float(b[3])), abs=1e-3)
    assert "A: my_encoder:lengths" in said
    assert "\n\nB: vectors.txt\n" in said
    assert "after Holm correction" in said


@pytest.mark.parametrize(
    "text", ["1.jpg#0\tA dog runs .\n", "A dog runs .\t5\n", "image,caption\n" + 2 * "1.jpg,A dog\n", "1.jpg| 0| A dog"]
)
def test_lines_with_more_than_a_caption_are_refused(work, capsys, text):
    (work / "seen.txt").write_text(text)
    assert run("my_encoder:lengths", "--training-captions", "seen.txt") == 1
    assert "seen.txt: has more on a line than a caption; expected captions.parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["my_encoder:nothing"], "my_encoder:nothing: the module my_encoder has no nothing"),
        (["my_encoder:number"], "my_encoder:number: is int; expected a function, or an object with a method encode"),
        (["my_encoder:Model"], "my_encoder:Model: is a class. Put () behind it"),
        (["broken:f"], "broken:f: cannot be imported (SyntaxError: "),
        (["my_encoder:lengths", "--batch-size", "8"], "the encoder takes no batch_size"),
        (["words.txt", "--batch-size", "8"], "words.txt: the encoder takes no batch_size"),
        (
            ["my_encoder:lengths", "--lower-case"],
            "my_encoder:lengths: does not look words up",
        ),
        (["models/none"], "models/none: no such encoder; expected flickr8k, multi30k, the folder of an encoder"),
        (["my_encoder:lengths", "--out", "senteval"], "senteval: is not a plain file"),
    ],
)
def test_a_mistake_is_reported_before_the_work(work, capsys, argv, message):
    assert run(*argv) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"sightword: {message}")
    assert not captured.out


def test_missing_tasks_stop_or_are_named(work, capsys):
    argv = ["evaluate", "my_encoder:lengths", "--data", "senteval", "--tasks", "STSOwn", "STS13"]
    assert main(argv) == 1
    assert (
        "STS13-en-test: task STS13: does not exist. Fetch it (`sightword fetch senteval`), or name other tasks"
        in capsys.readouterr().err
    )
    assert main([*argv, "--missing", "skip"]) == 0
    assert "left out: STS13 (downstream/STS/STS13-en-test does not exist)" in capsys.readouterr().err
    assert main([*argv[:5], "STS13", "--missing", "skip"]) == 1
    assert (
        "task STS13: does not exist. Fetch it (`sightword fetch senteval`), or name other tasks with --tasks.\n"
        in capsys.readouterr().err
    )
    assert main(["evaluate", "my_encoder:lengths", "--data", "nowhere"]) == 1
    assert "nowhere: has no folder downstream" in capsys.readouterr().err


def test_training_captions_are_those_of_the_split_train(work, capsys):
    import pyarrow as pa

    from sightword.io.files import write_table

    table = pa.table({"text": ["a dog runs", "two", "a cat sits"], "split": ["train", "train", "dev"]})
    write_table(work / "c.parquet", table)
    (work / "c.txt").write_text("a dog runs\n\ntwo\n")
    (work / "empty.txt").write_text("\n")
    shown = []
    for name in ("c.parquet", "c.txt"):
        assert run("my_encoder:lengths", "--training-captions", name) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "20.0%" in shown[0]
    assert run("my_encoder:lengths", "--training-captions", "empty.txt") == 1
    assert "empty.txt: has no training caption" in capsys.readouterr().err
