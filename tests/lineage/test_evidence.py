"""Entries of a lock that never ran, as merges and editors make them, beside the records of the runs there were."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

KEY = "metrics/third.json:test.r10"
WHOLE = "all inputs unchanged"


def records(project, *arguments, code=0):
    done = project.audit(KEY, "--json", *arguments)
    assert done.returncode == code, done.stderr
    return {stage["name"]: stage["record"] for stage in json.loads(done.stdout)["stages"]}


def verdicts(project, **options):
    return {name: record["verdict"] for name, record in records(project, **options).items()}


def looked_at(project, code):
    done = project.run("sightword", "doctor", "--lock")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def vary(project, branch, section, factor):
    """A branch from main with another factor, run and committed."""
    project.do("git", "checkout", "-q", "main")
    project.do("git", "checkout", "-q", "-b", branch)
    text = (project.folder / "params.yaml").read_text()
    at = text.index("factor: ", text.index(f"{section}:")) + len("factor: ")
    project.write("params.yaml", text[:at] + factor + text[text.index("\n", at) :])
    project.do("dvc", "repro", "-q")
    keep_facts(project)
    project.commit(branch)


def edit_number(project):
    """A better number, and its hash in the lock: the old one."""
    before = (project.folder / "metrics/third.json").read_bytes()
    project.edit("metrics/third.json", "3.0", "9.0")
    after = (project.folder / "metrics/third.json").read_bytes()
    old, new = (hashlib.md5(text, usedforsecurity=False).hexdigest() for text in (before, after))
    project.edit("dvc.lock", old, new)
    project.commit("better")
    return old


def keep_facts(project):
    for stage in ("first", "second", "third"):
        project.keep_facts(stage, project.folder / "runs")


def test_a_run_is_vouched_for_by_its_facts(project, tmp_path):
    keep_facts(project)
    assert set(verdicts(project).values()) == {"run recorded in"}
    shutil.rmtree(project.folder / ".dvc/cache/runs")
    assert set(verdicts(project).values()) == {"run recorded in"}
    assert "facts of a run on" in records(project)["third"]["why"]
    assert WHOLE in project.audit(KEY).stdout
    shutil.rmtree(project.folder / "runs")
    assert set(verdicts(project).values()) == {"never seen to run"}


def test_entry_joined_by_a_merge_was_never_seen_to_run(project, tmp_path):
    """Git takes the outputs of one side and one input of each; DVC, and the files that lie here, agree."""
    keep_facts(project)
    vary(project, "b", "second", "2e-1")
    vary(project, "a", "third", "7")
    project.do("git", "merge", "-q", "b", "-X", "ours", "-m", "merged")
    project.do("dvc", "checkout", "-q")
    assert "up to date" in project.do("dvc", "status")
    said = project.audit(KEY).stdout
    assert WHOLE not in said
    assert "never seen to run: third\n" in said
    found = records(project)
    assert [found[name]["verdict"] for name in ("first", "second")] == ["run recorded in"] * 2
    assert "its outputs are those of another run" in found["third"]["why"]
    assert "models/encoder" in found["third"]["why"]
    assert "factor" not in found["third"]["why"]
    said = f"warning  lock:       never seen to run here as dvc.lock says: third ({found['third']['why']})"
    assert said in looked_at(project, 0)
    project.audit(KEY, "--html", str(tmp_path / "page.html"))
    assert "By the records of runs never seen to run: third." in (tmp_path / "page.html").read_text()
    project.do("dvc", "repro", "-q", "--force", "--single-item", "third")
    keep_facts(project)
    assert WHOLE in project.audit(KEY).stdout
    assert "warning" not in looked_at(project, 0)


@pytest.mark.parametrize("source", ["run-cache", "facts"])
def test_an_edited_number_is_contradicted_though_its_hash_was_edited_too(project, tmp_path, source):
    if source == "facts":
        keep_facts(project)
        shutil.rmtree(project.folder / ".dvc/cache/runs")
    old = edit_number(project)
    assert "up to date" in project.do("dvc", "status")
    done = project.audit(KEY)
    assert done.returncode == 1
    assert WHOLE not in done.stdout
    place = "runs/" if source == "facts" else ".dvc/cache/runs/"
    assert f"third: CONTRADICTED: the same inputs gave other outputs in {place}" in done.stdout
    assert f"metrics/third.json {old[:8]} there, " in done.stdout
    assert verdicts(project, code=1)["third"] == "contradicted"
    said = looked_at(project, 1)
    assert "PROBLEM  lock:       third: contradicted: the same inputs" in said
    assert "dvc repro --force --single-item third" in said
    before = records(project, "--rev", "HEAD~1")["third"]["verdict"]
    assert before == ("run recorded in" if source == "facts" else "saved by DVC")


def test_a_history_marks_the_values_that_a_record_contradicts(project):
    edit_number(project)
    points = json.loads(project.audit("--history", KEY, "--json").stdout)["points"]
    assert [(point["value"], point["contradicted"]) for point in points] == [
        (pytest.approx(3), []),
        (pytest.approx(9), ["third"]),
    ]
    assert project.audit("--history", KEY).stdout.count("CONTRADICTED by a record of a run: third") == 1


def test_a_parameter_edited_in_both_files_is_named(project):
    project.edit("params.yaml", "factor: 5", "factor: 6")
    project.edit("dvc.lock", "factor: 5", "factor: 6")
    assert "up to date" in project.do("dvc", "status")
    assert "third.factor 5 there, 6 in dvc.lock" in records(project)["third"]["why"]


def test_a_clone_has_no_records_and_says_so(ran, tmp_path):
    """A pull request is checked on one: nothing speaks against the lock there."""
    clone = ran.clone(tmp_path / "clone")
    assert set(verdicts(clone).values()) == {"never seen to run"}
    done = clone.audit(KEY)
    assert WHOLE not in done.stdout
    assert "whether third, second, first ever ran as dvc.lock says: no record of such a run is here" in done.stdout
    said = looked_at(clone, 0)
    assert "ok       lock:       no run was recorded here" in said
    assert "`dvc fetch --run-cache`" in said


def test_damaged_records_are_no_evidence(project, tmp_path):
    keep_facts(project)
    edit_number(project)
    for path in (project.folder / "runs").iterdir():
        path.write_text(path.read_text()[:-20])
    for number, path in enumerate(path for path in (project.folder / ".dvc/cache/runs").rglob("*") if path.is_file()):
        path.chmod(0o644)
        path.write_bytes([b"outs: [[", b"\xff", b"cmd: 3\n"][number % 3] + path.read_bytes())
    assert set(verdicts(project).values()) == {"never seen to run"}


@pytest.mark.parametrize(
    "odd",
    [{"ran": 3}, {"outs": 3}, {"outs": {}}, {"ran": {"params": []}}, {"stage": 3}, {"host": None}, {"started": 3}],
)
def test_facts_that_were_edited_are_no_evidence(project, tmp_path, odd):
    keep_facts(project)
    shutil.rmtree(project.folder / ".dvc/cache/runs")
    edit_number(project)
    for path in (project.folder / "runs").iterdir():
        facts = json.loads(path.read_text())
        path.write_text(json.dumps(facts | odd))
    assert set(verdicts(project).values()) == {"never seen to run"}
