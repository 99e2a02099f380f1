from __future__ import annotations

import re
from collections import Counter

import pytest

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.datasets import ClassificationTask, missing_file, read_task
from sightword.evaluation.semantics.settings import CLASSIFICATION


def wrong(data, name):
    with pytest.raises(SemanticsError) as caught:
        read_task(name, data)
    return str(caught.value)


def rows(part, classes):
    second = part.second or [None] * len(part)
    return [(a, b, classes[label]) for a, b, label in zip(part.first, second, part.labels, strict=True)]


def test_two_files_of_sentences_are_sorted_by_length_and_class(published):
    task = read_task("MR", published)
    assert (task.protocol, task.features, task.dev, task.test) == ("nested", "vector", None, None)
    assert rows(task.train, task.classes) == [
        (".", None, "rt-polarity.pos"),  # an empty line is an example too
        ("dull", None, "rt-polarity.neg"),
        ("a poor film", None, "rt-polarity.neg"),
        ("a fine film", None, "rt-polarity.pos"),
        ("it is good", None, "rt-polarity.pos"),
        ("good good M-i good", None, "rt-polarity.pos"),
    ]
    assert task.test_sentences() == list(task.sentences()) == task.train.first


@pytest.mark.parametrize(("name", "first_class"), [("CR", "works well"), ("SUBJ", "he leaves town"), ("MPQA", "agree")])
def test_the_first_file_is_class_1(published, name, first_class):
    train = read_task(name, published).train
    assert [sentence for sentence, label in zip(train.first, train.labels, strict=True) if label] == [first_class]


def test_these_files_are_latin_1(published):
    (published / "downstream/CR/custrev.neg").write_bytes("caf\u00e9\u00a0closed\n".encode("latin-1"))
    assert read_task("CR", published).train.first == ["caf\u00e9 closed", "works well"]


def test_sst2_has_three_parts(published):
    task = read_task("SST2", published)
    assert (task.protocol, task.features) == ("split", "vector")
    assert rows(task.train, task.classes) == [
        ("no", None, "0"),
        ("bad one .", None, "0"),
        ("a gorgeous film", None, "1"),
    ]
    assert (task.dev.first, task.test.labels.tolist()) == (["so so"], [1, 0])
    assert task.test_sentences() == ["great", "long , dull and flat"]
    assert Counter(task.sentences()) == Counter([*task.train.first, *task.dev.first, *task.test.first])


def test_trec_has_the_coarse_classes(published):
    task = read_task("TREC", published)
    assert (task.protocol, task.features, task.dev) == ("folds", "vector", None)
    assert rows(task.train, task.classes) == [
        (f"What is {name} ?", None, name) for name in ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    ]
    assert rows(task.test, task.classes)[0] == ("Where ?", None, "LOC")


def test_mrpc_has_pairs_and_its_quotes_are_plain_characters(published):
    task = read_task("MRPC", published)
    assert (task.protocol, task.features, task.dev) == ("folds", "compared", None)
    assert rows(task.train, task.classes) == [
        ("Shares rose .", "It rained all day .", "0"),
        ('He said "no .', "He refused .", "1"),
    ]
    assert task.test_sentences() == ["A b", "A b c"]


def test_snli_is_read_as_latin_1_and_sorted_by_second_sentence_and_label_name(published):
    task = read_task("SNLI", published)
    assert (task.protocol, task.features, task.regularised) == ("split", "all", False)
    assert rows(task.train, task.classes) == [
        ("women", "a caf\u00c3\u00a9", "entailment"),
        ("a man runs", "he is late", "neutral"),
        ("a dog sits .", "it runs away", "contradiction"),
        ("a dog sits .", "it sits down", "entailment"),
    ]
    assert task.train.labels.tolist() == [0, 1, 2, 0]


def test_half_a_letter_read_as_latin_1_does_not_split_a_word(published):
    for part in ("train", "dev", "test"):
        (published / f"downstream/SNLI/s2.{part}").write_text("à la carte\nb\nc\nd\n", encoding="utf-8")
    assert read_task("SNLI", published).train.second[-1] == "\u00c3\u00a0 la carte"


def test_sick_entailment_reads_the_last_column(data):
    for part, label in (("train", "ENTAILMENT"), ("trial", "CONTRADICTION")):
        file = data / f"downstream/SICK/SICK_{part}.txt"
        with file.open("a") as out:
            out.write(f"41\tnow\tthen\t3\t{label}\n42\ta b\tc d\t3\tCONTRADICTION\n")
    task = read_task("SICKEntailment", data)
    assert (task.protocol, task.features) == ("split", "compared")
    assert rows(task.train, task.classes)[:2] == [("now", "then", "ENTAILMENT"), ("a b", "c d", "CONTRADICTION")]
    lengths = [(len(a.split()), len(b.split()), c) for a, b, c in zip(*vars(task.train).values(), strict=True)]
    assert lengths == sorted(lengths)
    assert len(task.test) == 40


def test_the_published_sick_has_the_published_classes(real_data):
    task = read_task("SICKEntailment", real_data / "senteval")
    assert [len(part) for part in (task.train, task.dev, task.test)] == [4500, 500, 4927]
    counts = Counter(task.classes[label] for part in (task.train, task.dev, task.test) for label in part.labels)
    assert counts == {"NEUTRAL": 5611, "ENTAILMENT": 2857, "CONTRADICTION": 1459}


def test_each_task_knows_its_files(published, data):
    for name in CLASSIFICATION:
        assert missing_file(name, published) is None
        if name != "SICKEntailment":
            assert isinstance(read_task(name, published), ClassificationTask)
    (published / "downstream/SNLI/s2.dev").unlink()
    assert missing_file("SNLI", published) == "downstream/SNLI/s2.dev"
    assert "SNLI/s2.dev: task SNLI: does not exist. Get the data set" in wrong(published, "SNLI")


MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("MR", "MR/rt-polarity.pos", "", "has no example of the class rt-polarity.pos; expected some of each"),
        ("MR", "MR/rt-polarity.neg", "", "has no example of the class rt-polarity.neg"),
        (
            "SST2",
            "SST/binary/sentiment-dev",
            "a\t1\nb 0\n",
            "sentiment-dev, line 2: has 1 cell; expected 2: sentence, 0 or 1",
        ),
        (
            "SST2",
            "SST/binary/sentiment-dev",
            "a\t1\nb\t2\n",
            "sentiment-dev, line 2: the class is '2'; expected 0 or 1",
        ),
        ("SST2", "SST/binary/sentiment-dev", "", "sentiment-dev: has no rows"),
        ("SST2", "SST/binary/sentiment-train", "a\t1\n", "sentiment-train: has no example of the class 0"),
        ("TREC", "TREC/TREC_10.label", "LOC:city\n", "TREC_10.label, line 1: has no class or no question"),
        ("TREC", "TREC/TREC_10.label", "Where is it ?\n", "TREC_10.label, line 1: has no class or no question"),
        ("TREC", "TREC/TREC_10.label", "LOC:a b\nLOKI:a b\n", "line 2: the class is 'LOKI'; expected ABBR or DESC"),
        ("TREC", "TREC/train_5500.label", "LOC:a b\n", "train_5500.label: has no example of the class ABBR"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", "", "test.txt, line 1: has no column Quality"),
        (
            "MRPC",
            "MRPC/msr_paraphrase_test.txt",
            "1\t1\t2\ta\tb\n",
            "line 1: has no column Quality .it has: 1, 1, 2, a, b",
        ),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", f"{MRPC}1\t1\t2\ta\n", "test.txt, line 2: has 4 cells"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", f"{MRPC}x\t1\t2\ta\tb\n", "line 2: the class is 'x'"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", MRPC, "test.txt: has no rows"),
        ("SNLI", "SNLI/s1.dev", "a\nb\nc\n", "s1.dev: has 3 lines for the 4 of labels.dev.*line 4 of labels.dev"),
        ("SNLI", "SNLI/s2.dev", "a\n" * 6, "s2.dev: has 6 lines for the 4 of labels.dev.*line 5 of s2.dev"),
        ("SNLI", "SNLI/labels.test", "neutral\n-\nneutral\nneutral\n", "labels.test, line 2: the class is '-'"),
        ("SNLI", "SNLI/labels.train", "neutral\n" * 4, "labels.train: has no example of the class entailment"),
    ],
)
def test_a_wrong_line_is_named(published, name, file, text, message):
    (published / "downstream" / file).write_text(text)
    assert re.search(message, wrong(published, name))


@pytest.mark.parametrize(
    ("name", "file"), [("SST2", "SST/binary/sentiment-train"), ("MRPC", "MRPC/msr_paraphrase_train.txt")]
)
def test_another_encoding_is_named_with_its_line(published, name, file):
    path = published / "downstream" / file
    path.write_bytes(path.read_bytes() + "caf\u00e9".encode("latin-1"))
    assert re.search(r", line \d: byte 0xe9 is not UTF-8. Save", wrong(published, name))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("41\ta\tb\t3\tMAYBE", "line 42: the class is 'MAYBE'; expected CONTRADICTION or NEUTRAL or ENTAILMENT"),
        ("41\ta\tb\t3", "line 42: has 4 cells; expected 5, as in the header"),
    ],
)
def test_a_wrong_line_of_sick_is_named(data, line, message):
    with (data / "downstream/SICK/SICK_trial.txt").open("a") as out:
        out.write(line + "\n")
    assert message in wrong(data, "SICKEntailment")


def test_sick_without_classes_is_refused(data):
    assert "SICK_train.txt: has no example of the class CONTRADICTION" in wrong(data, "SICKEntailment")
    for file in (data / "downstream/SICK").iterdir():
        file.write_text("".join(line.rpartition("\t")[0] + "\n" for line in file.read_text().splitlines()))
    assert "line 2: the class is ''; expected CONTRADICTION" in wrong(data, "SICKEntailment")
    assert len(read_task("SICKRelatedness", data).test) == 40
