"""Which pairs are drawn, and what their tables say."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from sightword.evaluation.semantics.results import PairTable, ScoredPairs
from sightword.vse.page import drawings
from sightword.vse.page.sentence_pairs import panels, read


def scored(count: int, seed: int = 0, *, known: bool = True) -> ScoredPairs:
    draw = np.random.default_rng(seed)
    gold = draw.uniform(0, 5, count)
    seen = draw.random(count) < 0.3
    texts = [f"sentence {number}" for number in range(count)]
    score = gold / 5 + draw.normal(0, 0.2, count)
    return ScoredPairs(texts, texts, gold, score, seen if known else None, ~seen if known else None)


def test_a_task_has_one_panel_with_all_its_subtasks_and_the_trained_head_has_none() -> None:
    one, other, third = scored(30), scored(50, 1), scored(20, 2, known=False)
    table = {("STS12", "a"): one, ("SICK", "cosine"): third, ("SICK", "trained"): scored(20, 3), ("STS12", "b"): other}
    (first, second), others = panels(PairTable(table), 1000)
    assert (first.task, first.pairs, second.task, second.pairs, others) == ("STS12", 80, "SICK", 20, 0)
    gold, score = np.concatenate([one.gold, other.gold]), np.concatenate([one.score, other.score])
    assert first.pearson == pytest.approx(np.corrcoef(gold, score)[0, 1])
    assert first.gold.tolist() == gold.tolist()
    assert first.seen.all()
    assert not second.seen.any()


def test_small_sets_leave_their_points_to_the_large_ones_and_the_choice_stays() -> None:
    table = PairTable({("A", "x"): scored(10), ("B", "x"): scored(400, 1), ("C", "x"): scored(500, 2)})
    found, _ = panels(table, 210)
    assert [len(panel.gold) for panel in found] == [10, 100, 100]
    more, _ = panels(table, 410)
    for few, many in zip(found, more, strict=True):
        assert set(few.score) <= set(many.score)
    assert {panel.task: panel.pearson for panel in found} == {panel.task: panel.pearson for panel in more}


def test_every_dot_is_visible_in_the_picture() -> None:
    """Few dots in a line along an axis: a drawing library may take such lines for nothing."""
    pairs = ScoredPairs([""] * 3, [""] * 3, np.array([0.0, 2.0, 4.0]), np.array([0.5, 0.1, 0.9]), None, None)
    found, _ = panels(PairTable({("A", "x"): pairs}), 10)
    drawing = drawings.scatter(found)
    assert drawing.in_page().count("h.1") == 3
    picture = io.BytesIO()
    drawing.figure.savefig(picture, format="png", dpi=150)
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    blue = pixels[:, :, 2] - pixels[:, :, 0] > 60
    columns = np.flatnonzero(blue.any(axis=0))
    assert 1 + np.count_nonzero(np.diff(columns) > 5) == 3


def test_missing_files_give_empty_lists(tmp_path) -> None:
    found = read(tmp_path, tmp_path, points=10, worst=10, with_published=True)
    assert (found.panels, found.worst, found.bins, found.systems) == ([], [], [], [])


def test_only_subtasks_with_a_published_score_and_the_systems_of_the_figure(tmp_path) -> None:
    rows = ["a\tthis encoder\t0.5\t0.4\t0.6", "b\tthis encoder\t0.5\t0.4\t0.6", "b\tInferSent\t0.7\t0.6\t0.8"]
    rows.append("b\tchar-GRU (COCO)\t0.7\t0.6\t0.8")
    (tmp_path / "systems.tsv").write_text("\n".join(["name\tsystem\tpearson\tlo\thi", *rows]) + "\n")
    ((name, scores),) = read(tmp_path, tmp_path, points=0, worst=0, with_published=True).systems
    assert name == "b"
    assert list(scores) == ["this encoder", "InferSent"]
    assert read(tmp_path, tmp_path, points=0, worst=0, with_published=False).systems == []
