"""Facts of a run, the inputs of a half-done one, and the scorings of test splits."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from checkout import change

from pipeline.cli.lineage_text import _scoring_lines as scoring_lines
from pipeline.lineage import facts
from pipeline.lineage.evidence import RUNS, SCHEMA, KnownFacts, run_id
from pipeline.lineage.facts import Entering, Recorder, inputs_hash, recipe_hash, stage_paths, tallies
from pipeline.lineage.lock import entry_key, is_code, read_lock
from pipeline.pipelines import Pipeline, pipelines
from sightword import machine
from sightword.errors import FileFormatError, LineageError
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Scoring
from sightword.io import yaml_reader
from sightword.machine import Machine


@pytest.fixture
def here(tmp_path):
    return Machine(
        device="cpu",
        workers=1,
        threads=3,
        store=str(tmp_path / "store"),
        cache=tmp_path / "cache",
        scratch=tmp_path / "scratch",
    )


@pytest.fixture(autouse=True)
def _not_under_dvc(monkeypatch):
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)


def entries(project):
    return read_lock((project.folder / "dvc.lock").read_text()).entries


def keys(project):
    return {name: entry.key for name, entry in entries(project).items()}


@pytest.mark.parametrize("stage", ["first", "second", "third"])
def test_the_key_is_that_of_the_entry_in_the_lock(project, here, stage):
    path = Recorder(stage, project.folder, here).finish({"weights": "random:0"})
    assert path is not None
    assert path.name.partition(".")[0] == keys(project)[stage]
    facts = json.loads(path.read_text())
    assert [facts[name] for name in ("stage", "threads", "engine")] == [stage, 3, "torch"]
    assert facts["notes"] == {"weights": "random:0"}
    assert facts["commit"] == project.do("git", "rev-parse", "HEAD").strip()
    assert facts["uncommitted"] == []
    assert facts["packages"]["numpy"]
    assert (here.local_store / "runs" / path.name).read_bytes() == path.read_bytes()
    entry = entries(project)[stage]
    assert KnownFacts([project.folder / "runs"]).of(entry) == facts | {"entry": entry.key}
    assert facts["outs"] == {out.path: out.md5 for out in entry.outs}


def test_runs_that_differ_only_in_their_outputs_have_facts_of_their_own(project, here):
    """Their names begin with one key, as in the run-cache; the lock decides between them."""
    first = Recorder("second", project.folder, here).finish()
    project.write("models/encoder/weights", "0.60000")
    second = Recorder("second", project.folder, here).finish()
    assert first != second
    assert first.name.partition(".")[0] == second.name.partition(".")[0]
    entry = entries(project)["second"]
    found = KnownFacts([project.folder / "runs"]).of(entry)
    assert found["id"] == first.stem
    assert found["outs"] == {"models/encoder": entry.outs[0].md5}


def test_parameters_and_code_that_change_during_a_run_are_told(project, here):
    recorder = Recorder("first", project.folder, here)
    recorder.check_unchanged()
    project.edit("params.yaml", "factor: 5", "factor: 6")  # of another stage
    project.edit("params.yaml", "# what is varied", "# a comment")
    project.write("stages/second.py", "pass")
    recorder.check_unchanged()
    params = (project.folder / "params.yaml").read_text()
    for text, changed in (
        (params.replace("factor: 2", "factor: 3"), r"first\.factor"),
        (params.replace("  name: no", "  names: no"), r"first\.name, first\.names"),
        ("first: [", r"first\.factor, first\.name"),
    ):
        project.write("params.yaml", text)
        with pytest.raises(LineageError, match=rf"^{changed} changed while the stage ran, .* Run it again"):
            recorder.check_unchanged()
    project.write("params.yaml", params)
    for name in (".one.py.swp", ".DS_Store", "one.py~", "__pycache__/one.pyc"):  # of an editor, and of Python
        project.write(f"pipeline/words/{name}", "")
    recorder.check_unchanged()
    project.write("pipeline/words/one.py", "WORD = 3")
    (project.folder / "stages/first.py").unlink()
    with pytest.raises(LineageError, match=r"^pipeline/words, stages/first\.py changed while .* versions"):
        recorder.check_unchanged()


def test_raw_data_that_changes_during_a_run_is_told(project, here):
    recorder = Recorder("first", project.folder, here)
    project.write("data/raw/other.txt", "4")
    project.write("data/first/out.txt", "an output")
    recorder.check_unchanged()
    project.write("data/raw/in.txt", "4\n")  # of the same size
    with pytest.raises(LineageError, match=r"^data/raw/in\.txt changed while the stage ran, .* Run it again"):
        recorder.check_unchanged()


def test_an_output_of_another_stage_is_not_watched(project, here):
    """A stage may hold it open, and DVC compares it before."""
    recorder = Recorder("second", project.folder, here)
    project.write("data/first/out.txt", "another")
    recorder.check_unchanged()


def test_paths_with_parameters_in_them_and_data_added_to_dvc_count(project, here):
    project.edit("params.yaml", "first:\n", "first:\n  path: data/raw/own\n  most: 100_000_000\n  small: 1_0e-3\n")
    project.edit("dvc.yaml", "deps: [data/raw/in.txt,", 'deps: [data/raw/in.txt, "${first.path}",')
    project.write("data/raw/own/a.txt", "a")
    project.do("dvc", "add", "-q", "data/raw/own")
    project.do("dvc", "repro", "-q")
    path = Recorder("first", project.folder, here).finish()
    assert path is not None
    assert path.name.partition(".")[0] == keys(project)["first"]
    assert re.search("^first +ok", project.audit("first").stdout, re.MULTILINE)


def test_the_first_facts_stay_in_the_store_and_the_last_in_the_project(project, here):
    first = Recorder("second", project.folder, here).finish({"run": 1})
    Recorder("second", project.folder, here).finish({"run": 2})
    assert json.loads(first.read_text())["notes"] == {"run": 2}
    shared = here.local_store / "runs" / first.name
    assert json.loads(shared.read_text())["notes"] == {"run": 1}
    assert not shared.stat().st_mode & stat.S_IWUSR


def test_an_experiment_in_a_folder_of_its_own_leaves_its_facts_in_the_project(project, here, tmp_path, monkeypatch):
    (tmp_path / "parent").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "parent"))
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    path = Recorder("second", project.folder, here).finish()
    assert path.parent == tmp_path / "parent/runs"
    assert json.loads(path.read_text())["experiment"] == "wide"


@pytest.mark.parametrize("wrong", ["outs", "dvc.yaml", "store", "notes"])
def test_a_run_is_not_lost_because_its_facts_cannot_be_kept(project, here, caplog, wrong):
    match wrong:
        case "outs":
            (project.folder / "models/encoder/weights").unlink()
            (project.folder / "models/encoder").rmdir()
        case "dvc.yaml":
            project.edit("dvc.yaml", "  second:", "  other:")
        case "store":
            here.local_store.write_text("a file, not a folder")
    notes = {"weights": object()} if wrong == "notes" else {}
    assert Recorder("second", project.folder, here).finish(notes) is None
    assert "the facts of this run are not kept" in caplog.text


def test_facts_of_another_version_are_told_in_one_message(project):
    """As in a store that other versions use too."""
    project.keep_facts("third", project.folder / "runs", schema=99)
    project.keep_facts("second", project.folder / "runs", schema=99)
    for what in (["third"], ["--verify", "third"], ["--history", "metrics/third.json:test.r10"]):
        done = project.audit(*what)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("another version of Sightword") == 1
        assert ".json and 1 more: written by another version of Sightword (schema 99, not " in done.stderr


def test_facts_in_git_are_those_of_the_last_run_with_other_hashes(project, here):
    """A run with equal hashes leaves nothing to commit."""
    Recorder("second", project.folder, here).finish({"run": 1})
    kept = project.folder / "runs/first/second.json"
    before = kept.read_text()
    assert not {"host", "platform", "scorings"} & json.loads(before).keys()
    project.commit("facts")
    Recorder("second", project.folder, here).finish({"run": 2})
    assert kept.read_text() == before
    assert project.do("git", "status", "--porcelain") == ""
    project.write("models/encoder/weights", "0.60000")
    Recorder("second", project.folder, here).finish()
    assert project.do("git", "status", "--porcelain").splitlines() == [" M runs/first/second.json"]


def test_a_clone_knows_every_run_that_git_has(project, here, tmp_path):
    for factor in ("1e-1", "0.9"):
        project.edit("params.yaml", "factor: 1e-1", f"factor: {factor}")
        project.do("dvc", "repro", "-q")
        for stage in ("first", "second", "third"):
            Recorder(stage, project.folder, here).finish()
        project.commit(factor)
    clone = project.clone(tmp_path / "clone")
    for revision in ("HEAD", "HEAD~1"):
        found = clone.audited("metrics/third.json:test.r10", "--rev", revision)
        assert {stage["record"]["verdict"] for stage in found["stages"]} == {"run recorded"}


def test_processors_that_share_a_name_are_told_apart(tmp_path, monkeypatch):
    text = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel\t\t: 99\n"
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: text.format(1))
    one = machine.processor()
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: text.format(17))
    assert (one, machine.processor()) == ("AMD EPYC (family 25, model 1)", "AMD EPYC (family 25, model 17)")


STAGES = [
    pytest.param(pipeline, stage, id=f"{pipeline.dvc_yaml}:{name}")
    for pipeline in pipelines(Path(__file__).parents[2])
    for name, stage in pipeline.stages.items()
    if "sightword/training" in stage["deps"]
]
"""The stages that train."""


@pytest.fixture(scope="module")
def code(repository, tmp_path_factory):
    """A copy of the code."""
    folder = tmp_path_factory.mktemp("code")
    for room in ("sightword", "stages", "pipeline"):
        shutil.copytree(repository / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize(("pipeline", "described"), STAGES)
def test_changed_dependency_of_a_training_is_another_hash(repository, code, tmp_path, monkeypatch, pipeline, described):
    monkeypatch.setattr(facts, "_CODE", code)
    monkeypatch.chdir(tmp_path)
    params = repository / pipeline.params
    deps, _ = stage_paths({"deps": described["deps"]}, yaml_reader.parse(params.read_text(), "params"))
    data = [Path(path) for path in deps if not is_code(path)]
    for path in data:
        path.mkdir(parents=True)
        (path / "one").write_text("1")

    def now():
        return inputs_hash(described, params, {})

    assert len(STAGES) >= 5
    before = now()
    changed = [path / "one" for path in data]
    for path in (code / path for path in deps if is_code(path)):
        changed += sorted(path.rglob("*.py"))[:1] if path.is_dir() else [path]
    assert len(changed) == len(deps)
    for file in changed:
        text = file.read_text()
        file.write_text(text + "# changed\n")
        assert now() != before, file
        file.write_text(text)
        assert now() == before
    for file in (code / "sightword/search/__init__.py", code / "pipeline/cli/__init__.py"):
        assert not any(file.is_relative_to(code / path) for path in deps)
        text = file.read_text()
        file.write_text(text + "# changed\n")
        assert now() == before
        file.write_text(text)
    shutil.rmtree(data[0])
    assert now() != before


def test_large_data_count_by_the_times_of_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("train: {}\n")
    Path("data").write_text("1234")
    small = inputs_hash({"deps": ["data"]}, "params.yaml", {})
    monkeypatch.setattr(facts, "LARGE", 3)
    assert inputs_hash({"deps": ["data"]}, "params.yaml", {}) != small


def test_values_of_the_item_and_of_parameters_name_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("text: {path: data}\n")
    described = {"deps": ["${text.path}/${item.name}"]}
    Path("data").mkdir()
    found = []
    for name in "ab":
        Path("data", name).write_text(name)
        found.append(inputs_hash(described, "params.yaml", {"name": name}))
    assert found[0] != found[1]
    with pytest.raises(LineageError, match=r"params.yaml: has no item.name, which a dependency of the stage names"):
        inputs_hash(described, "params.yaml", {})


FURTHER = ("entailment", "grounded", "hypernyms")


@pytest.fixture
def described(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def keep_run(folder: Path, stage: str, started: str, *scorings: Scoring) -> dict[str, Any]:
    """Write facts of a run as the launcher does."""
    ran: dict[str, Any] = {"command": f"run {stage} {started}", "params": {}, "deps": {}}
    outs = {"out": started}
    key = entry_key(stage, **ran)
    facts = {"schema": SCHEMA, "stage": stage, "host": "here", "started": started, "ran": ran}
    facts |= {"id": run_id(key, outs), "outs": outs, "scorings": [dataclasses.asdict(one) for one in scorings]}
    folder.mkdir(exist_ok=True)
    (folder / f"{run_id(key, outs)}.json").write_text(json.dumps(facts))
    return facts


def test_recipe_hash_is_that_of_the_stage_and_the_stages_before_it(described) -> None:
    before = {name: recipe_hash(name, "params.yaml") for name in ("captions", "retrieval", "semantics")}
    assert len(set(before.values())) == 3

    def changed() -> set[str]:
        return {name for name, found in before.items() if recipe_hash(name, "params.yaml") != found}

    change(described / "params.yaml", report__gallery=3)
    assert not changed()
    change(described / "params.yaml", retrieval__top=11)
    assert changed() == {"retrieval"}
    change(described / "params.yaml", train__seed=12)
    assert changed() == {"retrieval", "semantics"}
    change(described / "params.yaml", captions__min_count=2)
    assert changed() == {*before}
    with pytest.raises(LineageError, match="has no stage trein"):
        recipe_hash("trein", "params.yaml")


def test_recipe_hash_of_a_matrix_has_its_own_item_and_reaches_other_pipelines(described) -> None:
    params = "grounded/params.yaml"
    entries = [f"grounded/dvc.yaml:evaluate@{name}-0" for name in ("cg", "cg-pg")]
    before = [recipe_hash(entry, params) for entry in entries]
    assert before[0] != before[1]
    change(described / params, train__scenarios__cg__cluster=2.0)
    assert [recipe_hash(entry, params) == found for entry, found in zip(entries, before, strict=True)] == [False, True]
    change(described / "params.yaml", resize__side=300)
    assert recipe_hash(entries[1], params) != before[1]


def test_stage_enters_its_scorings_and_those_of_known_runs_of_its_pipeline(described) -> None:
    away, other = scoring(2, stage="retrieval"), scoring(3, stage="evaluate")
    keep_run(described / RUNS, "retrieval", "2026-01-02T00:00:00+00:00", away)
    keep_run(described / RUNS, "hypernyms/dvc.yaml:evaluate", "2026-01-02T00:00:00+00:00", other)
    enter = Entering(Pipeline(described), "retrieval", "params.yaml")
    own = scoring(1, stage="retrieval", recipe=recipe_hash("retrieval", "params.yaml"))
    assert enter([scoring(1)]) == sorted([own, away])
    assert enter.scorings == [own]
    assert ledger.read("metrics/scorings.csv") == sorted([own, away])
    evaluate = Entering(Pipeline(described, "hypernyms"), "hypernyms/dvc.yaml:evaluate", "hypernyms/params.yaml")
    assert evaluate([]) == []
    assert not Path("metrics/hypernyms").exists()
    evaluate([scoring(4)])
    assert [one.encoder[-1] for one in ledger.read("metrics/hypernyms/scorings.csv")] == ["3", "4"]


def test_damaged_ledger_stops_the_stage_before_it_writes(described) -> None:
    Path("metrics").mkdir()
    Path("metrics/scorings.csv").write_text("no ledger\n")
    with pytest.raises(FileFormatError, match=r"metrics/scorings\.csv, line 1: has the header"):
        Entering(Pipeline(described), "retrieval", "params.yaml")([scoring(1)])
    assert Path("metrics/scorings.csv").read_text() == "no ledger\n"


def test_scorings_of_edited_facts_are_left_out_and_the_others_stay(described) -> None:
    whole = scoring(1, stage="retrieval")
    damage: list[dict[str, Any]] = [{"items": "5"}, {"rows": "x"}, {"split": None}]
    wrong = [dataclasses.replace(whole, **one) for one in damage]
    facts = keep_run(described / RUNS, "retrieval", "2026-01-02T00:00:00+00:00", *wrong, whole)
    (found,) = tallies({"retrieval": facts}, described, KnownFacts([described / RUNS]))
    assert (found.rows, found.scorings) == ("a" * 16, 1)
    own = Entering(Pipeline(described), "retrieval", "params.yaml")([scoring(2)])
    assert [one.encoder[-1] for one in own] == ["1", "2"]
    assert ledger.read("metrics/scorings.csv") == own


def test_run_that_scored_no_test_split_has_no_counts_of_the_runs_that_did(described) -> None:
    ledger.add("metrics/scorings.csv", [scoring(1, stage="retrieval")])
    on_dev = keep_run(described / RUNS, "retrieval", "2026-01-02T00:00:00+00:00")
    assert tallies({"retrieval": on_dev}, described, KnownFacts([described / RUNS])) == []
    without = {name: value for name, value in on_dev.items() if name != "scorings"}
    assert [one.scorings for one in tallies({"retrieval": without}, described, KnownFacts([]))] == [1]


def test_snapshots_of_epochs_count_apart_from_encoders(described) -> None:
    epochs = [scoring(number, stage="epochs") for number in (1, 2, 3)]
    runs = keep_run(described / RUNS, "epochs", "2026-01-01T00:00:00+00:00", *epochs)
    later = keep_run(described / RUNS, "semantics", "2026-01-02T00:00:00+00:00", scoring(4, stage="semantics"))
    found = tallies({"semantics": later, "epochs": runs}, described, KnownFacts([described / RUNS]))
    assert [(one.scorings, one.encoders, one.epochs) for one in found] == [(1, 1, 3), (1, 1, 3)]
    (_, words), _ = scoring_lines([dataclasses.asdict(one) for one in found])
    assert "scored once so far, with 1 encoder and 3 snapshots of single epochs" in words


def test_tallies_count_over_ledgers_and_facts(described) -> None:
    """Of five scorings one is in the ledger alone, two in facts alone, and one is of another split."""
    runs, store = described / RUNS, described / "store"
    known = [scoring(number, stage="retrieval") for number in range(4)]
    keep_run(runs, "retrieval", "2026-01-03T00:00:00+00:00", known[0])
    second = keep_run(runs, "retrieval", "2026-01-02T00:00:00+00:00", known[1])
    keep_run(store, "retrieval", "2026-01-01T00:00:00+00:00", known[2])
    keep_run(store, "retrieval", "2026-01-05T00:00:00+00:00", known[0])  # again, later
    ledger.add("metrics/scorings.csv", [known[0], known[3], scoring(9, rows="b", stage="retrieval")])
    (found,) = tallies({"retrieval": second}, described, KnownFacts([runs, store]))
    assert (found.rows, found.scorings, found.encoders) == ("a" * 16, 4, 4)
    unknown = tallies({"retrieval": None, "train": None}, described, KnownFacts([]))
    assert [(one.rows[0], one.scorings) for one in unknown] == [("a", 2), ("b", 1)]
    ((stage, words),) = scoring_lines([dataclasses.asdict(found)])
    assert stage == "retrieval"
    assert words == "test of pictures (5, aaaaaaaa): scored 4 times so far, with 4 encoders"
