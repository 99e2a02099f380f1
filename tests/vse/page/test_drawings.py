"""Drawings: fixed bytes, no clashes between them, fit for light and dark pages; marks at snapshots."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from finished_run import change

from sightword.report import drawing
from sightword.report.inputs import RunFiles, read_run
from sightword.vse.page import drawings
from sightword.vse.page.drawings import Marks, snapshots


def drawn(name: str = "loss", points: int = 50, title: str = "Loss") -> str:
    x = np.arange(1, points + 1, dtype=float)
    return drawings.curve(name, x.tolist(), (1 / x).tolist(), "loss", title, Marks()).in_page()


def test_the_same_numbers_give_the_same_bytes_whatever_the_users_settings() -> None:
    before = drawn()
    svg = drawings.curve("a", [1, 2, 3], [3, 2, 1], "y", "t", Marks([1, 2], [2])).svg()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "else"}):
        assert drawn() == before
        assert drawings.curve("a", [1, 2, 3], [3, 2, 1], "y", "t", Marks([1, 2], [2])).svg() == svg
    assert "fill: #ffffff" in svg[: svg.index("axes_1")]  # a file needs no page: white paper below the axes
    assert not any(wrong in svg for wrong in ("date", "currentColor", "var(", drawing.INK))


def test_snapshots_are_ticks_and_the_chosen_ones_dashed_lines() -> None:
    def dashes(marks: Marks) -> int:
        return (
            drawings.epoch_curves("r", [1, 2, 3], {"R": [1, 2, 3]}, ylabel="y", title="t", marks=marks)
            .svg()
            .count("stroke-dasharray")
        )

    assert dashes(Marks(chosen=[2, 3])) == 2 + dashes(Marks())
    assert dashes(Marks(kept=[1, 2, 3])) == dashes(Marks())


def test_ink_is_the_pages_own() -> None:
    text = drawn()
    assert "currentColor" in text
    assert drawing.INK not in text
    assert "var(--plot-blue, #0072b2)" in text
    assert "#000000" not in text
    assert "metadata" not in text
    assert "Matplotlib" not in text


def test_titles_are_escaped() -> None:
    title = 'a "<&>" b'
    assert ET.fromstring(drawn(title=title)).get("aria-label") == title


def test_a_long_curve_stays_small_and_true() -> None:
    assert len(drawn(points=100_000)) < 40_000
    x = np.arange(10_000, dtype=float)
    y = np.random.default_rng(0).normal(size=10_000)
    middle_x, middle, low, high = drawing.segments(x, y)
    assert len(middle) == drawing.POINTS
    assert middle.mean() == pytest.approx(y.mean(), abs=1e-3)
    assert low.min() == y.min()
    assert high.max() == y.max()
    assert np.all(np.diff(middle_x) > 0)


def test_nine_lines_over_epochs_look_different_and_gaps_are_left_out() -> None:
    series = {f"task{number}": [number + 0.0, float("nan"), -3.0] for number in range(drawing.LINES)}
    text = drawings.epoch_curves("tasks", [1, 2, 3], series, ylabel="100 r", title="t").in_page()
    assert all(label in text for label in series)
    styles = set()
    for path in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}path"):
        style = path.get("style", "")
        if "stroke: var(--plot" in style and "fill: none" in style:
            styles.add(style)
    assert len(styles) == drawing.LINES
    assert "nan" not in text.lower()
    assert "−" in text  # the axis goes below 0 where a value does


def test_snapshots_are_marked_in_steps_and_epochs(run_folder: RunFiles) -> None:
    marks = snapshots(read_run(run_folder))
    assert marks == Marks([4.0, 8.0], [8.0, 4.0])
    assert marks.scaled(50) == Marks([200.0, 400.0], [400.0, 200.0])
    change(run_folder.metrics / "train.json", snapshots=5)  # more than the cycles explain, so the epochs are unknown
    assert snapshots(read_run(run_folder)).kept == ()
