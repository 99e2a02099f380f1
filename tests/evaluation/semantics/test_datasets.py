"""Tasks of SentEval: what is read, and what is refused with its file and line."""

from __future__ import annotations

import gzip
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.datasets import SUBTASKS, missing_file, read_task
from sightword.evaluation.semantics.settings import SemanticsSettings

OWN = "downstream/STS/STSOwn-en-test"


def wrong(data, name="STSOwn"):
    with pytest.raises(SemanticsError) as caught:
        read_task(name, data)
    return str(caught.value)


def test_blank_gold_lines_are_dropped_pairs(data):
    lines = (data / OWN / "STS.input.street.txt").read_text().splitlines()
    kept = [line for number, line in enumerate(lines) if number not in (3, 17)]
    street = read_task("STSOwn", data).subtasks["street"]
    assert [f"{a}\t{b}" for a, b in zip(street.first, street.second, strict=True)] == kept


def test_sentences_are_tokens_joined_by_single_spaces_and_an_empty_one_is_a_full_stop(data):
    (data / OWN / "STS.input.street.txt").write_bytes(b"\xef\xbb\xbf  a \xc2\xa0 dog .\t\r\n\t b\r\n")
    (data / OWN / "STS.gs.street.txt").write_bytes(b"1\r\n2.5\r\n")
    pairs = read_task("STSOwn", data).subtasks["street"]
    assert (pairs.first, pairs.second, pairs.gold.tolist()) == (["a dog .", "."], [".", "b"], [1.0, 2.5])


def test_the_published_sets_have_24_subtasks_with_the_published_pairs(real_data):
    tasks = [read_task(name, real_data / "senteval") for name in SUBTASKS]
    assert sum(len(task.subtasks) for task in tasks) == 24
    pairs = [sum(len(subtask) for subtask in task.subtasks.values()) for task in tasks]
    assert pairs == [3108, 1500, 3750, 3000, 1186]
    sizes = [
        (len(t.train), len(t.dev), len(t.test))
        for t in (read_task(n, real_data / "senteval") for n in ("STSBenchmark", "SICKRelatedness"))
    ]
    assert sizes == [(5749, 1500, 1379), (4500, 500, 4927)]


def test_the_first_missing_file_is_named(data, tmp_path):
    assert missing_file("STSOwn", data) is None
    assert missing_file("STS12", data) == "downstream/STS/STS12-en-test"
    assert "STS12-en-test: task STS12: does not exist. Fetch it (`sightword fetch senteval`)" in wrong(data, "STS12")
    (data / OWN / "STS.gs.street.txt").unlink()
    assert missing_file("STSOwn", data) == f"{OWN}/STS.gs.street.txt"
    with pytest.raises(SemanticsError, match="has no folder downstream"):
        missing_file("STSOwn", tmp_path / "downstream")


def test_a_folder_without_subtasks_or_with_a_reserved_name_is_refused(data):
    (data / "downstream/STS/STSEmpty-en-test").mkdir()
    assert "STSEmpty-en-test: has no subtask" in wrong(data, "STSEmpty")
    (data / OWN / "STS.input.mean.txt").write_text("a\tb\n")
    assert "a subtask is called 'mean'" in wrong(data)


def test_a_repeated_subtask_is_refused(data):
    folder = data / "downstream/STS/STSOwn-en-test"
    for kind in ("input", "gs"):
        shutil.copy(folder / f"STS.{kind}.street.txt", folder / f"STS.{kind}.avenue.txt")
    with pytest.raises(SemanticsError, match=r"street\.txt: has the same pairs and scores as STS\.input\.avenue"):
        read_task("STSOwn", data)


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


GOLD, INPUT = "STS/STSOwn-en-test/STS.gs.street.txt", "STS/STSOwn-en-test/STS.input.street.txt"
BENCHMARK, SICK = "STS/STSBenchmark/sts-", "SICK/SICK_"
SST2, TREC, MRPC = "SST/binary/sentiment-", "TREC/TREC_10.label", "MRPC/msr_paraphrase_test.txt"
MRPC_HEAD = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("STSOwn", GOLD, "1\n2\n", r"STS.gs.street.txt: has 2 lines for the 30.*line 3 of STS.input.street.txt"),
        ("STSOwn", GOLD, "1\n2\n" * 16, r"has 32 lines for the 30 .*line 31 of STS.gs.street.txt"),
        ("STSOwn", GOLD, "1\n" * 29 + "nan\n", "street.txt, line 30: the score is 'nan'; expected a number"),
        ("STSOwn", GOLD, "1\n" * 30, "all 30 scores are 1, so no correlation is defined"),
        ("STSOwn", GOLD, "\n" * 30, "STS.gs.street.txt: has no pair with a score"),
        ("STSOwn", INPUT, "a\tb\n" * 29 + "a b\n", "input.street.txt, line 30: has 1 cell; expected 2: first sentence"),
        ("STSBenchmark", f"{BENCHMARK}dev.csv", "+g\tf\ty\t1\t2.0\tone", "has 6 cells; expected 7: genre"),
        ("STSBenchmark", f"{BENCHMARK}train.csv", "+g\tf\ty\t1\t5.5\ta\tb", "line 41: .* '5.5'; .* number from 0 to 5"),
        ("SICKRelatedness", f"{SICK}trial.txt", "+1\ta\tb\t3", "line 42: has 4 cells; expected 5, as in the header"),
        ("SICKRelatedness", f"{SICK}train.txt", "+1\ta\tb\t0.5\tNEUTRAL", "'0.5'; expected a number from 1 to 5"),
        (
            "SICKEntailment",
            f"{SICK}trial.txt",
            "+41\ta\tb\t3\tMAYBE",
            "line 42: the class is 'MAYBE'; expected CONTR",
        ),
        ("MR", "MR/rt-polarity.pos", "", "has no example of the class rt-polarity.pos; expected some of each"),
        ("SST2", f"{SST2}dev", "a\t1\nb 0\n", "dev, line 2: has 1 cell; expected 2: sentence, 0 or 1"),
        ("SST2", f"{SST2}dev", "a\t1\nb\t2\n", "dev, line 2: the class is '2'; expected 0 or 1"),
        ("TREC", TREC, "LOC:city\n", "TREC_10.label, line 1: has no class or no question"),
        ("TREC", TREC, "LOC:a b\nLOKI:a b\n", "line 2: the class is 'LOKI'; expected ABBR or DESC"),
        ("MRPC", MRPC, "1\t1\t2\ta\tb\n", "line 1: has no column Quality .it has: 1, 1, 2, a, b"),
        ("MRPC", MRPC, f"{MRPC_HEAD}1\t1\t2\ta\n", "test.txt, line 2: has 4 cells"),
        ("MRPC", MRPC, MRPC_HEAD, "test.txt: has no rows"),
        ("SNLI", "SNLI/s1.dev", "a\nb\nc\n", "s1.dev: has 3 lines for the 4 of labels.dev.*line 4 of labels.dev"),
        ("SNLI", "SNLI/labels.test", "neutral\n-\nneutral\nneutral\n", "labels.test, line 2: the class is '-'"),
    ],
)
def test_a_wrong_line_is_named(data, published, name, file, text, message):
    path = data / "downstream" / file
    path.write_text(path.read_text() + text[1:] + "\n" if text.startswith("+") else text)
    assert re.search(message, wrong(data, name))


FOLDER = "downstream/STS/STSBenchmark-multi"


@pytest.fixture
def languages_data(tmp_path: Path) -> Path:
    """English and Chinese, the latter packed."""
    (tmp_path / FOLDER).mkdir(parents=True)
    for part in ("train", "dev", "test"):
        for code, text in (
            ("en", f'"A dog, {part}",One dog,1.5\nA cat,Cats,4.0\n'),
            ("zh", "一只狗。,狗。,1.5\n猫,猫。,4.0\n"),
        ):
            write(tmp_path, code, part, text)
    return tmp_path


def write(languages_data: Path, code: str, part: str, text: str) -> None:
    file = languages_data / FOLDER / f"stsb-{code}-{part}.csv"
    if code == "zh":
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text)


def test_a_language_has_its_own_sentences_and_two_languages_one_side_each(languages_data):
    test = read_task("STSBenchmark-en", languages_data).test
    assert (test.first, test.second, test.gold.tolist()) == (["A dog, test", "A cat"], ["One dog", "Cats"], [1.5, 4.0])
    across = read_task("STSBenchmark-en-zh", languages_data).test
    assert (across.first, across.second) == (test.first, ["狗。", "猫。"])
    assert read_task("STSBenchmark-zh-en", languages_data).test.second == test.second
    assert missing_file("STSBenchmark-en-de", languages_data) == f"{FOLDER}/stsb-de-train.csv"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("一只狗。,狗。,1.5\n", r"stsb-zh-dev\.csv\.gz: has 1 row for the 2 of stsb-en-dev\.csv"),
        (
            "猫,猫。,4.0\n一只狗。,狗。,1.5\n",
            r"line 1: has the score 4 where stsb-en-dev\.csv has 1\.5; expected the same rows in the same order",
        ),
    ],
)
def test_rows_that_differ_between_languages_are_refused(languages_data, text, said):
    write(languages_data, "zh", "dev", text)
    with pytest.raises(SemanticsError, match=said):
        read_task("STSBenchmark-en-zh", languages_data)


@pytest.mark.parametrize("name", ["STSBenchmark-xx", "STSBenchmark-en-xx", "STSBenchmark-en-de-xx"])
def test_an_unknown_language_is_refused_with_the_known_ones(name, languages_data):
    said = "STS Benchmark is not there in the language '(de-)?xx'; expected one of en, de, fr"
    with pytest.raises(ValidationError, match=said):
        SemanticsSettings(tasks=[name])
    with pytest.raises(SemanticsError, match=said):
        read_task(name, languages_data)
