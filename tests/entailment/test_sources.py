"""Sentence pairs: real files by their published counts, layouts, messages of wrong files, and splits."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from sightword.corpus.sample.scene import load_world
from sightword.corpus.sample.sentences import sick_pair
from sightword.entailment.data.pairs import read_split, write_pairs
from sightword.entailment.data.sources import in_tenth, read_source, split_pairs
from sightword.entailment.settings import SentencePairsSettings, Source
from sightword.errors import FileFormatError, SemanticsError

ROWS = [
    ("A dog runs .", "An animal runs .", "entailment"),
    ("A dog runs .", "A cat sleeps .", "contradiction"),
    ("Two kids play .", 'They say "hi" .', "neutral"),
    ("Two kids play .", "They play ball .", "-"),
]
WANTED = [(*row[:2], "undecided" if row[2] == "-" else row[2]) for row in ROWS]


def snli(folder, part="test", **more):
    return Source(format="snli", path=str(folder), part=part, **more)


def write_senteval(folder, part="test", rows=ROWS):
    for name, column in (("s1", 0), ("s2", 1), ("labels", 2)):
        (folder / f"{name}.{part}").write_text("".join(f"{row[column]}\n" for row in rows))


def record(row):
    return json.dumps({"gold_label": row[2], "sentence1": row[0], "sentence2": row[1], "annotator_labels": []})


def test_snli_has_its_published_counts(real_data):
    folder = real_data / "senteval/downstream/SNLI"
    test, dev = read_source(snli(folder)), read_source(snli(folder, "dev"))
    assert (len(test), len(dev)) == (9824, 9842)
    entailed = sum(label == "entailment" for *_, label in test)
    assert round(100 * entailed / len(test), 1) == 34.3
    assert round(100 * (1 - entailed / len(test)), 1) == 65.7
    # In the release 176 test pairs have no label; kept as not entailed they leave 33.7 % entailed.
    assert round(100 * entailed / 10_000, 1) == 33.7
    tenth, most = (read_source(snli(folder, "dev", premises=name)) for name in ("tenth", "most"))
    assert (len(tenth), len(most)) == (1051, 8791)
    assert sorted(tenth + most) == sorted(dev)


def test_the_small_recipe_shares_no_premise_of_dev(real_data):
    folder, tables = real_data / "senteval/downstream/SNLI", real_data / "nli_counterfactual"
    settings = SentencePairsSettings(
        folder=str(folder), tables=str(tables),
        train=[snli(folder, "dev", premises="most"), Source(format="table", path=str(tables / "train.tsv"))],
        dev=[snli(folder, "dev", premises="tenth")], test=[snli(folder)],
    )  # fmt: skip
    splits, counts = split_pairs(settings)
    assert [len(splits[name]) for name in ("train", "dev", "test")] == [17_121, 1051, 9824]
    assert counts["train"]["sources"] == {"SNLI dev": 8791, "nli_counterfactual/train": 8330}
    assert counts["dev"]["premises_in_training"] == 0
    assert counts["test"]["premises_in_training"] == 2  # two sentences are in both parts of SNLI


@pytest.mark.parametrize("layout", ["senteval", "jsonl", "tsv", "csv", "table of jsonl"])
def test_each_layout_gives_the_same_pairs(tmp_path, layout):
    source = snli(tmp_path)
    if layout == "senteval":
        write_senteval(tmp_path)
    elif layout == "jsonl":
        (tmp_path / "snli_1.0_test.jsonl").write_text("".join(f"{record(row)}\n" for row in ROWS))
    elif layout == "table of jsonl":
        (tmp_path / "multinli_1.0_train.jsonl").write_text("".join(f"{record(row)}\n" for row in ROWS))
        source = Source(format="table", path=str(tmp_path / "multinli_1.0_train.jsonl"))
    elif layout == "tsv":
        lines = ["number\tsentence1\tsentence2\tgold_label", *("\t".join(["7", *row]) for row in ROWS)]
        (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    else:
        (tmp_path / "pairs.csv").write_text(
            "label,premise,hypothesis\n"
            + "".join(f'{row[2]},{row[0]},"{row[1].replace(chr(34), chr(34) * 2)}"\n' for row in ROWS)
        )
    if layout in ("tsv", "csv"):
        source = Source(format="table", path=str(tmp_path / f"pairs.{layout}"))
    assert read_source(source) == WANTED


def test_the_sample_draws_pairs_of_its_own(repository):
    place = str(repository / "data/raw/sample")
    source = Source(format="sample", path=place, part="dev", count=60)
    pairs = read_source(source)
    assert len(pairs) == 60
    assert {label for *_, label in pairs} == {"entailment", "neutral", "contradiction"}
    assert pairs[:20] == read_source(source.model_copy(update={"count": 20}))
    world = load_world(place)
    of_semantics = {sick_pair(world, "trial", number).first for number in range(60)}
    assert not of_semantics & {premise for premise, *_ in pairs}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*ROWS, ("A", "B", "entails")], r"labels.test, line 5: the label is 'entails'; expected entailment, neutral"),
        ([*ROWS, ("A", " ", "neutral")], r"s2.test, line 5: the hypothesis is empty"),
        (None, r"test of SNLI is absent \(labels.test, s1.test, s2.test\). Run `sightword fetch snli`."),
    ],
)
def test_a_wrong_file_is_one_message(tmp_path, rows, message):
    folder = tmp_path / "SNLI"
    folder.mkdir()
    write_senteval(folder, *(["dev"] if rows is None else ["test", rows]))
    with pytest.raises(SemanticsError, match=message):
        read_source(snli(folder))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.tsv",
            "premise\tsentence1\thypothesis\tlabel\n",
            r"line 1: has premise in 2 columns: premise and sentence1",
        ),
        ("a.txt", "x\n", r"a.txt: ends in .txt; expected .csv, .tsv or .jsonl"),
        ("absent", None, r"does not exist\. Put the table there"),
    ],
)
def test_a_wrong_table_is_one_message(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SemanticsError, match=message):
        read_source(Source(format="table", path=str(tmp_path / name)))


def test_a_source_that_makes_no_sense_is_refused():
    for values, message in (
        ({"format": "snli", "path": "x", "part": "matched"}, "part is 'matched'; snli has 'train', 'dev', 'test'"),
        ({"format": "sample", "path": "x", "part": "dev"}, "count is given for the format sample"),
    ):
        with pytest.raises(ValidationError, match=message):
            Source(**values)
    for path in ("data/other", "data/raw/entailment/../x"):
        with pytest.raises(ValidationError, match=rf"{path} is neither in folder .* nor in tables"):
            SentencePairsSettings(train=[snli(path)])


def test_a_tenth_is_known_by_the_premise_alone():
    chosen = [number for number in range(2000) if in_tenth(f"Sentence {number}")]
    assert 140 < len(chosen) < 260
    assert all(in_tenth(f"  SENTENCE {number} ") for number in chosen)


HEADER = "premise\thypothesis\tlabel\n"


@pytest.fixture
def tables(tmp_path):
    """34 training pairs of 17 premises, 6 of dev; test has an undecided pair and a premise of training."""
    labels = ["entailment", "neutral"]
    rows = [f"Premise {place // 2} .\tClaim {place} .\t{labels[place % 2]}\n" for place in range(40)]
    (tmp_path / "train.tsv").write_text(HEADER + "".join(rows[:34]))
    (tmp_path / "dev.tsv").write_text(HEADER + "".join(rows[34:]))
    test = "New .\tC\tentailment\nNew .\tD\tcontradiction\nNewer .\tE\t-\npremise 3.\tF\tneutral\n"
    (tmp_path / "test.tsv").write_text(HEADER + test)
    return tmp_path


def settings_of(tables, **more):
    def source(name):
        return [Source(format="table", path=str(tables / f"{name}.tsv"))]

    given = {"train": source("train"), "dev": source("dev"), "test": source("test"), **more}
    return SentencePairsSettings(folder=str(tables), **given)


def test_the_counts_name_premises_that_training_has(tables):
    _, counts = split_pairs(settings_of(tables))
    assert counts["dev"] == {
        "pairs": 6, "entailed": 50.0, "labels": {"entailment": 3, "neutral": 3}, "undecided": 0, "contradictory": 0,
        "premises": 3, "sources": {f"{tables.name}/dev": 6},
        "premises_in_training": 0, "pairs_with_premise_in_training": 0.0,
    }  # fmt: skip
    assert (counts["test"]["pairs"], counts["test"]["undecided"]) == (3, 1)
    assert counts["test"]["premises_in_training"] == 1  # "premise 3." is "Premise 3 ."
    assert counts["test"]["pairs_with_premise_in_training"] == pytest.approx(100 / 3, abs=1e-4)


def test_test_pairs_that_dev_has_too_are_told(tables, caplog):
    same = [Source(format="table", path=str(tables / "dev.tsv"))]
    split_pairs(settings_of(tables))
    assert not caplog.text
    split_pairs(settings_of(tables, test=same))
    assert "6 of 6 test pairs are dev pairs too" in caplog.text


def test_a_smaller_part_of_training_is_in_a_larger_one(tables):
    sizes = (5, 11, 34)
    parts = [split_pairs(settings_of(tables, size=size))[0]["train"] for size in sizes]
    assert [len(part) for part in parts] == list(sizes)
    small, middle, every = (set(part.hypotheses) for part in parts)
    assert small < middle < every
    with pytest.raises(SemanticsError, match="size = 35 is more than the 34 training pairs"):
        split_pairs(settings_of(tables, size=35))


def test_pairs_come_back_as_they_were_written(tables, tmp_path):
    splits, counts = split_pairs(settings_of(tables))
    write_pairs(tmp_path, splits, counts)
    for name, wanted in splits.items():
        found = read_split(tmp_path, name)
        assert (found.premises, found.hypotheses, found.labels) == (wanted.premises, wanted.hypotheses, wanted.labels)
        assert (found.sources, found.entailed.tolist()) == (wanted.sources, wanted.entailed.tolist())
    with pytest.raises(SemanticsError, match="no split is called 'all'; expected train, dev, test"):
        read_split(tmp_path, "all")
    with pytest.raises(FileFormatError, match=r"Run `make entailment`"):
        read_split(tmp_path / "absent", "dev")


def test_pairs_that_stand_with_two_labels_are_counted_and_kept(tmp_path):
    rows = ["A dog .\tIt runs .\tentailment\n", "A dog .\tIt runs .\tneutral\n", "A dog .\tIt sits .\tneutral\n" * 2]
    (tmp_path / "a.tsv").write_text(HEADER + "".join(rows))
    source = Source(format="table", path=str(tmp_path / "a.tsv"))
    splits, counts = split_pairs(
        SentencePairsSettings(train=[source], dev=[source], test=[source], tables=str(tmp_path))
    )
    assert counts["train"]["contradictory"] == 2
    assert len(splits["train"]) == 4
