"""Scorings of a project: the recipe's hash, the ledger that a stage writes, the counts of an audit."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from checkout import change

from pipeline.cli.lineage_text import _scoring_lines as scoring_lines
from pipeline.lineage.evidence import RUNS, SCHEMA, KnownFacts, run_id
from pipeline.lineage.lock import entry_key
from pipeline.lineage.scorings import Entering, recipe_hash, tallies
from pipeline.pipelines import Pipeline
from sightword.errors import FileFormatError, LineageError
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Scoring

FURTHER = ("entailment", "grounded", "hypernyms")


@pytest.fixture
def project(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The descriptions and parameters of all pipelines; the current folder."""
    for folder in ("", *FURTHER):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in ("dvc.yaml", "params.yaml"):
            shutil.copyfile(repository / folder / name, tmp_path / folder / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    return tmp_path


def scoring(number: int, rows: str = "a", stage: str = "", recipe: str = "") -> Scoring:
    return Scoring("test", "pictures", 5, rows * 16, f"{number:016x}", recipe, stage)


def keep_facts(folder: Path, stage: str, started: str, *scorings: Scoring) -> dict[str, Any]:
    """Write facts of a run as the launcher does."""
    ran: dict[str, Any] = {"command": f"run {stage} {started}", "params": {}, "deps": {}}
    outs = {"out": started}
    key = entry_key(stage, **ran)
    facts = {"schema": SCHEMA, "stage": stage, "host": "here", "started": started, "ran": ran}
    facts |= {"id": run_id(key, outs), "outs": outs, "scorings": [dataclasses.asdict(one) for one in scorings]}
    folder.mkdir(exist_ok=True)
    (folder / f"{run_id(key, outs)}.json").write_text(json.dumps(facts))
    return facts


def test_recipe_hash_is_that_of_the_stage_and_the_stages_before_it(project: Path) -> None:
    before = {name: recipe_hash(name, "params.yaml") for name in ("captions", "retrieval", "semantics")}
    assert len(set(before.values())) == 3

    def changed() -> set[str]:
        return {name for name, found in before.items() if recipe_hash(name, "params.yaml") != found}

    change(project / "params.yaml", report__gallery=3)
    assert not changed()
    change(project / "params.yaml", retrieval__top=11)
    assert changed() == {"retrieval"}
    change(project / "params.yaml", train__seed=12)
    assert changed() == {"retrieval", "semantics"}
    change(project / "params.yaml", captions__min_count=2)
    assert changed() == {*before}
    with pytest.raises(LineageError, match="has no stage trein"):
        recipe_hash("trein", "params.yaml")


def test_recipe_hash_of_a_matrix_has_its_own_item_and_reaches_other_pipelines(project: Path) -> None:
    params = "grounded/params.yaml"
    entries = [f"grounded/dvc.yaml:evaluate@{name}-0" for name in ("cg", "cg-pg")]
    before = [recipe_hash(entry, params) for entry in entries]
    assert before[0] != before[1]
    change(project / params, train__scenarios__cg__cluster=2.0)
    assert [recipe_hash(entry, params) == found for entry, found in zip(entries, before, strict=True)] == [False, True]
    change(project / "params.yaml", resize__side=300)
    assert recipe_hash(entries[1], params) != before[1]


def test_stage_enters_its_scorings_and_those_of_known_runs_of_its_pipeline(project: Path) -> None:
    away, other = scoring(2, stage="retrieval"), scoring(3, stage="evaluate")
    keep_facts(project / RUNS, "retrieval", "2026-01-02T00:00:00+00:00", away)
    keep_facts(project / RUNS, "hypernyms/dvc.yaml:evaluate", "2026-01-02T00:00:00+00:00", other)
    enter = Entering(Pipeline(project), "retrieval", "params.yaml")
    own = scoring(1, stage="retrieval", recipe=recipe_hash("retrieval", "params.yaml"))
    assert enter([scoring(1)]) == sorted([own, away])
    assert enter.scorings == [own]
    assert ledger.read("metrics/scorings.csv") == sorted([own, away])
    evaluate = Entering(Pipeline(project, "hypernyms"), "hypernyms/dvc.yaml:evaluate", "hypernyms/params.yaml")
    assert evaluate([]) == []
    assert not Path("metrics/hypernyms").exists()
    evaluate([scoring(4)])
    assert [one.encoder[-1] for one in ledger.read("metrics/hypernyms/scorings.csv")] == ["3", "4"]


def test_damaged_ledger_stops_the_stage_before_it_writes(project: Path) -> None:
    Path("metrics").mkdir()
    Path("metrics/scorings.csv").write_text("no ledger\n")
    with pytest.raises(FileFormatError, match=r"metrics/scorings\.csv, line 1: has the header"):
        Entering(Pipeline(project), "retrieval", "params.yaml")([scoring(1)])
    assert Path("metrics/scorings.csv").read_text() == "no ledger\n"


def test_scorings_of_edited_facts_are_left_out_and_the_others_stay(project: Path) -> None:
    whole = scoring(1, stage="retrieval")
    damage: list[dict[str, Any]] = [{"items": "5"}, {"rows": "x"}, {"split": None}]
    wrong = [dataclasses.replace(whole, **one) for one in damage]
    facts = keep_facts(project / RUNS, "retrieval", "2026-01-02T00:00:00+00:00", *wrong, whole)
    (found,) = tallies({"retrieval": facts}, project, KnownFacts([project / RUNS]))
    assert (found.rows, found.scorings) == ("a" * 16, 1)
    own = Entering(Pipeline(project), "retrieval", "params.yaml")([scoring(2)])
    assert [one.encoder[-1] for one in own] == ["1", "2"]
    assert ledger.read("metrics/scorings.csv") == own


def test_run_that_scored_no_test_split_has_no_counts_of_the_runs_that_did(project: Path) -> None:
    ledger.add("metrics/scorings.csv", [scoring(1, stage="retrieval")])
    on_dev = keep_facts(project / RUNS, "retrieval", "2026-01-02T00:00:00+00:00")
    assert tallies({"retrieval": on_dev}, project, KnownFacts([project / RUNS])) == []
    without = {name: value for name, value in on_dev.items() if name != "scorings"}
    assert [one.scorings for one in tallies({"retrieval": without}, project, KnownFacts([]))] == [1]


def test_snapshots_of_epochs_count_apart_from_encoders(project: Path) -> None:
    epochs = [scoring(number, stage="epochs") for number in (1, 2, 3)]
    runs = keep_facts(project / RUNS, "epochs", "2026-01-01T00:00:00+00:00", *epochs)
    later = keep_facts(project / RUNS, "semantics", "2026-01-02T00:00:00+00:00", scoring(4, stage="semantics"))
    found = tallies({"semantics": later, "epochs": runs}, project, KnownFacts([project / RUNS]))
    assert [(one.scorings, one.encoders, one.epochs, one.place) for one in found] == [(1, 1, 3, 1), (1, 1, 3, None)]
    (_, words), _ = scoring_lines([dataclasses.asdict(one) for one in found])
    assert "scored once so far, with 1 encoder and 3 snapshots of single epochs; this scoring is number 1 of 1" in words


def test_tallies_count_over_ledgers_and_facts_and_place_a_run_by_its_time(project: Path, tmp_path: Path) -> None:
    """Of five scorings one is in the ledger alone, two in facts alone, and one is of another split."""
    runs, store = project / RUNS, project / "store"
    known = [scoring(number, stage="retrieval") for number in range(4)]
    keep_facts(runs, "retrieval", "2026-01-03T00:00:00+00:00", known[0])
    second = keep_facts(runs, "retrieval", "2026-01-02T00:00:00+00:00", known[1])
    keep_facts(store, "retrieval", "2026-01-01T00:00:00+00:00", known[2])
    keep_facts(store, "retrieval", "2026-01-05T00:00:00+00:00", known[0])  # again, later
    ledger.add("metrics/scorings.csv", [known[0], known[3], scoring(9, rows="b", stage="retrieval")])
    (found,) = tallies({"retrieval": second}, project, KnownFacts([runs, store]))
    assert (found.rows, found.scorings, found.encoders, found.place, found.dated) == ("a" * 16, 4, 4, 2, 3)
    unknown = tallies({"retrieval": None, "train": None}, project, KnownFacts([]))
    assert [(one.rows[0], one.scorings, one.place) for one in unknown] == [("a", 2, None), ("b", 1, None)]
    ((stage, words),) = scoring_lines([dataclasses.asdict(found)])
    assert stage == "retrieval"
    assert words.startswith("test of pictures (5, aaaaaaaa): scored 4 times so far, with 4 encoders; this scoring is")
    assert words.endswith("number 2 of 3 whose times are known")
