"""Numbers that no stage wrote: an audit has to tell them from those that one did."""

from __future__ import annotations

import json
import shutil

import pytest

KEY = "metrics/third.json:test.r10"


def read(project, *arguments):
    return project.audited(*arguments)


@pytest.fixture
def forged(project):
    """A project with a better number, which its second commit has."""
    text = (project.folder / "metrics/third.json").read_text()
    project.write("metrics/third.json", text.replace(str(json.loads(text)["test"]["r10"]), "99.9"))
    project.commit("improved")
    return project


def test_an_edited_number_is_called_so_wherever_it_is_read(forged, tmp_path):
    for place in (forged, forged.clone(tmp_path / "clone"), forged.clone(tmp_path / "bare.git", "--bare")):
        for revision in ([], ["--rev", "main"]):
            found = read(place, KEY, *revision)
            assert (found["value"], found["edited"]) == (99.9, True)
            assert "EDITED" in place.audit(KEY, *revision).stdout
    assert not read(forged, KEY, "--rev", "HEAD~1")["edited"]


def test_a_history_tells_which_values_were_edited(forged):
    assert [(one["value"], one["edited"]) for one in read(forged, "--history", KEY)["points"]] == [
        (pytest.approx(3), False),
        (99.9, True),
    ]
    assert forged.audit("--history", KEY).stdout.count("EDITED") == 1


def test_a_difference_tells_which_side_was_edited(forged):
    """Also where something else differs, which does not explain the number."""
    forged.edit("stages/second.py", "import json", "# a remark\nimport json")
    forged.do("dvc", "repro", "-q", "second")
    forged.commit("a remark")
    found = read(forged, "--diff", "HEAD~2", "HEAD")
    assert found["edited"] == ["metrics/third.json in HEAD"]
    assert found["because"][-1].startswith("metrics/third.json in HEAD was edited")


def test_a_rerun_does_not_vouch_for_a_number_that_was_edited(forged):
    """The rerun gives what the lock has; what lies here, or in the commit, is something else."""
    for revision, code in (([], 1), (["--rev", "HEAD"], 1), (["--rev", "HEAD~1"], 0)):
        done = forged.audit("--verify", "third", *revision, "--json")
        found = json.loads(done.stdout[done.stdout.index("{") :])
        assert (done.returncode, found["same"]) == (code, code == 0)
        assert (found["outs"][0]["same"], found["outs"][0]["here"]) == (True, "changed since" if code else "ok")
    assert "NOT the same" in forged.audit("--verify", "third").stdout


def test_a_lock_that_was_edited_with_the_number_is_found_out_by_a_rerun(forged):
    import hashlib

    text = (forged.folder / "metrics/third.json").read_bytes()
    old = read(forged, KEY, "--rev", "HEAD~1")["stages"][0]["outs"][0]["md5"]
    forged.edit("dvc.lock", old, hashlib.md5(text, usedforsecurity=False).hexdigest())
    shutil.rmtree(forged.folder / ".dvc/cache/runs")  # which tells without a rerun
    assert not read(forged, KEY)["edited"]
    assert forged.audit("--verify", "third").returncode == 1
    forged.edit("dvc.lock", "    outs:\n    - path: metrics/third.json", "    others:\n    - path: metrics/third.json")
    done = forged.audit("--verify", "third")
    assert done.returncode == 1
    assert "nothing to compare" in done.stderr


@pytest.mark.parametrize("place", ["data/first", "data/first/out.txt"])
def test_a_rerun_takes_nothing_damaged_from_the_cache(project, place):
    """A changed object would be taken for the data of the first run, and the stage for one that gives other bytes."""
    first = read(project, KEY)["stages"][-1]["outs"][0]
    second = read(project, KEY)["stages"][1]["deps"][0]
    md5 = first["md5"] if place == "data/first" else second["md5"]
    shutil.rmtree(project.folder / "data/first")
    path = project.folder / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
    path.chmod(0o644)
    path.write_text(path.read_text().replace("6", "7"))
    done = project.audit("--verify", "second")
    if place == "data/first":
        assert done.returncode == 0  # the file itself is there, whatever is told of the folder
    else:
        assert done.returncode == 1
        assert "undamaged" in done.stderr
