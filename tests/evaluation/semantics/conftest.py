"""Small data sets in SentEval's layout, and encoders that need no training."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pytest

WORDS = ["a", "the", "man", "woman", "dog", "cat", "red", "blue", "runs", "sits", "on", "under", "park", "ball"]


def bag(sentences):
    """A bag of words: each word has a fixed random direction; no two sentences of other words agree."""
    return np.array([sum(direction(word) for word in sentence.split()) for sentence in sentences])


@functools.cache
def direction(word):
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
    return np.random.default_rng(seed).standard_normal(24)


def sentence_pairs(count, seed):
    """Pairs with a gold score that follows from the shared words: (first, second, score from 1 to 5)."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        first = list(random.choice(WORDS, 6, replace=False))
        kept = number % 5
        second = first[:kept] + list(random.choice(WORDS, 6 - kept))
        found.append((" ".join(first), " ".join(second), 1.0 + kept))
    return found


@pytest.fixture
def data(tmp_path):
    """A set of one's own with two subtasks (one with blank gold lines), STS Benchmark and SICK, all small."""
    own = tmp_path / "downstream" / "STS" / "STSOwn-en-test"
    own.mkdir(parents=True)
    for name, seed in (("street", 1), ("park.life", 2)):
        rows = sentence_pairs(30, seed)
        (own / f"STS.input.{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b, _ in rows))
        blank = {3, 17} if name == "street" else set()
        gold = ["" if number in blank else f"{score:.3f}" for number, (_, _, score) in enumerate(rows)]
        (own / f"STS.gs.{name}.txt").write_text("\n".join(gold) + "\n")
    benchmark = tmp_path / "downstream" / "STS" / "STSBenchmark"
    benchmark.mkdir()
    for seed, part in enumerate(("train", "dev", "test"), start=3):
        lines = [f"g\tf\ty\t{i}\t{s - 1}\t{a}\t{b}\n" for i, (a, b, s) in enumerate(sentence_pairs(40, seed))]
        (benchmark / f"sts-{part}.csv").write_text("".join(lines))
    sick = tmp_path / "downstream" / "SICK"
    sick.mkdir()
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    for seed, part in enumerate(("train", "trial", "test_annotated"), start=6):
        lines = [f"{i}\t{a}\t{b}\t{s}\tNEUTRAL\n" for i, (a, b, s) in enumerate(sentence_pairs(40, seed))]
        (sick / f"SICK_{part}.txt").write_text(header + "".join(lines))
    return tmp_path


@pytest.fixture
def bag_encoder():
    return bag


CLASSIFICATION_FILES = {
    "MR": {
        "MR/rt-polarity.pos": "a  fine film\nit is good\n\ngood good M-i good\n",
        "MR/rt-polarity.neg": "a poor film\ndull\n",
    },
    "CR": {"CR/custrev.pos": "works well\n", "CR/custrev.neg": "broke\ndid not start\n"},
    "SUBJ": {"SUBJ/subj.objective": "he leaves town\n", "SUBJ/subj.subjective": "it moves you\n"},
    "MPQA": {"MPQA/mpqa.pos": "agree\n", "MPQA/mpqa.neg": "reject\n"},
    "SST2": {
        "SST/binary/sentiment-train": "a gorgeous film\t1\nno\t0\nbad one .\t0\n",
        "SST/binary/sentiment-dev": "so so\t0\n",
        "SST/binary/sentiment-test": "great\t1\nlong , dull and flat\t0\n",
    },
    "TREC": {
        "TREC/train_5500.label": "".join(
            f"{name}:kind What is {name} ?\n" for name in ("NUM", "ABBR", "LOC", "HUM", "ENTY", "DESC")
        ),
        "TREC/TREC_10.label": "NUM:dist How far is it from Denver to Aspen ?\nLOC:city Where ?\n",
    },
    "MRPC": {
        "MRPC/msr_paraphrase_train.txt": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        '1\t10\t11\tHe said "no .\tHe refused .\n0\t12\t13\tShares rose .\tIt rained all day .\n',
        "MRPC/msr_paraphrase_test.txt": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t14\t15\tA b\tA b c\n",
    },
    "SNLI": {
        f"SNLI/{kind}.{part}": text
        for part in ("train", "dev", "test")
        for kind, text in {
            "labels": "neutral\nentailment\ncontradiction\nentailment\n",
            "s1": "a man runs\na dog sits .\na dog sits .\nwomen\n",
            "s2": "he is late\nit sits down\nit runs away\na café\n",
        }.items()
    },
}


@pytest.fixture
def published(tmp_path):
    """Each classification task with a few lines in its published format (SICK's is in ``data``)."""
    for files in CLASSIFICATION_FILES.values():
        for name, text in files.items():
            file = tmp_path / "downstream" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return tmp_path
