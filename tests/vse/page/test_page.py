"""The page as a whole: complete, self-contained, the same for the same run; its warnings, and the summary."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from finished_run import change, write_run
from pages_read import Page, check_text

from sightword.errors import FileFormatError
from sightword.io.files import write_table
from sightword.report.drawing import Drawing
from sightword.report.gallery import Gallery
from sightword.report.inputs import RunFiles, RunNumbers, read_run
from sightword.vse.page import page
from sightword.vse.page.settings import ReportSettings

SETTINGS = ReportSettings(title="A run", gallery=6)


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawings take most of the time: only those tests wait for them that look at them."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(Drawing, "in_page", lambda drawing: f"<svg><title>{escape(drawing.title)}</title></svg>")


@pytest.fixture
def drawn() -> None:
    """Asked for by tests that look at drawings; those of the page ``text`` are always there."""


def make(places: RunFiles, tmp_path: Path, settings: ReportSettings = SETTINGS) -> str:
    page.write(places, settings, tmp_path / "out" / "index.html")
    return (tmp_path / "out" / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the run that nothing is wrong with."""
    folder = tmp_path_factory.mktemp("run")
    return make(write_run(folder), folder)


def test_headlines_tell_recall_at_1_with_its_lift_over_chance(text: str) -> None:
    assert "<b>33.3 ± 10.3 %</b><span>of captions find their picture first, 13 times chance</span>" in text
    assert "R@1 among 40, split test; R@10 66.7 %" in text


def test_the_page_needs_no_other_file(text: str) -> None:
    found = Page(text)
    assert found.tags.count("script") == 1
    assert "link" not in found.tags
    assert all(link.startswith(("data:image/", "#")) for link in found.links)
    assert "url(http" not in text


def test_only_the_pages_own_script_may_run(text: str) -> None:
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert script is not None
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]


@pytest.mark.usefixtures("drawn")
def test_the_same_run_gives_the_same_bytes_anywhere(text: str, run_folder: RunFiles, tmp_path: Path) -> None:
    assert make(run_folder, tmp_path) == text
    assert str(tmp_path) not in text
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text)  # no date


def test_the_numbers_are_those_of_the_metrics(text: str) -> None:
    check_text(text)
    words = Page(text).text
    for number in ("33.3", "± 10.3", "66.7", "0.710", "0.650 to 0.760", "75.5 %", "1,379", "0.565"):
        assert number in words, number
    assert "GRU, 64 units" in words
    assert "sum of 2 snapshots" in words
    assert "mobilenet_v3_small" in words


def test_published_rows_are_marked_and_can_be_left_out(text: str, run_folder: RunFiles, tmp_path: Path) -> None:
    assert "Klein 2015" in Page(text).text
    assert 'class="mark"' in text
    without = make(run_folder, tmp_path, SETTINGS.model_copy(update={"published": False}))
    assert "Klein 2015" not in without
    assert 'class="mark">' not in without


def test_missing_pictures_are_replaced_by_ids_with_the_reason(without_pictures: RunFiles, tmp_path: Path) -> None:
    found = Page(make(without_pictures, tmp_path))
    assert found.images == []
    assert "precomputed, without pictures" in found.text
    assert "scene-0" in found.text
    assert "random weights" not in found.text


def test_hostile_captions_stay_text(run_folder: RunFiles, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(run_folder.captions).to_pydict()
    table["text"] = ["<script>alert(1)</script>\"'><img src=x onerror=y> {{ 7*7 }}"] * len(table["text"])
    write_table(run_folder.captions, pa.table(table))
    found = Page(make(run_folder, tmp_path))
    assert found.tags.count("script") == 1
    assert "{{ 7*7 }}" in found.text
    assert all((image["src"] or "").startswith("data:image/webp") for image in found.images)


def test_a_run_without_semantic_scores_or_curves_has_a_page(run_folder: RunFiles, tmp_path: Path) -> None:
    (run_folder.metrics / "semantics.json").write_text("{}")
    for path in run_folder.plots.rglob("*.tsv"):
        path.unlink()
    text = Page(make(run_folder, tmp_path)).text
    assert "This run has no scores of sentence similarity" in text
    assert "Curves" not in text


def test_an_undefined_correlation_is_reported_without_a_number(run_folder: RunFiles, tmp_path: Path) -> None:
    entry = {"pearson": None, "spearman": None, "pairs": 9, "pearson_ci95": None, "undefined": "constant"}
    nothing = {"pearson": None, "spearman": None}
    sts = {"MSRpar": entry, "mean": nothing, "weighted_mean": nothing, "all": nothing}
    (run_folder.metrics / "semantics.json").write_text(json.dumps({"STS12": sts, "skipped": {"STSMine": "gone"}}))
    text = Page(make(run_folder, tmp_path)).text
    assert "STS12 MSRpar: all pairs have the same score" in text
    assert "STSMine" in text
    assert "None" not in text
    assert "nan" not in text


def test_controls_stand_beside_each_score(run_folder: RunFiles, tmp_path: Path) -> None:
    assert "Controls:" not in make(run_folder, tmp_path)
    controls = {
        "tfidf": {
            "STS15": {"images": 0.512, "headlines": 0.402, "mean": 0.457},
            "STSBenchmark": {"cosine": 0.693},
            "SICKRelatedness": {"cosine": None},
        },
        "untrained": {"STS15": {"images": 0.314, "headlines": 0.2, "mean": 0.257}, "MRPC": 66.5},
        "chance": {"MRPC": 66.49},
    }
    change(run_folder.metrics / "semantics.json", controls=controls, MRPC={"accuracy": 74.25, "test": 1725})
    text = make(run_folder, tmp_path)
    assert "Controls:" in text
    assert "0.457 without training (tf-idf of n-grams)" in text

    def row(name: str) -> list[str]:
        return re.findall(r"<td[^>]*>([^<]*)", text[text.index(f">{name}</th>") :].partition("</tr>")[0])

    assert row("images")[:4] == ["0.710", "0.512", "0.314", "0.690"]
    assert row("mean")[:4] == ["0.565", "0.457", "0.257", "0.545"]
    assert row("trained")[1:3] == ["", ""]
    assert row("MRPC")[:3] == ["74.2", "66.5", "66.5"]


@pytest.mark.parametrize("name", ["train", "select", "retrieval", "semantics"])
def test_missing_or_truncated_metrics_are_named_and_no_page_is_made(
    run_folder: RunFiles, tmp_path: Path, name: str
) -> None:
    path = run_folder.metrics / f"{name}.json"
    for spoil in (lambda: path.write_text('{"a": '), lambda: path.write_text("[1]"), path.unlink):
        spoil()
        with pytest.raises(FileFormatError, match=f"{name}.json"):
            make(run_folder, tmp_path)
    assert not (tmp_path / "out" / "index.html").exists()


def test_kept_epochs_are_drawn_and_an_empty_cell_is_left_out(text: str, run_folder: RunFiles, tmp_path: Path) -> None:
    labels = re.findall(r'aria-label="([^"]*)"', text)
    assert any("R@10 to picture 68.0, R@10 to caption 72.0, semantics –" in label for label in labels), labels
    assert "(as Figure 4 of Merkx &amp; Frank 2019)" in text
    (run_folder.plots / "epochs" / "epochs.tsv").unlink()
    assert "each kept epoch" not in make(run_folder, tmp_path)


def test_drawings_are_files_too(run_folder: RunFiles, tmp_path: Path) -> None:
    names = {"systems", "scatter", "loss", "epochs", "tasks0"}
    names |= {"recall_caption_to_image", "recall_image_to_caption"}
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "old.svg").write_text("of an earlier run")
    page.write(run_folder, SETTINGS, tmp_path / "index.html", folder)
    assert {path.name for path in folder.iterdir()} == {f"{name}.svg" for name in names}


NO_GALLERY = Gallery("test", 0, [], [], 0, 0)


def remarks(run: RunNumbers) -> dict[str, str]:
    return {note.head: note.text for note in page.notes(run, NO_GALLERY)}


@pytest.fixture
def run(run_folder: RunFiles) -> RunNumbers:
    return read_run(run_folder)


def test_what_was_left_out_is_told(run: RunNumbers) -> None:
    assert remarks(run)["Left out of the corpus"] == "1 picture (1 no picture file); 1 caption (1 empty caption)."
    skipped = {
        "test": {
            "full": run.retrieval["test"]["full"],
            "skipped": {"five_fold_1k": "11 pictures", "short_queries": "few"},
        }
    }
    semantics = {**run.semantics, "skipped": {"STS12": "gone"}}
    train = {**run.train, "rejected_pictures": 7}
    said = remarks(replace(run, train=train, retrieval=skipped, semantics=semantics))
    assert said["Pictures without features"].startswith("7 of them")
    assert (
        said["Retrieval scores left out"] == "five folds of 1,000 pictures, averaged: 11 pictures; short queries: few."
    )
    assert said["Missing data sets"] == "STS12: gone."
    assert not {"Pictures without features", "Retrieval scores left out", "Missing data sets"} & set(remarks(run))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pictures": "shuffled"}, "the features of another one"),
        ({"clusters": "shuffled"}, "dealt to pictures at random"),
    ],
)
def test_control_is_a_serious_warning(run: RunNumbers, change: dict[str, str], said: str) -> None:
    other = replace(run, description={**run.description, "training": {**run.training, **change}})
    (note,) = [note for note in page.notes(other, NO_GALLERY) if note.head == "A control"]
    assert note.serious
    assert said in note.text
    assert "A control" not in remarks(run)


def test_summary_is_flat_and_from_the_metrics(tmp_path):
    found = page.summary(read_run(write_run(tmp_path)))
    assert found == {
        "dev_r10": 61.5,
        "split": "test",
        "image_r1": 33.3,
        "image_r10": 66.7,
        "caption_r1": 33.3,
        "caption_r10": 66.7,
        "sts": (0.71 + 0.42) / 2,  # STS Benchmark is not part of the mean
        "stsb": 0.6,
        "sick": 0.63,
    }


def test_the_mean_of_seven_needs_all_seven_tasks(tmp_path):
    places = write_run(tmp_path)
    years = {f"STS{year}": {"all": {"spearman": year / 100}} for year in range(12, 17)}
    pairs = {name: {"cosine": {"spearman": 0.7}} for name in ("STSBenchmark", "SICKRelatedness")}
    for tasks, expected in ((years | pairs, 0.3), (years, None)):
        (places.metrics / "semantics.json").write_text(json.dumps(tasks))
        assert page.summary(read_run(places)).get("seven") == pytest.approx(expected)
