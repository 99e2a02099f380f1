"""Numbers whose chain did not make them, states that DVC saved though nothing ran, and the verdicts of facts on both.

Each is told by the status of a stage, and by the exit code; only the facts of runs are evidence.
"""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from pipeline.lineage.card import sections
from sightword.errors import EncoderError

KEY = "metrics/third.json:test.r10"
WHOLE = "all inputs unchanged"
STAGES = ("first", "second", "third")
FOURTH = "extra/dvc.yaml:fourth"


def keep_facts(project, *stages):
    for stage in stages or STAGES:
        project.keep_facts(stage, project.folder / "runs")


@pytest.fixture
def known(project):
    """A project whose runs left facts."""
    keep_facts(project)
    return project


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


def edit_page(project):
    replace(project.folder / "data/first/same.txt", "never")


def edit_code(project):
    project.write("stages/second.py", (project.folder / "stages/second.py").read_text() + "# more\n")


def save_code(project):
    edit_code(project)
    save(project)


def edit_parameter(project):
    project.edit("params.yaml", "factor: 1e-1", "factor: 0.9")


def edit_parameter_and_lock(project):
    edit_parameter(project)
    project.edit("dvc.lock", "factor: 0.1", "factor: 0.9")


def save_parameter(project):
    edit_parameter(project)
    save(project)


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
        (edit_output_hash, KEY, "third", "edited", "the same inputs gave other outputs in runs/"),
        (edit_page, "data/first/same.txt", "first", "edited", None),
        (edit_code, KEY, "second", "changed since", None),
        (save_code, KEY, "second", "contradicted", "stages/second.py "),
        (edit_parameter_and_lock, KEY, "second", "contradicted", "second.factor 0.1 there, 0.9 in dvc.lock"),
        (save_parameter, KEY, "second", "contradicted", "second.factor 0.1 there, 0.9 in dvc.lock"),
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


def test_chain_of_a_run_that_was_seen_is_ok(known):
    done = known.audit(KEY)
    assert done.returncode == 0
    assert "made by third; all inputs unchanged\nproof: `sightword audit --verify third` " in done.stdout
    table = done.stdout.partition("\nstage ")[2].splitlines()[1:]
    assert [line.split()[:2] for line in table] == [[one, "ok"] for one in STAGES[::-1]]


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
            found = place.audited(KEY, *revision)
            assert (found["value"], found["edited"]) == (99.9, True)
            assert "EDITED" in place.audit(KEY, *revision).stdout
    assert not forged.audited(KEY, "--rev", "HEAD~1")["edited"]


def test_a_difference_tells_which_side_was_edited(forged):
    """Also where something else differs, which does not explain the number."""
    forged.edit("stages/second.py", "import json", "# a remark\nimport json")
    forged.do("dvc", "repro", "-q", "second")
    forged.commit("a remark")
    found = forged.audited("--diff", "HEAD~2", "HEAD")
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


@pytest.mark.parametrize("place", ["data/first", "data/first/out.txt"])
def test_a_rerun_takes_nothing_damaged_from_the_cache(project, place):
    """A changed object would be taken for the data of the first run, and the stage for one that gives other bytes."""
    first = project.audited(KEY)["stages"][-1]["outs"][0]
    second = project.audited(KEY)["stages"][1]["deps"][0]
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


def records(project, *arguments, code=0):
    done = project.audit(KEY, "--json", *arguments)
    assert done.returncode == code, done.stderr
    return {stage["name"]: stage["record"] for stage in json.loads(done.stdout)["stages"]}


def verdicts(project, **options):
    return {name: record["verdict"] for name, record in records(project, **options).items()}


def test_a_history_marks_the_values_that_a_record_contradicts(project):
    keep_facts(project)
    edit_number_and_lock(project)
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


@pytest.mark.parametrize(
    "odd",
    [{"ran": 3}, {"outs": {}}, {"ran": {"params": []}}, {"schema": 4}, {"started": 3}],
)
def test_facts_that_were_edited_are_no_evidence(project, tmp_path, odd):
    keep_facts(project)
    edit_number_and_lock(project)
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
    assert "made by third; not checked out: third, second\n" in done.stdout
    assert "second: never seen to run: the same inputs gave other outputs in runs/" in done.stdout
    assert "\nfirst   ok " in done.stdout


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({}, "never seen to run"),
        ({"commit": None}, "never seen to run"),  # its time is after the commit's
        ({"commit": None, "started": "2020-01-01T00:00:00+00:00"}, "contradicted"),
        *(
            ({"commit": None, "started": "2020-01-01T00:00:00+00:00", **other}, "never seen to run")
            for other in (
                *({"processor": "Z80"}, {"packages": {}}, {"device": "NVIDIA H200 (CUDA 13.0, cuDNN 91300)"}),
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


def record(project, what, stage, *, code=0):
    done = project.audit(*what.split(), "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return {one["name"]: one["record"] for one in json.loads(done.stdout)["stages"]}[stage]


def save_output(project):
    """A file of the same size: one digit is another one."""
    path = project.folder / "models/encoder/weights"
    text = path.read_text()
    path.unlink()
    path.write_text(text[:-1] + ("1" if text[-1] == "2" else "2"))
    save(project)


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
    keep_facts(known, "second", "third")
    known.edit("params.yaml", "factor: 0.9", "factor: 1e-1")
    known.do("dvc", "commit", "-q", "-f", "second")
    found = record(known, "models/encoder", "second", code=1)
    assert "the same inputs gave other outputs" in found["why"]
    assert "its outputs are those of another run" in found["why"]
    assert "second.factor 0.9 there, 0.1 in dvc.lock" in found["why"]


def test_a_stage_of_another_pipeline_whose_outputs_are_partly_of_another_run_was_never_seen_to_run(known):
    known.add_second_pipeline()
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    keep_facts(known, FOURTH)
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
    keep_facts(known, FOURTH)
    known.edit("extra/params.yaml", "factor: 7", "factor: 8")
    known.do("dvc", "repro", "-q", "extra/dvc.yaml")
    known.commit("a run without facts")
    found = record(known, FOURTH, FOURTH)
    assert (found["verdict"], found["why"]) == ("never seen to run", None)
    listed = known.run("sightword", "sweep", "--metric", "total")
    assert (listed.returncode, listed.stderr) == (0, "")


def test_an_item_of_a_matrix_that_was_saved_is_told_alone(known):
    known.add_matrix_pipeline()
    known.do("dvc", "repro", "-q", "many/dvc.yaml")
    items = [f"many/dvc.yaml:each@{item}" for item in ("plain-0", "plain-1", "big-one-0", "big-one-1")]
    keep_facts(known, *items, "many/dvc.yaml:all")
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


def test_a_run_that_dvc_saves_later_is_vouched_for(known):
    known.edit("params.yaml", "factor: 1e-1", "factor: 0.9")
    known.do("dvc", "repro", "-q", "--no-commit", "second")
    keep_facts(known, "second")
    known.do("dvc", "commit", "-q", "-f", "second")
    assert record(known, "models/encoder", "second")["verdict"] == "run recorded"


def test_two_runs_with_the_same_inputs_and_other_bytes_are_both_vouched_for(known):
    """As on two machines: the facts of the second run stand beside those of the first."""
    save_output(known)
    keep_facts(known, "second")
    for revision in ("HEAD", "HEAD~1"):
        assert record(known, f"models/encoder --rev {revision}", "second")["verdict"] == "run recorded"


def test_facts_name_the_input_that_a_run_has_read(known):
    """DVC runs a single stage on what lies there, and not on what the stage before has written."""
    path = known.folder / "data/first/out.txt"
    text = path.read_text()
    path.unlink()
    path.write_text("7.0")
    known.do("dvc", "repro", "-q", "--single-item", "second")
    keep_facts(known, "second")
    assert record(known, "models/encoder", "second", code=1)["verdict"] == "run recorded"
    path.write_text(text)
    known.do("dvc", "commit", "-q", "-f", "second")
    found = record(known, "models/encoder", "second", code=1)
    assert "the same inputs gave other outputs" in found["why"]
    assert "its outputs are those of another run" in found["why"]
