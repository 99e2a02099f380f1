"""STS Benchmark in other languages."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pydantic import ValidationError

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.datasets import missing_file, read_task
from sightword.evaluation.semantics.settings import SemanticsSettings

FOLDER = "downstream/STS/STSBenchmark-multi"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """English and Chinese, the latter packed."""
    (tmp_path / FOLDER).mkdir(parents=True)
    for part in ("train", "dev", "test"):
        for code, text in (
            ("en", f'"A dog, {part}",One dog,1.5\nA cat,Cats,4.0\n'),
            ("zh", "一只狗。,狗。,1.5\n猫,猫。,4.0\n"),
        ):
            write(tmp_path, code, part, text)
    return tmp_path


def write(data: Path, code: str, part: str, text: str) -> None:
    file = data / FOLDER / f"stsb-{code}-{part}.csv"
    if code == "zh":
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text)


def test_a_language_has_its_own_sentences_and_two_languages_one_side_each(data):
    test = read_task("STSBenchmark-en", data).test
    assert (test.first, test.second, test.gold.tolist()) == (["A dog, test", "A cat"], ["One dog", "Cats"], [1.5, 4.0])
    across = read_task("STSBenchmark-en-zh", data).test
    assert (across.first, across.second) == (test.first, ["狗。", "猫。"])
    assert read_task("STSBenchmark-zh-en", data).test.second == test.second
    assert missing_file("STSBenchmark-en-de", data) == f"{FOLDER}/stsb-de-train.csv"


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
def test_rows_that_differ_between_languages_are_refused(data, text, said):
    write(data, "zh", "dev", text)
    with pytest.raises(SemanticsError, match=said):
        read_task("STSBenchmark-en-zh", data)


def test_one_language_twice_is_refused_with_the_right_name():
    with pytest.raises(
        ValidationError, match="STSBenchmark-de-de has one language; the task is called STSBenchmark-de"
    ):
        SemanticsSettings(tasks=["STSBenchmark-de-de"])


@pytest.mark.parametrize("name", ["STSBenchmark-xx", "STSBenchmark-en-xx", "STSBenchmark-en-de-xx"])
def test_an_unknown_language_is_refused_with_the_known_ones(name, data):
    said = "STS Benchmark is not there in the language '(de-)?xx'; expected one of en, de, fr"
    with pytest.raises(ValidationError, match=said):
        SemanticsSettings(tasks=[name])
    with pytest.raises(SemanticsError, match=said):
        read_task(name, data)
