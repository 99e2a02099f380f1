"""The page of the grounded space (Bordes et al. 2019): its numbers, stars, notes, text from outside."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from grounded_project import FEATURES, sentences, write_project
from pages_read import check_text

from sightword.grounded.judging.settings import GroundedSettings, JudgeSettings
from sightword.grounded.tables import (
    CONTROLS,
    GROUNDED,
    OTHERS,
    TEXT,
    Scenario,
    chosen,
    in_groups,
)
from sightword.grounded.training.settings import Common
from sightword.io.files import read_json

CAPTION = sentences(72, 3)[2]
"""A caption of the second picture, which is of dev."""
SCENARIOS = {
    "t": {},
    "cg-pg": {"cluster": 0.01, "perceptual": 0.01, "judged": "grounded"},
    "untrained": {"start": "scratch"},
}
SETTINGS = GroundedSettings(title="Pictures & <words>", resamples=100)


def described(**training):
    return Scenario(Common(**training), FEATURES)


@pytest.fixture(scope="module")
def project(tmp_path_factory, senteval, ratings):
    settings = JudgeSettings(
        resamples=100, data=str(senteval), tasks=["STS12", "STSBenchmark", "SICKRelatedness"], transfer=["MR"],
        kfold=2, ratings=str(ratings), neighbours=["a <red> dog", CAPTION], missing="skip",
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SIGHTWORD_DEVICE", "cpu")
        write_project(settings, SETTINGS, scenarios=SCENARIOS, seeds=[0])
    return folder


@pytest.fixture(scope="module")
def page(project):
    text = (project / "report/grounded/index.html").read_text()
    check_text(text)
    return text


def part(page, name):
    """Return the text of a section, without tags, with single spaces."""
    section = re.search(rf'<section aria-labelledby="{name}">.*?</section>', page, re.DOTALL)[0]
    return " ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", section, flags=re.DOTALL).split())


def test_the_table_has_the_numbers_of_the_metrics_with_intervals_in_groups(project, page):
    entry = read_json(project / "metrics/grounded/cg-pg-0/evaluate.json")["spaces"]["grounded"]["structure"]["dev"]
    text = part(page, "table1")
    low, high = entry["mnno_ci95"]
    assert f"{100 * entry['mnno']:.1f}" in text
    assert f"{100 * low:.1f} to {100 * high:.1f}" in text
    assert text.index("Text alone") < text.index("Grounded in pictures") < text.index("Controls")
    assert "untrained random weights, not trained" in text
    assert "the difference from t (the encoder of text as it is)" in text
    assert "g(s), centred" in part(page, "spaces")
    mean = read_json(project / "metrics/grounded/summary.json")["t.transfer_mean"]
    assert f"{mean:.1f}" in part(page, "table3")


def test_notes_and_drawings(project, page):
    for head in ("Random weights: for demonstration", "Little text", "Tasks left out", "One seed"):
        assert f"<strong>{head}.</strong>" in page
    assert "STS12: " in page
    assert "Another baseline" not in page
    assert "No transfer tasks" not in page
    names = {path.stem for path in (project / "report/grounded/plots").iterdir()}
    assert names == {"loss_cluster", "loss_perceptual", "loss_text", "text"}
    assert page.count("<svg") == len(names) + page.count('class="spark"')
    assert set(re.findall(r"https?://[\w.]+", page)) <= {"http://www.w3.org"}


def test_queries_have_the_nearest_captions_of_both_scenarios(project, page):
    near = pd.read_parquet(project / "data/grounded/cg-pg-0/neighbours.parquet")
    first = near[(near["space"] == "grounded") & (near["query"] == CAPTION)].iloc[0]
    assert f"{first['sentence']} cg-pg 1 {first['cosine']:.3f}" in part(page, "neighbours")
    assert f"{CAPTION} " in part(page, "neighbours")


def test_scenarios_are_grouped_by_their_losses():
    scenarios = {
        "shuffled": described(perceptual=0.1, pictures="shuffled"),
        "captions": described(captions_as_text=1.0),
        "longer": described(pictures="none"),
        "untrained": described(start="scratch"),
        "other": described(start="models"),
        "seq": described(sequential=True, judged="visual"),
        "cm": described(projection=0.01),
        "gs": described(start="scratch", text=0.0, ranking=1.0, concatenate=True),
        "cg": described(cluster=0.01),
        "both": described(cluster=0.01, perceptual=0.02),
        "t": described(),
    }
    assert in_groups(scenarios) == [(TEXT, ["t"]), (GROUNDED, ["cg", "both"]), (OTHERS, ["seq", "cm", "gs"]),
                                    (CONTROLS, ["shuffled", "captions", "longer", "untrained", "other"])]  # fmt: skip
    assert chosen(scenarios, "t") == "both"
    assert chosen({"t": scenarios["t"]}, "t") == "t"
    assert scenarios["both"].words == "text 1, clusters 0.01, pictures 0.02"
