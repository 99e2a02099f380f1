"""The stage text: stories of the sample and a little text of one's own; outputs, counts, equal bytes, bad input."""

from __future__ import annotations

import json
import logging
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.captions.table import check_vocabulary, read_captions
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.corpus.reading import clean
from sightword.corpus.records import Caption, Image, write_tables
from sightword.corpus.sample.scene import load_world
from sightword.errors import CorpusError
from sightword.text import building
from sightword.text.building import blocks, held_out
from sightword.text.reading import stories
from sightword.text.settings import TextSettings
from sightword.text.storage import Text
from stages.grounded.text import work

CAPTIONS = {"a.jpg": ("train", "A dog's frisbee ."), "b.jpg": ("dev", "a star"), "c.jpg": ("test", "Two stars !")}


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = [Image(name, name, split) for name, (split, _) in CAPTIONS.items()]
    captions = [Caption(name, "0", text) for name, (_, text) in CAPTIONS.items()]
    write_tables(tmp_path / "data/corpus", clean(images, captions, None, require_pictures=False), "pictures")
    return tmp_path


def sample(repository, **more):
    return TextSettings(format="sample", path=str(repository / "data/raw/sample"), stories=60, held_out=0.1, **more)


def own(folder, text, **more):
    (folder / "own.txt").write_text(text)
    return TextSettings(path=str(folder / "own.txt"), **more)


def test_the_sample_is_read_back_sentence_by_sentence(workspace, repository, caplog):
    with caplog.at_level(logging.INFO):
        work(sample(repository))
    text, counts = Text.open("data/text"), json.loads((workspace / "metrics/grounded/text.json").read_bytes())
    assert not [path.name for path in (workspace / "data/text").iterdir() if path.suffix == ".tmp"]
    assert counts["sentences"] == len(text) == len(text.split)
    assert counts["passages"] == 60 == len(set(text.passage.tolist()))
    assert (counts["tokens"], counts["books"], counts["unknown"]) == (len(text.tokens), 1, 0.0)
    assert counts["training"]["triples"] == len(text.triples(0)) > 0
    assert counts["held_out"]["triples"] == len(text.triples(1)) == counts["held_out"]["sentences"] - 2 * held(text)
    assert 0 < counts["held_out"]["sentences"] <= 0.1 * len(text)
    first = text.vocabulary.decode(text.row(0))
    assert first.startswith("there ")
    assert first.endswith(" .")
    assert UNKNOWN not in text.tokens
    captions = read_captions("data/text/captions.parquet")
    check_vocabulary(captions, text.vocabulary)
    assert captions.texts == [text for _, text in CAPTIONS.values()]
    assert counts["captions"] == {
        "train": {"captions": 1, "unknown": 60.0},  # dog, 's, frisbee
        "dev": {"captions": 1, "unknown": 0.0},
        "test": {"captions": 1, "unknown": 33.33},  # !
    }
    assert "unknown: 0.0 % of the text, 60.0 % of train, 0.0 % of dev, 33.3 % of test captions" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def held(text):
    return len(set(text.passage[text.split == 1].tolist()))


def test_the_same_settings_give_the_same_bytes(workspace, repository):
    work(sample(repository))
    shutil.move(workspace / "data/text", workspace / "earlier")
    work(sample(repository))
    names = sorted(path.name for path in (workspace / "earlier").iterdir())
    assert names == ["captions.parquet", "text.h5", "vocabulary.json"]
    for name in names:
        assert (workspace / "earlier" / name).read_bytes() == (workspace / "data/text" / name).read_bytes()
    work(sample(repository, seed=1))
    assert (workspace / "earlier/text.h5").read_bytes() != (workspace / "data/text/text.h5").read_bytes()


def test_rare_words_and_long_sentences(workspace):
    story = "A cat sat.\nA cat ran.\nA rat sat.\nThe very long sentence is left out.\nA cat.\nA rat.\nA cat ran.\n"
    text = story + "\n" + story
    settings = own(workspace, text, vocabulary=5, max_tokens=6, held_out=0.5)
    work(settings)
    stored = Text.open("data/text")
    assert stored.vocabulary.tokens == (".", "a", "cat", "ran", "rat")  # sat is as frequent as rat, and after it
    assert stored.vocabulary.decode(stored.row(0)) == "a cat \N{REPLACEMENT CHARACTER} ."
    assert sorted([*stored.triples(0), *stored.triples(1)]) == [1, 5, 8, 12]
    work(settings.model_copy(update={"min_count": 5}))
    assert Text.open("data/text").vocabulary.tokens == (".", "a", "cat")
    work(settings.model_copy(update={"vocabulary": None, "vocabulary_from": "text_and_captions"}))
    tokens = Text.open("data/text").vocabulary.tokens
    assert {"dog", "frisbee", "'s", "sat"} < set(tokens)
    assert "!" not in tokens  # of a test caption
    assert UNKNOWN not in Text.open("data/text").tokens


def test_a_vocabulary_equals_that_of_all_sentences(workspace, repository):
    work(sample(repository, vocabulary=40))
    stored = Text.open("data/text")
    told = [line for story in stories(load_world(repository / "data/raw/sample"), 60, 0) for line in story]
    wanted = Vocabulary.build(told, normalise=stored.vocabulary.normalise, unit="treebank", size=40)
    assert stored.vocabulary == wanted
    assert [row.tolist() for row in stored.rows(range(len(stored)))] == [wanted.encode(line) for line in told]


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("\n\n \n", {}, r"own\.txt: has no sentence; expected one sentence a line"),
        ("a\nb\nc\n", {}, "the text has one passage only, which cannot be held out; expected two passages or more"),
        (
            "a\nb\nc\n",
            {"held_out_by": "book"},
            r"one book only, .*\. Set text.held_out_by to block, or give books.csv\.",
        ),
        ("a\nb\n\n" * 9, {}, "has no triple for training; expected three consecutive sentences below 30 tokens"),
        ("a b\n" * 5 + "\n" + "a b\n" * 5, {"max_tokens": 2}, "has no triple for training"),
        ("a\nb\n\n" + "a\nb\nc\n\n" * 9, {"held_out": 0.1}, "has no triple in the held-out part"),
        ("a\nb\nc\n\n" * 5, {"min_count": 9}, r"own\.txt: no word occurs 9 times or more. Lower text\.min_count"),
    ],
)
def test_a_text_without_enough_is_refused(workspace, text, more, message):
    with pytest.raises(CorpusError, match=message):
        work(own(workspace, text, **more))
    assert not (workspace / "data/text").exists()
    assert not list((workspace / "data").glob(".*"))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=30), st.floats(0.01, 0.5), st.integers(0, 99))
def test_the_held_out_part_is_near_its_share(sizes, share, seed):
    starts, total = np.cumsum([0, *sizes[:-1]]), sum(sizes)
    chosen = held_out(starts, total, share, seed, by="passage")
    size = int(np.array(sizes)[chosen].sum())
    if size > share * total:
        assert size == min(sizes)
        assert chosen.sum() == 1
    elif not chosen.all():
        assert size + np.array(sizes)[~chosen].min() > share * total
    assert chosen.tolist() == held_out(starts, total, share, seed, by="passage").tolist()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(1, 5))
def test_blocks_are_cut_from_the_first_sentence_of_each_passage(sizes, length):
    starts = np.cumsum([0, *sizes[:-1]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "BLOCK", length)
        found = blocks(starts, sum(sizes)).tolist()
    assert found == [
        start + step for start, size in zip(starts.tolist(), sizes, strict=True) for step in range(0, size, length)
    ]
