"""A stage run again in a copy: the same bytes, or which not."""

from __future__ import annotations

import json
import shutil

from pipeline.lineage.verify import environment


def verified(project, *arguments):
    done = project.audit("--verify", *arguments, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout[done.stdout.index("{") :])


def test_a_stage_that_gives_the_same_bytes_is_verified_and_nothing_here_changes(ran):
    before = ran.do("git", "status", "--porcelain", "--ignored")
    code, found = verified(ran, "second")
    assert (code, found["same"]) == (0, True)
    assert [out["path"] for out in found["outs"]] == ["models/encoder"]
    assert ran.do("git", "status", "--porcelain", "--ignored") == before


def test_a_stage_that_gives_other_bytes_is_not(project):
    project.write("stages/first.py", (project.folder / "stages/first.py").read_text()
                  + "import time\npathlib.Path('data/first/when.txt').write_text(str(time.time_ns()))\n")  # fmt: skip
    project.do("dvc", "repro", "-q")
    project.commit("the time is in it")
    code, found = verified(project, "first")
    assert (code, found["same"]) == (1, False)
    assert found["outs"][0]["differing"] == ["when.txt"]
    assert any("facts" in line for line in found["remarks"])
    assert "NOT the same" in project.audit("--verify", "first").stdout


def test_what_the_lock_has_is_run_and_not_what_lies_here(project):
    """Code from git, data from the cache, parameters from the lock."""
    project.edit("stages/second.py", "number))", "number + 1))")
    project.edit("params.yaml", "factor: 1e-1", "factor: 7")
    shutil.rmtree(project.folder / "data/first")
    code, found = verified(project, "second")
    assert (code, found["same"]) == (0, True)


def test_an_earlier_commit_can_be_verified(project):
    old = project.do("git", "rev-parse", "HEAD").strip()
    project.edit("stages/helper.py", "return float", "return 3 * float")
    project.do("dvc", "repro", "-q")
    project.commit("three times")
    assert verified(project, "second")[0] == 0
    assert verified(project, "second", "--rev", old)[0] == 0


def test_a_stage_is_run_with_the_threads_and_the_engine_of_its_run(tmp_path, monkeypatch):
    monkeypatch.delenv("SIGHTWORD_ENGINE", raising=False)
    monkeypatch.setenv("SIGHTWORD_THREADS", "5")
    found = environment(tmp_path, {"threads": 2, "engine": "openvino"})
    settings = {name: found[f"SIGHTWORD_{name}"] for name in ("THREADS", "ENGINE")}
    assert settings == {"THREADS": "5", "ENGINE": "openvino"}
    assert environment(tmp_path, {"threads": 2})["SIGHTWORD_ENGINE"] == "torch"


def test_what_cannot_be_had_is_told(ran, tmp_path):
    clone = ran.clone(tmp_path / "clone")
    done = clone.audit("--verify", "second")
    assert done.returncode == 1
    assert "data/first/out.txt" in done.stderr
    assert "dvc pull" in done.stderr


def test_a_stage_that_fails_is_told_with_its_exit_code(project):
    project.edit("stages/third.py", "found = {", "raise SystemExit(3) if len('x') else None\nfound = {")
    project.edit("dvc.lock", "python -m stages.third", "python -c 'raise SystemExit(3)'")
    done = project.audit("--verify", "third")
    assert done.returncode == 1
    assert "failed with exit code 3" in done.stdout
