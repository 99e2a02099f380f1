"""Scores in the text of the pages of results stand in a table, or in the list with their source."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.results import prose
from pipeline.results.records import Row
from sightword.errors import FileFormatError

PAGE = """\
# Results

{text}

<!-- table: main -->

| system | R@10 |
|---|---|
| 99.9 n-grams | 74.2 (± 1.2) |

¹ Of 31.5 hours.

<!-- end -->

## Else

Nothing.
"""


def row(**scores: float) -> Row:
    run = {"seeds": [0], "scores": {name.replace("_", "."): {"value": value} for name, value in scores.items()}}
    return Row.model_validate({"topic": "ngrams", "name": "base", "recipe": "sample", "runs": [run]})


def faults(project: Path, text: str, listed: str = "", **pages: str) -> list[str]:
    (project / "docs").mkdir()
    (project / "results").mkdir()
    (project / "docs/results.md").write_text(PAGE.format(text=text))
    (project / "results/prose.yaml").write_text(listed)
    for name, page in pages.items():
        (project / f"docs/{name}.md").write_text(page)
    return prose.faults(project, {"ngrams/base": row(dev_r10=61.26, dev_sick=0.7312)})


@pytest.mark.parametrize(
    "text",
    [
        "The n-grams have 74.2 points.",
        "They gain 3.1, 9.9 (± 0.4), in version 12.0.1, for v12.5; see [a](https://a.b/12.5).",
        "By `--margin 12.5`.\n\n```sh\nrun 12.5\n```",
    ],
)
def test_text_without_a_loose_score_has_no_fault(tmp_path: Path, text: str) -> None:
    assert faults(tmp_path, text) == []


def test_score_of_no_table_is_named_with_page_and_line(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "The n-grams\nhave 74.2 points,\nthe GRU 1,031.5.")
    assert fault == (
        "docs/results.md:5: 1,031.5 is in no table of its section or of one that the paragraph links: mend it, or list "
        "it with its source in results/prose.yaml"
    )


@pytest.mark.parametrize("text", ["The label has 99.9.", "The note has 31.5.", "- first\n- then 74.3"])
def test_score_of_a_label_note_or_another_digit_is_loose(tmp_path: Path, text: str) -> None:
    assert len(faults(tmp_path, text)) == 1


@pytest.mark.parametrize(
    ("text", "loose"),
    [
        ("It has 74.2.", ["74.2"]),
        ("[It](results.md) has 74.2.", []),
        ("[It](results.md#results) has 74.2.", []),
        ("[It](results.md#else) has 74.2.", ["74.2"]),
        ("[It](results.md)\n\nhas 74.2.", ["74.2"]),
    ],
)
def test_score_of_another_page_needs_a_link_to_its_table(tmp_path: Path, text: str, loose: list[str]) -> None:
    found = faults(tmp_path, "", grounded=f"# Grounded\n\n{text}\n")
    assert [fault.split()[1] for fault in found] == loose


@pytest.mark.parametrize(
    ("source", "number", "fault"),
    [
        ("measured by hand", "61.3", None),
        ("ngrams/base dev.r10", "61.3", None),
        ("ngrams/base dev.sick", "73.1", None),
        (
            "ngrams/base dev.sick",
            "73.2",
            "results/prose.yaml: docs/results.md: 73.2: ngrams/base dev.sick is 0.7 or 73.1",
        ),
        ("ngrams/base dev.r1", "61.3", "results/prose.yaml: docs/results.md: 61.3: ngrams/base dev.r1 is in no row"),
        ("ngrams/lost dev.r10", "61.3", "results/prose.yaml: docs/results.md: 61.3: ngrams/lost dev.r10 is in no row"),
    ],
)
def test_listed_score_must_be_that_of_its_row(tmp_path: Path, source: str, number: str, fault: str | None) -> None:
    found = faults(tmp_path, f"On dev {number}.", f'docs/results.md:\n  {source}: "{number}"\n')
    assert found == ([fault] if fault else [])


def test_listed_score_that_no_text_has_is_a_fault(tmp_path: Path) -> None:
    found = faults(tmp_path, "On dev 61.3.", 'docs/results.md: {trials: "61.3 62.5"}\ndocs/lost.md: {trials: "12.5"}')
    assert found == [
        "results/prose.yaml: 'docs/lost.md' is no page of results",
        "results/prose.yaml: docs/results.md has no 62.5 in its text",
    ]


@pytest.mark.parametrize("listed", ["- 61.3", "docs/results.md: 61.3", "docs/results.md: {trials: 61.3}"])
def test_list_of_another_form_is_refused(tmp_path: Path, listed: str) -> None:
    with pytest.raises(FileFormatError, match=r"prose.yaml: is no list of numbers"):
        faults(tmp_path, "On dev 61.3.", listed)
