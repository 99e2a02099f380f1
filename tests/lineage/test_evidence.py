"""The verdicts of facts on entries of a lock, and what facts cannot say."""

from __future__ import annotations

import hashlib
import json

import pytest

KEY = "metrics/third.json:test.r10"
WHOLE = "all inputs unchanged"


def records(project, *arguments, code=0):
    done = project.audit(KEY, "--json", *arguments)
    assert done.returncode == code, done.stderr
    return {stage["name"]: stage["record"] for stage in json.loads(done.stdout)["stages"]}


def verdicts(project, **options):
    return {name: record["verdict"] for name, record in records(project, **options).items()}


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


def test_a_history_marks_the_values_that_a_record_contradicts(project):
    keep_facts(project)
    edit_number(project)
    points = json.loads(project.audit("--history", KEY, "--json").stdout)["points"]
    assert [(point["value"], point["contradicted"]) for point in points] == [
        (pytest.approx(3), []),
        (pytest.approx(9), ["third"]),
    ]
    shown = project.audit("--history", KEY)
    assert (shown.stdout.count("CONTRADICTED by a record of a run: third"), shown.returncode) == (1, 1)


def test_a_clone_has_no_records_and_says_so(ran, tmp_path):
    """A pull request is checked on one: nothing speaks against the lock there."""
    clone = ran.clone(tmp_path / "clone")
    assert set(verdicts(clone).values()) == {"never seen to run"}
    done = clone.audit(KEY)
    assert "made by third; missing: third, second, first\n" in done.stdout
    assert "whether third, second, first ever ran as dvc.lock says: no facts of such a run are here" in done.stdout
    looked = clone.run("sightword", "doctor", "--lock")
    assert (looked.returncode, "ok       lock:       no facts of runs are here" in looked.stdout) == (0, True)


def test_damaged_records_are_no_evidence(project, tmp_path):
    keep_facts(project)
    edit_number(project)
    for path in (project.folder / "runs").iterdir():
        path.write_text(path.read_text()[:-20])
    assert set(verdicts(project).values()) == {"never seen to run"}


@pytest.mark.parametrize(
    "odd",
    [{"ran": 3}, {"outs": 3}, {"outs": {}}, {"ran": {"params": []}}, {"stage": 3}, {"schema": 4}, {"started": 3}],
)
def test_facts_that_were_edited_are_no_evidence(project, tmp_path, odd):
    keep_facts(project)
    edit_number(project)
    for path in (project.folder / "runs").iterdir():
        facts = json.loads(path.read_text())
        path.write_text(json.dumps(facts | odd))
    assert set(verdicts(project).values()) == {"never seen to run"}


@pytest.fixture
def repeated(ran, tmp_path):
    """A fresh clone whose run gave other last digits than the commit, and whose lock was taken back."""
    clone = ran.clone(tmp_path / "clone")
    clone.do("dvc", "repro", "-q")
    weights = clone.folder / "models/encoder/weights"
    digits = weights.read_text()
    weights.unlink()
    weights.write_text(f"{digits}0")
    clone.do("dvc", "commit", "-q", "-f", "second")
    clone.do("dvc", "repro", "-q")
    keep_facts(clone)
    clone.do("git", "checkout", "-q", ".")
    return clone


def test_commit_that_does_not_repeat_here_is_no_contradiction(repeated):
    done = repeated.audit(KEY)
    assert done.returncode == 0
    assert "made by third; not checked out: third; not repeated: second\n" in done.stdout
    assert "second: not repeated on this kind of machine: the same inputs gave other outputs in runs/" in done.stdout
    assert "first      ok " in done.stdout


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "not repeated on this kind of machine"),
        ({"commit": None}, "not repeated on this kind of machine"),  # its time is after the commit's
        ({"commit": None, "started": "2020-01-01T00:00:00+00:00"}, "contradicted"),
        *(
            ({"commit": None, "started": "2020-01-01T00:00:00+00:00", **other}, "not repeated on this kind of machine")
            for other in (
                *({"processor": "Z80"}, {"packages": {}}, {"threads": 64}, {"engine": "openvino"}),
                {"device": "NVIDIA H200 (CUDA 13.0, cuDNN 91300)"},
            )
        ),
    ],
)
def test_run_contradicts_what_came_later_on_its_kind_of_machine(repeated, values, verdict):
    for path in (repeated.folder / "runs").iterdir():
        facts = json.loads(path.read_text())
        if facts["stage"] == "second":
            path.write_text(json.dumps(facts | values))
    code = 1 if verdict == "contradicted" else 0
    assert verdicts(repeated, code=code)["second"] == verdict
