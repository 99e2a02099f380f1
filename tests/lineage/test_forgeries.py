"""Numbers whose chain did not make them: each is told by the status of a stage, and by the exit code."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

KEY = "metrics/third.json:test.r10"
STAGES = ("first", "second", "third")


@pytest.fixture
def known(project):
    """A project whose runs left facts."""
    keep_facts(project)
    return project


def keep_facts(project):
    for stage in STAGES:
        project.keep_facts(stage, project.folder / "runs")


def md5(path):
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def replace(path, text):
    path.unlink()  # the cache has a link
    path.write_text(text)


def save(project):
    project.do("dvc", "commit", "-q", "-f", "second")
    project.commit("saved")


def edit_number(project):
    project.edit("metrics/third.json", "3.0", "9.0")


def edit_number_and_lock(project):
    old = md5(project.folder / "metrics/third.json")
    edit_number(project)
    project.edit("dvc.lock", old, md5(project.folder / "metrics/third.json"))
    project.commit("better")


def save_number(project):
    edit_number(project)
    project.do("dvc", "commit", "-q", "-f", "third")
    project.commit("better")


def edit_page(project):
    replace(project.folder / "data/first/same.txt", "never")


def edit_weights(project):
    replace(project.folder / "models/encoder/weights", "0.7")


def save_weights(project):
    edit_weights(project)
    save(project)


def edit_code(project):
    project.write("stages/second.py", (project.folder / "stages/second.py").read_text() + "# more\n")


def save_code(project):
    edit_code(project)
    save(project)


def edit_command(project):
    project.edit("dvc.yaml", "cmd: python -m stages.second", "cmd: python -B -m stages.second")


def save_command(project):
    edit_command(project)
    save(project)


def edit_parameter(project):
    project.edit("params.yaml", "factor: 1e-1", "factor: 0.9")


def edit_parameter_and_lock(project):
    edit_parameter(project)
    project.edit("dvc.lock", "factor: 0.1", "factor: 0.9")


def save_parameter(project):
    edit_parameter(project)
    save(project)


def save_frozen(project):
    project.do("dvc", "freeze", "second")
    edit_parameter(project)
    project.do("dvc", "repro", "-q", "--force", "--single-item", "second")
    project.do("dvc", "unfreeze", "second")


def restore_what_was_saved(project):
    """DVC takes what `dvc commit` has saved for a finished run with these parameters."""
    save_parameter(project)
    project.do("git", "checkout", "-q", "HEAD~1")
    project.do("dvc", "checkout", "-q")
    edit_parameter(project)
    assert "is cached - skipping run" in project.do("dvc", "repro", "second")


def edit_dependency_hash(project):
    text = (project.folder / "dvc.lock").read_text()
    at = text.index("path: stages/second.py")
    at = text.index("md5: ", text.index("hash: md5", at)) + len("md5: ")
    project.write("dvc.lock", text[:at] + "f" * 32 + text[at + 32 :])


def edit_output_hash(project):
    project.edit("dvc.lock", md5(project.folder / "metrics/third.json"), "f" * 32)


def merge_lines(project):
    """Git takes the outputs of one side and one input of each; DVC, and the files that lie here, agree."""
    for branch, old, new in (("b", "factor: 1e-1", "factor: 2e-1"), ("a", "factor: 5", "factor: 7")):
        project.do("git", "checkout", "-q", "main")
        project.do("git", "checkout", "-q", "-b", branch)
        project.edit("params.yaml", old, new)
        project.do("dvc", "repro", "-q")
        keep_facts(project)
        project.commit(branch)
    project.do("git", "merge", "-q", "b", "-X", "ours", "-m", "merged")
    project.do("dvc", "checkout", "-q")
    assert "up to date" in project.do("dvc", "status")


@pytest.mark.parametrize(
    ("forge", "what", "stage", "status", "why"),
    [
        (edit_number, KEY, "third", "edited", None),
        (edit_number_and_lock, KEY, "third", "contradicted", "the same inputs gave other outputs in runs/"),
        (save_number, KEY, "third", "contradicted", "metrics/third.json "),
        (edit_output_hash, KEY, "third", "edited", "the same inputs gave other outputs in runs/"),
        (edit_page, "data/first/same.txt", "first", "edited", None),
        (edit_weights, KEY, "second", "changed since", None),
        (save_weights, KEY, "second", "contradicted", "models/encoder "),
        (edit_code, KEY, "second", "changed since", None),
        (save_code, KEY, "second", "contradicted", "stages/second.py "),
        (edit_command, KEY, "second", "changed since", None),
        (save_command, KEY, "second", "contradicted", 'command "python -m stages.second" there'),
        (edit_parameter, KEY, "second", "changed since", None),
        (edit_parameter_and_lock, KEY, "second", "contradicted", "second.factor 0.1 there, 0.9 in dvc.lock"),
        (save_parameter, KEY, "second", "contradicted", "second.factor 0.1 there, 0.9 in dvc.lock"),
        (save_frozen, KEY, "second", "contradicted", "second.factor 0.1 there, 0.9 in dvc.lock"),
        (restore_what_was_saved, KEY, "second", "contradicted", "second.factor 0.1 there, 0.9 in dvc.lock"),
        (edit_dependency_hash, KEY, "second", "contradicted", "stages/second.py "),
        (merge_lines, KEY, "third", "contradicted", "models/encoder "),
    ],
)
def test_forged_chain_ends_with_one_and_names_its_stage(known, forge, what, stage, status, why):
    forge(known)
    done = known.audit(what, "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)["stages"]}
    assert (done.returncode, found[stage]["status"]) == (1, status)
    doctor = known.run("sightword", "doctor", "--lock")
    if why:
        said = found[stage]["record"]["why"]
        assert why in said
        assert ", facts of a run of " in said
        assert f"PROBLEM  lock:       {stage}: {found[stage]['record']['verdict'].upper()}: {said}" in doctor.stdout
    assert doctor.returncode == 1
    assert "dvc.lock belongs to" not in doctor.stdout


def test_forged_stage_has_its_status_in_the_text(known):
    save_weights(known)
    said = known.audit(KEY).stdout
    assert "second     contradicted " in said
    assert "second: CONTRADICTED: the same inputs gave other outputs in runs/" in said


def test_chain_of_a_run_that_was_seen_is_ok(known):
    done = known.audit(KEY)
    assert done.returncode == 0
    assert "made by third; all inputs unchanged\nproof: `sightword audit --verify third` " in done.stdout
    assert [line.split()[:2] for line in done.stdout.splitlines()[3:6]] == [[one, "ok"] for one in STAGES[::-1]]


def test_run_that_was_not_seen_is_not_ok(project):
    done = project.audit(KEY)
    assert done.returncode == 0
    assert "made by third; not seen: third, second, first\n" in done.stdout


def test_changes_here_say_nothing_against_another_commit(known):
    edit_parameter(known)
    known.do("dvc", "repro", "-q")
    keep_facts(known)
    known.commit("another factor")
    assert known.audit(KEY, "--rev", "HEAD").returncode == 0
    assert known.audit(KEY, "--rev", "HEAD~1").returncode == 0
    edit_code(known)
    assert known.audit(KEY, "--rev", "HEAD~1").returncode == 0
    assert known.audit(KEY, "--rev", "HEAD").returncode == 1


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
    for place in (forged, forged.clone(tmp_path / "clone")):
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
