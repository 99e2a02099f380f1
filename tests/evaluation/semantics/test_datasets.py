from __future__ import annotations

import re
import shutil

import pytest

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.datasets import SUBTASKS, missing_file, read_benchmark_dev, read_task

OWN = "downstream/STS/STSOwn-en-test"


def wrong(data, name="STSOwn"):
    with pytest.raises(SemanticsError) as caught:
        read_task(name, data)
    return str(caught.value)


def test_a_custom_set_has_the_subtasks_of_its_folder(data):
    task = read_task("STSOwn", data)
    assert list(task.subtasks) == ["park.life", "street"]
    assert [len(pairs) for pairs in task.subtasks.values()] == [30, 28]


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


def test_separators_inside_a_sentence_do_not_end_a_line(data):
    (data / OWN / "STS.input.street.txt").write_text("a\u2028b\tc\x0bd\nx\ty\n")
    (data / OWN / "STS.gs.street.txt").write_text("1\n2")
    assert read_task("STSOwn", data).subtasks["street"].first == ["a b", "x"]


def test_tasks_with_training_pairs_have_three_parts(data):
    for name, low in (("STSBenchmark", 0), ("SICKRelatedness", 1)):
        task = read_task(name, data)
        assert [len(part) for part in (task.train, task.dev, task.test)] == [40, 40, 40]
        assert task.train.gold.min() == low


def test_dev_part_of_sts_benchmark_is_read_without_the_other_parts(data):
    wanted = read_task("STSBenchmark", data).dev
    folder = data / "downstream/STS/STSBenchmark"
    for part in ("train", "test"):
        (folder / f"sts-{part}.csv").unlink()
    found = read_benchmark_dev(data)
    assert (found.first, found.second, found.gold.tolist()) == (wanted.first, wanted.second, wanted.gold.tolist())
    (folder / "sts-dev.csv").unlink()
    with pytest.raises(SemanticsError, match=r"sts-dev\.csv: does not exist; expected the dev part of STS Benchmark"):
        read_benchmark_dev(data)


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


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("STS.gs.street.txt", "1\n2\n", r"STS.gs.street.txt: has 2 lines for the 30.*line 3 of STS.input.street.txt"),
        ("STS.gs.street.txt", "1\n2\n" * 16, r"has 32 lines for the 30 .*line 31 of STS.gs.street.txt"),
        (
            "STS.gs.street.txt",
            "1\n" * 29 + "good\n",
            r"STS.gs.street.txt, line 30: the score is 'good'; expected a number",
        ),
        ("STS.gs.street.txt", "1\n" * 29 + "nan\n", "line 30: the score is 'nan'"),
        ("STS.gs.street.txt", "1\n" * 29 + "1_0\n", "line 30: the score is '1_0'"),
        ("STS.gs.street.txt", "1\n" * 30, "all 30 scores are 1, so no correlation is defined"),
        ("STS.gs.street.txt", "\n" * 30, "STS.gs.street.txt: has no pair with a score"),
        (
            "STS.input.street.txt",
            "a\tb\n" * 29 + "a b\n",
            r"STS.input.street.txt, line 30: has 1 cell; expected 2: first sentence",
        ),
        ("STS.input.street.txt", "a\tb\nc\td\te\n" + "a\tb\n" * 28, "line 2: has 3 cells; expected 2: first sentence"),
    ],
)
def test_a_wrong_line_is_named(data, file, text, message):
    (data / OWN / file).write_text(text)
    assert re.search(message, wrong(data))


@pytest.mark.parametrize(
    ("name", "file", "line", "message"),
    [
        (
            "STSBenchmark",
            "STS/STSBenchmark/sts-dev.csv",
            "g\tf\ty\t1\t2.0\tone sentence",
            "has 6 cells; expected 7: genre",
        ),
        (
            "STSBenchmark",
            "STS/STSBenchmark/sts-train.csv",
            "g\tf\ty\t1\t5.5\ta\tb",
            "line 41: the score is '5.5'; expected a number from 0 to 5",
        ),
        ("SICKRelatedness", "SICK/SICK_trial.txt", "1\ta\tb\t3", "line 42: has 4 cells; expected 5, as in the header"),
        ("SICKRelatedness", "SICK/SICK_train.txt", "1\ta\tb\t0.5\tNEUTRAL", "'0.5'; expected a number from 1 to 5"),
    ],
)
def test_a_wrong_line_of_a_set_with_training_pairs_is_named(data, name, file, line, message):
    with (data / "downstream" / file).open("a") as out:
        out.write(line + "\n")
    assert re.search(message, wrong(data, name))


def test_sick_without_its_header_is_refused(data):
    path = data / "downstream/SICK/SICK_train.txt"
    path.write_text(path.read_text().split("\n", 1)[1])
    assert "SICK_train.txt, line 1: has no column pair_ID (it has: " in wrong(data, "SICKRelatedness")
    path.write_text("")
    assert "SICK_train.txt, line 1: has no column pair_ID (it has: none)" in wrong(data, "SICKRelatedness")


def test_the_first_missing_file_is_named(data, tmp_path):
    assert missing_file("STSOwn", data) is None
    assert missing_file("STS12", data) == "downstream/STS/STS12-en-test"
    assert "STS12-en-test: task STS12: does not exist. Get the data set" in wrong(data, "STS12")
    (data / OWN / "STS.gs.street.txt").unlink()
    assert missing_file("STSOwn", data) == f"{OWN}/STS.gs.street.txt"
    with pytest.raises(SemanticsError, match="has no folder downstream"):
        missing_file("STSOwn", tmp_path / "downstream")


def test_an_unknown_task_is_refused(data):
    assert "no such task: 'MRPC2'; expected STS12, STS13" in wrong(data, "MRPC2")
    assert "no such task: 'STS/../..'" in wrong(data, "STS/../..")


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


def test_a_subtask_without_a_name_is_refused(data):
    (data / "downstream/STS/STSOwn-en-test/STS.input..txt").write_text("a\tb\n")
    with pytest.raises(SemanticsError, match="a subtask without a name"):
        read_task("STSOwn", data)
