"""Short and long captions on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import finished_run

from sightword.report.drawing import Drawing
from sightword.report.gallery import Captions
from sightword.report.inputs import RunFiles
from sightword.vse.page import lengths, page, plots
from sightword.vse.page.settings import ReportSettings


def made(places: RunFiles, folder: Path, monkeypatch) -> str:
    monkeypatch.setattr(Drawing, "in_page", lambda drawing: f"<svg id='{drawing.name}'></svg>")
    page.write(places, ReportSettings(gallery=0, attention=0), folder / "index.html")
    return (folder / "index.html").read_text()


def test_the_page_shows_mean_ranks_a_drawing_and_the_pairs_that_differ_most(run_folder, tmp_path, monkeypatch):
    finished_run.write_lengths(tmp_path)
    text = made(run_folder, tmp_path, monkeypatch)
    plain = re.sub(r"<[^>]*>|\s+", " ", text)
    assert "The 7 pairs of captions of one picture" in plain
    assert "<svg id='lengths'>" in text
    for row in (
        "the picture, for the shorter caption</th><td>3.0</td><td>4.0</td><td>4</td>",
        "the longer caption, for the shorter one</th><td>–</td><td>34.0</td><td>34.5</td>",
        "circle in yellow</q></th><td>3<small>5</small></td><td>4<small>2</small></td><td>34</td>",
    ):
        assert row in text, row
    assert len(re.findall("<q dir=", text.split("Pairs with the largest difference")[1].split("</table>")[0])) == 10
    assert "sightword audit data/retrieval/lengths.parquet" in text
    assert "<b>protocols</b> test: full<" in text.replace("; ", "")


def test_a_run_without_pairs_has_no_such_part(run_folder, tmp_path, monkeypatch):
    assert "Short and long captions" not in made(run_folder, tmp_path, monkeypatch)
    finished_run.write_lengths(tmp_path)
    names = ["split", "image_id", "shorter", "longer", "words_shorter", "words_longer"]
    names += ["rank_shorter", "rank_longer", "rank_of_longer"]
    finished_run.table(run_folder.top.with_name("lengths.parquet"), names, [])
    assert lengths.read(run_folder.top.with_name("lengths.parquet"), {}, Captions()) is None
    assert "Short and long captions" not in made(run_folder, tmp_path, monkeypatch)


def test_the_drawing_names_each_series_with_its_mean_rank_and_the_metrics_are_those_of_the_table(run_folder, tmp_path):
    entry = finished_run.write_lengths(tmp_path)
    found = lengths.read(
        run_folder.top.with_name("lengths.parquet"),
        json.loads((tmp_path / "metrics/retrieval.json").read_text()),
        Captions(),
    )
    drawing = plots.ranks("lengths", found.ranks)
    assert drawing.title.endswith(
        "shorter caption 4.0, the picture, for the longer caption 2.0, the longer caption, for the shorter one 34.0"
    )
    assert [row.cells[1] for row in found.table.rows] == ["4.0", "2.0", "34.0"]
    assert found.entry == entry
    assert drawing.svg() == plots.ranks("lengths", found.ranks).svg()


def test_ranks_that_are_all_1_are_drawn():
    assert "<svg" in plots.ranks("lengths", {"a": [1, 1], "b": [1]}).svg()
