"""A run's page: the gallery's rule, and every number of the tables read back as a reader sees it."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from finished_run import write_run
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sightword.report import gallery
from sightword.report.drawing import Drawing
from sightword.report.inputs import RunFiles
from sightword.vse.page import page
from sightword.vse.page.settings import ReportSettings


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFiles:
    return write_run(tmp_path)


RANKS = st.dictionaries(
    st.tuples(st.sampled_from([f"picture {n}" for n in range(12)]), st.integers(0, 4)), st.integers(0, 10), max_size=40
)


@given(RANKS, st.integers(0, 15))
@settings(max_examples=200, deadline=None)
def test_choice_is_a_fair_subset(ranks: dict[tuple[str, int], int], number: int) -> None:
    chosen = gallery.choose(ranks, number)
    assert len(chosen) == min(number, len(ranks))
    assert all(ranks[query] == rank for query, rank in chosen.items())
    backwards = dict(reversed(ranks.items()))
    assert list(gallery.choose(backwards, number).items()) == list(chosen.items())


@given(RANKS)
@settings(max_examples=100, deadline=None)
def test_every_outcome_is_shown_where_there_is_one(ranks: dict[tuple[str, int], int]) -> None:
    once = {query: rank for query, rank in ranks.items() if query[1] == 0}
    shown = {gallery.outcome(rank) for rank in gallery.choose(once, 3).values()}
    assert shown == {gallery.outcome(rank) for rank in once.values()}


def test_a_third_each_and_no_picture_twice() -> None:
    ranks = {(f"picture {n}", caption): (1, 5, 0)[n % 3] for n in range(60) for caption in range(5)}
    chosen = gallery.choose(ranks, 12)
    assert Counter(gallery.outcome(rank) for rank in chosen.values()) == {"first": 4, "found": 4, "missed": 4}
    assert len({image for image, _ in chosen}) == 12


def test_the_right_picture_is_framed_or_added(run_folder: RunFiles) -> None:
    top = gallery.read_top(run_folder.top)
    captions = gallery.read_captions(run_folder.captions, ["test"])
    made = gallery.build(top, captions, run_folder.resized, number=9, thumbnail=64)
    assert [query.outcome for query in made.captions] == ["first"] * 3 + ["found"] * 3 + ["missed"] * 3
    for query in made.captions:
        assert [tile.position for tile in query.answers] == list(range(1, 11))
        right = [tile.position for tile in query.answers if tile.right]
        assert right == ([query.rank] if query.rank else [])
        assert (query.truth is None) == bool(right)
    for picture in made.pictures:
        assert any(answer.right for answer in picture.answers) == bool(picture.rank)
        assert (picture.truth is None) == bool(picture.rank)
        assert len(picture.answers) <= gallery.SHOWN + 1
    assert made.without_thumbnails == 0


def test_thumbnails_are_the_pictures_themselves_and_small(run_folder: RunFiles) -> None:
    captions = gallery.read_captions(run_folder.captions, ["test"])
    made = gallery.build(gallery.read_top(run_folder.top), captions, run_folder.resized, number=40, thumbnail=64)
    colours = {"red": (204, 51, 51), "blue": (51, 102, 204), "green": (51, 153, 51), "yellow": (221, 187, 51)}
    for query in made.pictures:
        uri = query.asked.thumbnail
        assert uri is not None
        with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as picture:
            assert max(picture.size) <= 128
            found = picture.convert("RGB").getcolors(1 << 20)
        wanted = colours[query.asked.text.split()[1]]
        assert found is not None
        near = sum(
            count for count, colour in found if sum(abs(a - b) for a, b in zip(colour, wanted, strict=True)) < 60
        )
        assert near > 100


UNSEEN = {"pearson": 0.3333, "spearman": 0.3, "pairs": 1102, "pearson_ci95": [0.2, 0.4]}


class Tables(HTMLParser):
    """Tables by class: rows of cells, each as its large and its small print."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[list[tuple[str, str]]]]] = []
        self._cell: list[str] | None = None
        self._small = 0
        self.feed(text)

    def of(self, kind: str) -> list[list[list[tuple[str, str]]]]:
        return [rows for classes, rows in self.tables if kind in classes.split()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append((dict(attrs).get("class") or "", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self._cell = ["", ""]
        elif tag == "small":
            self._small = 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][1][-1].append((self._cell[0].strip(), self._cell[1].strip()))
            self._cell = None
        elif tag == "small":
            self._small = 0

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell[self._small] += data


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drawing, "in_page", lambda _: "<svg></svg>")


def made(places: RunFiles, folder: Path) -> str:
    page.write(places, ReportSettings(gallery=0), folder / "index.html")
    return (folder / "index.html").read_text("utf-8")


def test_each_cell_of_retrieval_is_the_metrics(run_folder: RunFiles, tmp_path: Path) -> None:
    metrics = json.loads((run_folder.metrics / "retrieval.json").read_text())["test"]["full"]
    found = Tables(made(run_folder, tmp_path)).of("retrieval")
    assert len(found) == 2
    for direction, rows in zip(("caption_to_image", "image_to_caption"), found, strict=True):
        scores, (name, *cells, ranks) = metrics[direction], rows[1]
        assert name == ("This run", f"{scores['queries']} queries")
        for depth, (value, interval) in zip((1, 5, 10), cells, strict=True):
            assert float(value) == pytest.approx(scores[f"r{depth}"], abs=0.05)
            assert float(interval.removeprefix("± ")) == pytest.approx(scores[f"r{depth}_ci95"], abs=0.05)
        assert ranks == (str(scores["median_rank"]), "mean 5.2")


def test_published_intervals_are_those_that_the_paper_prints(run_folder: RunFiles, tmp_path: Path) -> None:
    one, other = Tables(made(run_folder, tmp_path)).of("retrieval")
    for rows, recall, half in ((one, "27.5", "± 1.2"), (other, "38.5", "± 3.0")):
        (char_gru,) = (row for row in rows if row[0] == ("char-GRU", "Merkx & Frank 2019") and row[1][0] == recall)
        assert char_gru[1] == (recall, half)
    (order,) = (row for row in one if row[0][0] == "order-embeddings" and row[1][0] == "18.0")
    assert order[1:] == [("18.0", "± 0.5"), ("–", ""), ("57.6", "± 0.6"), ("7", "mean 35.9")]


def test_each_cell_of_semantics_is_the_metrics(run_folder: RunFiles, tmp_path: Path) -> None:
    path = run_folder.metrics / "semantics.json"
    metrics = json.loads(path.read_text())
    metrics["STSBenchmark"]["cosine"]["unseen"] = UNSEEN
    metrics["STS15"]["headlines"]["unseen"] = UNSEEN | {"pairs": metrics["STS15"]["headlines"]["pairs"]}
    path.write_text(json.dumps(metrics))
    ((_, *rows),) = Tables(made(run_folder, tmp_path)).of("semantics")
    names = {"mean": "mean", "mean weighted by pairs": "weighted_mean", "pooled": "all"}
    group, checked = "", 0
    for row in rows:
        if len(row) == 1:
            group = row[0][0]
            continue
        scores = metrics[group][names.get(row[0][0], row[0][0])]
        checked += 1
        assert [row[1][0], row[2][0]] == [f"{scores['pearson']:.3f}", f"{scores['spearman']:.3f}"]
        if row[0][0] in names:
            continue
        low, high = scores["pearson_ci95"]
        assert row[1][1] == f"{low:.3f} to {high:.3f}"
        assert [row[3][0], row[4][0]] == [f"{scores['pairs']:,}", f"{100 * scores['seen_in_training']:.1f} %"]
        # Where every pair is unseen, r is the same and not said twice.
        assert row[4][1] == ("0.333 of 1,102" if (group, row[0][0]) == ("STSBenchmark", "cosine") else "")
    assert checked == 8
