"""States that DVC saved though nothing ran, wherever they are read: only the facts of runs are evidence."""

from __future__ import annotations

import json
import shutil

import pytest

from pipeline.lineage.card import sections
from sightword.errors import EncoderError

KEY = "metrics/third.json:test.r10"
WHOLE = "all inputs unchanged"
STAGES = ("first", "second", "third")
FOURTH = "extra/dvc.yaml:fourth"


@pytest.fixture
def known(project):
    """A project whose runs left facts."""
    keep(project, *STAGES)
    return project


def keep(project, *stages):
    for stage in stages:
        project.keep_facts(stage, project.folder / "runs")


def record(project, what, stage, *, code=0):
    done = project.audit(*what.split(), "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return {one["name"]: one["record"] for one in json.loads(done.stdout)["stages"]}[stage]


def save_parameter(project):
    project.edit("params.yaml", "factor: 1e-1", "factor: 0.9")
    project.do("dvc", "commit", "-q", "-f", "second")
    project.commit("saved")


def save_output(project):
    """A file of the same size: one digit is another one."""
    path = project.folder / "models/encoder/weights"
    text = path.read_text()
    path.unlink()
    path.write_text(text[:-1] + ("1" if text[-1] == "2" else "2"))
    project.do("dvc", "commit", "-q", "-f", "second")
    project.commit("saved")


def edit_code(project):
    project.write("stages/second.py", (project.folder / "stages/second.py").read_text() + "# more\n")
    project.do("dvc", "commit", "-q", "-f", "second")


def test_output_with_facts_in_a_store_is_contradicted(known, tmp_path):
    shutil.move(known.folder / "runs", tmp_path / "unused-store/runs")
    save_output(known)
    assert record(known, "models/encoder", "second", code=1)["verdict"] == "contradicted"


def test_state_in_the_run_cache_alone_was_not_seen(project):
    save_parameter(project)
    assert record(project, "models/encoder", "second") == {
        "verdict": "never seen to run", "why": None, "doubted": False,
    }  # fmt: skip


def test_an_experiment_that_was_saved_without_a_run_was_never_seen_to_run(known):
    known.edit("params.yaml", "factor: 1e-1", "factor: 0.9")
    known.do("dvc", "exp", "save", "-n", "saved")
    known.do("git", "checkout", "-q", ".")
    known.do("dvc", "checkout", "-q")
    found = record(known, f"{KEY} --rev saved", "second", code=1)
    assert found["verdict"] == "contradicted"
    assert "second.factor 0.1 there, 0.9 in dvc.lock" in found["why"]
    assert record(known, KEY, "second")["verdict"] == "run recorded"
    listed = known.run("sightword", "sweep", "--metric", "test.r10")
    assert "second does not agree with the records of runs: CONTRADICTED" in listed.stderr
    done = known.audit("--diff", "main", "saved")
    assert done.returncode == 1
    assert "second in saved: CONTRADICTED: its outputs are those of another run" in done.stdout
    assert "with the same outputs" not in done.stdout


def test_an_old_value_with_the_outputs_of_a_new_one_is_contradicted_and_both_runs_are_named(known):
    known.edit("params.yaml", "factor: 1e-1", "factor: 0.9")
    known.do("dvc", "repro", "-q")
    keep(known, "second", "third")
    known.edit("params.yaml", "factor: 0.9", "factor: 1e-1")
    known.do("dvc", "commit", "-q", "-f", "second")
    found = record(known, "models/encoder", "second", code=1)
    assert "the same inputs gave other outputs" in found["why"]
    assert "its outputs are those of another run" in found["why"]
    assert "second.factor 0.9 there, 0.1 in dvc.lock" in found["why"]


def test_a_stage_of_another_pipeline_whose_outputs_are_partly_of_another_run_was_never_seen_to_run(known):
    known.add_second_pipeline()
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    keep(known, FOURTH)
    known.edit("extra/params.yaml", "factor: 7", "factor: 8")
    known.edit("metrics/fourth.json", "21.0", "24.0")
    known.do("dvc", "commit", "-q", "-f", "extra/dvc.yaml:fourth")
    found = record(known, FOURTH, FOURTH, code=1)
    assert found["verdict"] == "contradicted"
    assert "its outputs data/fourth are those of another run" in found["why"]
    assert "extra/params.yaml:fourth.factor 7 there, 8 in dvc.lock" in found["why"]


def test_a_run_with_a_file_of_numbers_equal_by_chance_is_no_doubt(known):
    """As where a colleague has sent DVC's run-cache, and not the facts."""
    known.add_second_pipeline()
    known.edit("stages/fourth.py", '{"total": number}', '{"total": 21}')
    known.edit("stages/fourth.py", ".read_text())\npathlib", ".read_text() + str(number))\npathlib")
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    keep(known, FOURTH)
    known.edit("extra/params.yaml", "factor: 7", "factor: 8")
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    known.commit("a run without facts")
    found = record(known, FOURTH, FOURTH)
    assert (found["verdict"], found["why"]) == ("never seen to run", None)
    listed = known.run("sightword", "sweep", "--metric", "total")
    assert (listed.returncode, listed.stderr) == (0, "")


def test_run_with_some_equal_outputs_is_named_and_no_proof(known):
    known.edit(".gitignore", "/runs/*.json", "/runs/*.json\n/data/other")
    known.add_second_pipeline()
    known.edit("extra/dvc.yaml", "outs: [data/fourth]", "outs: [data/fourth, data/other]")
    text = (known.folder / "stages/fourth.py").read_text()
    known.write("stages/fourth.py", text + 'pathlib.Path("data/other").write_text(str(number))\n')
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    keep(known, FOURTH)
    known.edit("extra/params.yaml", "factor: 7", "factor: 8")
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    found = record(known, FOURTH, FOURTH)
    assert (found["verdict"], found["doubted"]) == ("never seen to run", False)
    assert "its outputs data/fourth are those of another run, runs/" in found["why"]
    assert "extra/params.yaml:fourth.factor 7 there, 8 in dvc.lock" in found["why"]


def test_an_item_of_a_matrix_that_was_saved_is_told_alone(known):
    known.add_matrix_pipeline()
    known.do("dvc", "repro", "-q", "many/dvc.yaml")
    items = [f"many/dvc.yaml:each@{item}" for item in ("plain-0", "plain-1", "big-one-0", "big-one-1")]
    keep(known, *items, "many/dvc.yaml:all")
    known.edit("many/params.yaml", "plain: {}", "plain: {add: 3}")
    known.do("dvc", "commit", "-q", "-f", items[0])
    stages = known.audited("metrics/all.json")["stages"]
    unseen = [one["name"] for one in stages if one["record"]["verdict"] != "run recorded"]
    assert unseen == [items[0]]
    assert "each.kinds.plain.add" in record(known, items[0], items[0], code=1)["why"]


@pytest.mark.parametrize(
    ("save", "verdict"),
    [
        (save_parameter, "CONTRADICTED: its outputs are those of another run"),
        (save_output, "CONTRADICTED: the same inputs gave"),
    ],
)
def test_a_card_is_not_written_from_an_entry_that_never_ran(known, save, verdict):
    assert "no facts" not in sections(known.folder, "models/encoder")[2]
    save(known)
    with pytest.raises(EncoderError, match=f"does not say how the stage second ran: {verdict}"):
        sections(known.folder, "models/encoder")


def test_a_card_names_the_stages_whose_runs_are_not_known(project):
    _, _, text = sections(project.folder, "models/encoder")
    assert "as dvc.lock says (no facts of the runs of first, second were here)" in text


def test_a_number_of_a_run_whose_code_alone_was_another_stays_among_the_experiments(known):
    edit_code(known)
    known.commit("a remark")
    listed = known.run("sightword", "sweep", "--metric", "test.r10")
    assert (listed.returncode, listed.stderr) == (0, "")


def test_a_run_that_dvc_saves_later_is_vouched_for(known):
    known.edit("params.yaml", "factor: 1e-1", "factor: 0.9")
    known.do("dvc", "repro", "-q", "--no-commit", "second")
    keep(known, "second")
    known.do("dvc", "commit", "-q", "-f", "second")
    assert record(known, "models/encoder", "second")["verdict"] == "run recorded"


def test_a_result_that_dvc_restores_and_an_earlier_commit_are_vouched_for(known):
    known.edit("params.yaml", "factor: 1e-1", "factor: 0.9")
    known.do("dvc", "repro", "-q")
    keep(known, *STAGES)
    known.commit("another factor")
    assert WHOLE in known.audit(KEY).stdout
    assert {one["record"]["verdict"] for one in known.audited(KEY, "--rev", "HEAD~1")["stages"]} == {"run recorded"}
    known.edit("params.yaml", "factor: 0.9", "factor: 1e-1")
    assert "is cached - skipping run" in known.do("dvc", "repro")
    assert WHOLE in known.audit(KEY).stdout
    known.do("git", "checkout", "-q", ".")
    known.do("dvc", "checkout", "-q")
    assert WHOLE in known.audit(KEY).stdout


def test_two_runs_with_the_same_inputs_and_other_bytes_are_both_vouched_for(known):
    """As on two machines: the facts of the second run stand beside those of the first."""
    save_output(known)
    keep(known, "second")
    for revision in ("HEAD", "HEAD~1"):
        assert record(known, f"models/encoder --rev {revision}", "second")["verdict"] == "run recorded"


def test_facts_name_the_input_that_a_run_has_read(known):
    """DVC runs a single stage on what lies there, and not on what the stage before has written."""
    path = known.folder / "data/first/out.txt"
    text = path.read_text()
    path.unlink()
    path.write_text("7.0")
    known.do("dvc", "repro", "-q", "--single-item", "second")
    keep(known, "second")
    assert record(known, "models/encoder", "second", code=1)["verdict"] == "run recorded"
    path.write_text(text)
    known.do("dvc", "commit", "-q", "-f", "second")
    found = record(known, "models/encoder", "second", code=1)
    assert "the same inputs gave other outputs" in found["why"]
    assert "its outputs are those of another run" in found["why"]
