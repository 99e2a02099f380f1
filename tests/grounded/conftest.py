"""A small folder of SentEval's files, ratings of its words, and a random text."""

from __future__ import annotations

import numpy as np
import pytest
from grounded_project import WORDS, sentences
from small_text import text_of


@pytest.fixture(scope="session")
def senteval(tmp_path_factory):
    """STS12 alone is missing; STS Benchmark with three genres, SICK, MR and MRPC."""
    root = tmp_path_factory.mktemp("senteval")
    down = root / "downstream"
    random = np.random.default_rng(0)

    def scores(count):
        return np.round(random.uniform(1, 5, count), 2)

    (down / "STS" / "STSBenchmark").mkdir(parents=True)
    for name in ("train", "dev", "test"):
        rows = zip(sentences(30, 1), sentences(30, 2), scores(30), strict=True)
        genres = ["main-captions", "main-news", "main-forum"] * 10
        lines = [f"{g}\tf\t2012\t{n}\t{s}\t{a}\t{b}" for n, (g, (a, b, s)) in enumerate(zip(genres, rows, strict=True))]
        (down / "STS" / "STSBenchmark" / f"sts-{name}.csv").write_text("\n".join(lines) + "\n")
    (down / "SICK").mkdir()
    for name in ("train", "trial", "test_annotated"):
        rows = zip(sentences(20, 3), sentences(20, 4), scores(20), strict=True)
        lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        lines += [f"{n}\t{a}\t{b}\t{s}\tNEUTRAL" for n, (a, b, s) in enumerate(rows)]
        (down / "SICK" / f"SICK_{name}.txt").write_text("\n".join(lines) + "\n")
    (down / "MR").mkdir()
    for name, seed in (("pos", 5), ("neg", 6)):
        lines = [f"{text} {'red' if name == 'pos' else 'blue'}" for text in sentences(25, seed)]
        (down / "MR" / f"rt-polarity.{name}").write_text("\n".join(lines) + "\n")
    (down / "MRPC").mkdir()
    for name in ("train", "test"):
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        pairs = zip(sentences(40, 7), sentences(40, 8), strict=True)
        lines += [f"{n % 2}\t1\t2\t{a}\t{b}" for n, (a, b) in enumerate(pairs)]
        (down / "MRPC" / f"msr_paraphrase_{name}.txt").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="session")
def ratings(tmp_path_factory):
    path = tmp_path_factory.mktemp("ratings") / "ratings.txt"
    lines = [f"{word}\t0\t{1 + number % 5}.0" for number, word in enumerate(WORDS) if word != "the"]
    path.write_text("\n".join(["Word\tBigram\tConc.M", *lines]) + "\n")
    return path


@pytest.fixture(scope="session")
def random_text():
    """300 sentences of 1 to 11 words of 18, in passages of ten, the last two passages held out."""
    random = np.random.default_rng(5)
    rows = [random.integers(1, 20, random.integers(1, 12)) for _ in range(300)]
    return text_of(rows, words=20, passages=np.arange(300) // 10, held_out=range(280, 300), max_tokens=12)
