"""Audits of a project that DVC ran: by name, key and hash, as things were and as they are."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lineage.audit import find_entry as find
from sightword.features.network_files import network_sha256
from sightword.messages import flat

KEY = "metrics/third.json:test.r10"


def audited(project, *arguments, code=0, **options):
    done = project.audit(*arguments, "--json", **options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def states(found):
    return {stage["name"]: stage["state"] for stage in found["stages"]}


def test_a_key_is_followed_to_the_raw_data(ran):
    found = audited(ran, KEY)
    assert found["value"] == pytest.approx(3 * 2 * 0.1 * 5)
    assert [stage["name"] for stage in found["stages"]] == ["third", "second", "first"]
    assert states(found) == dict.fromkeys(["third", "second", "first"], "ok")
    first = found["stages"][-1]
    assert first["command"] == "python -m stages.first"
    assert first["params"] == {"first.factor": 2, "first.name": "no"}
    by_path = {dep["path"]: dep for dep in first["deps"]}
    assert by_path["data/raw/in.txt"]["kind"] == "data"
    assert by_path["stages/first.py"]["kind"] == "code"
    assert set(by_path["pipeline/words"]["files"]) == {"one.py", "two.py"}
    assert found["stages"][1]["deps"][0] | {"size": 0} == {
        "path": "data/first/out.txt", "kind": "output", "md5": found["stages"][1]["deps"][0]["md5"], "size": 0,
        "state": "ok", "stage": "first",
    }  # fmt: skip
    head = ran.do("git", "rev-parse", "HEAD").strip()
    assert all(stage["commit"]["sha"] == head for stage in found["stages"])
    assert found["not_known"] == [
        "machine, versions and duration of third, second, first: no facts of these runs are here",
        (
            "whether third, second, first ever ran as dvc.lock says: no facts of such a run are here "
            "(`sightword audit --verify` shows it)"
        ),
    ]


@pytest.mark.parametrize(
    ("what", "stage"),
    [("metrics/third.json", "third"), ("models/encoder", "second"), ("models/encoder/weights", "second"),
     ("./data/../data/first", "first"), ("second", "second"), ("models/encoder/", "second")],
)  # fmt: skip
def test_audit_of_any_output_names_its_stage(ran, what, stage):
    assert audited(ran, what)["stage"] == stage


def test_each_change_in_the_workspace_is_seen_where_it_is(project):
    project.write("stages/second.py", (project.folder / "stages/second.py").read_text() + "# more\n")
    found = audited(project, KEY, code=1)
    assert states(found) == {"third": "ok", "second": "changed since", "first": "ok"}
    (project.folder / "data/raw/in.txt").unlink()
    assert states(audited(project, KEY, code=1))["first"] == "missing"
    project.edit("params.yaml", "factor: 5", "factor: 6")
    third = audited(project, KEY, code=1)["stages"][0]
    assert (third["state"], third["changed_params"]) == ("changed since", {"third.factor": [5, 6]})
    project.edit("dvc.yaml", "python -m stages.first", "python -u -m stages.first")
    assert "another command" in audited(project, KEY, code=1)["stages"][-1]["reasons"][0]
    (project.folder / "data/first/same.txt").write_text("never")
    out = audited(project, KEY, code=1)["stages"][-1]["outs"][0]
    assert (out["state"], out["differing"]) == ("changed since", ["same.txt"])


def test_edited_file_of_a_network_is_seen_by_the_notes_of_its_run(project):
    project.write("own_network.py", "def network():\n    from own_helper import SIDE\n")
    project.write("own_helper.py", "SIDE = 2\n")
    sha256 = network_sha256("own_network:network", project.folder)
    notes = {"backbone": "own_network:network", "network_sha256": sha256, "origin": "extracted"}
    project.keep_facts("first", project.folder / "runs", notes=notes)
    assert states(audited(project, KEY))["first"] == "ok"
    project.write("own_helper.py", "SIDE = 3\n")
    first = audited(project, KEY, code=1)["stages"][-1]
    assert first["state"] == "changed since"
    (reason,) = first["reasons"]
    assert reason.startswith("the files of the network own_network:network, which DVC does not see, are others now")


def test_stage_that_read_an_older_input_is_changed_since(project):
    """As when a stage was run alone, and what builds on it was not."""
    project.edit("params.yaml", "factor: 2", "factor: 4")
    project.do("dvc", "repro", "-q", "--single-item", "first")
    found = audited(project, KEY, code=1)
    assert states(found) == {"third": "ok", "second": "changed since", "first": "ok"}
    assert found["stages"][1]["reasons"][0].startswith("it read data/first/out.txt")


def test_a_clone_without_data_knows_all_but_the_data(ran, tmp_path):
    clone = ran.clone(tmp_path / "clone")
    found = audited(clone, KEY)
    assert found["value"] == pytest.approx(3)
    assert states(found) == {"third": "missing", "second": "missing", "first": "missing"}
    assert [part["state"] for part in found["stages"][0]["outs"]] == ["ok"]  # metrics are in git
    assert all(part["state"] == "ok" for part in found["stages"][-1]["deps"])
    assert any("data/first, " in line or "data/first (" in line for line in found["not_known"])


def test_a_shallow_clone_says_that_it_is_one(project, tmp_path):
    project.write("note", "more\n")
    project.commit("later")
    shallow = project.clone(tmp_path / "shallow", "--depth", "1")
    assert any("shallow" in line for line in audited(shallow, KEY)["not_known"])
    assert "shallow" in shallow.audit("--history", KEY).stdout
    done = shallow.audit(KEY, "--rev", "HEAD~1")
    assert done.returncode == 1
    assert "git fetch --unshallow" in done.stderr


def test_without_git_the_lock_alone_is_read(project):
    shutil.rmtree(project.folder / ".git")
    found = audited(project, KEY)
    assert states(found)["first"] == "ok"
    assert found["stages"][0]["commit"] is None
    assert any(line.startswith("commits:") for line in found["not_known"])


def test_the_commit_is_the_one_that_recorded_the_state_first(project):
    recorded = project.do("git", "rev-parse", "HEAD").strip()
    project.edit("params.yaml", "factor: 5", "factor: 6")
    project.do("dvc", "repro", "-q")
    found = audited(project, KEY)
    assert found["stages"][0]["commit"] is None
    assert any("no commit has this state of third" in line for line in found["not_known"])
    newer = project.commit("six")
    shas = {stage["name"]: stage["commit"]["sha"] for stage in audited(project, KEY)["stages"]}
    assert shas == {"third": newer, "second": recorded, "first": recorded}
    earlier = audited(project, KEY, "--rev", recorded)
    assert earlier["value"] == pytest.approx(3)
    assert {stage["commit"]["sha"] for stage in earlier["stages"]} == {recorded}


def test_the_commits_of_a_branch_are_its_own(project):
    """Also where its clock is behind, and nothing of it is checked out."""
    recorded = project.do("git", "rev-parse", "HEAD").strip()
    project.do("git", "checkout", "-q", "-b", "other")
    project.edit("params.yaml", "factor: 5", "factor: 6")
    project.do("dvc", "repro", "-q")
    newer = project.commit("six")
    project.do("git", "checkout", "-q", "main")
    for revision in ("other", newer):
        found = audited(project, KEY, "--rev", revision)
        shas = {stage["name"]: stage["commit"]["sha"] for stage in found["stages"]}
        assert shas == {"third": newer, "second": recorded, "first": recorded}
        assert not any("no commit has this state" in line for line in found["not_known"])


def test_unreadable_parameters_are_missing(project):
    for name, text in (("params.yaml", "first: [\n"), ("dvc.yaml", "<<<<<<< HEAD\nstages:\n")):
        before = (project.folder / name).read_text()
        project.write(name, text)
        found = audited(project, KEY)
        assert states(found) == dict.fromkeys(["third", "second", "first"], "missing")
        assert any(line.startswith(f"{name} is not here or cannot be read") for line in found["not_known"])
        project.write(name, before)
    (project.folder / "params.yaml").unlink()
    assert set(states(audited(project, KEY)).values()) == {"missing"}


def test_facts_come_from_the_project_or_from_the_store(project, tmp_path):
    store = tmp_path / "store"
    project.keep_facts("third", store / "runs", host="lab-7")
    assert audited(project, KEY, store=store)["stages"][0]["run"]["host"] == "lab-7"
    assert "lab-7" in project.audit(KEY, store=store).stdout
    project.keep_facts("third", project.folder / "runs", host="here")
    found = audited(project, KEY, store=store)["stages"][0]
    assert found["run"]["host"] == "here"
    (facts,) = (project.folder / "runs").glob(f"{found['entry']}.*.json")
    facts.write_text("{ cut off")
    done = project.audit(KEY, store=store)
    assert "lab-7" in done.stdout
    assert "cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["metrics/third.json:test.r01"], "Did you mean test.r10"),
        (["metrics/thrid.json"], "Did you mean metrics/third.json"),
        ([KEY, "--rev", "nowhere"], "no commit, branch or experiment has this name"),
        ([KEY, "--rev=HEAD..HEAD"], "no commit, branch"),
        (["data/first/out.txt:x"], "is not a JSON file"),
        (["--history", "metrics/third.json"], "names no key"),
        (["--history", "metrics/third.json:test.r01"], "Did you mean test.r10"),
        (["--history", "metrics/none.json:test.r10"], "git ls-files metrics"),
        (["--history", "my\nmetrics.json:test.r10"], "git ls-files metrics"),
        (["models/encoder/wieghts"], "Did you mean models/encoder/weights"),
        (["data/raw/in.txt"], "is an input of first: no stage makes it"),
        (["--verify", "secnd"], "Did you mean second"),
    ],
)
def test_audit_of_an_unknown_name_is_one_message(ran, arguments, said):
    done = ran.audit(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [[], [KEY, "--history", KEY], ["--verify", "x", "--all"], [KEY, "--full", "--json"]],
)
def test_options_that_do_not_go_together_are_refused(ran, arguments):
    done = ran.audit(*arguments)
    assert done.returncode == 2


def test_audit_with_a_conflicting_or_absent_lock_says_so(project):
    project.edit("dvc.lock", "stages:\n", "<<<<<<< HEAD\nstages:\n=======\nstages:\n>>>>>>> b\n")
    done = project.audit(KEY)
    assert done.returncode == 1
    assert "unresolved merge conflict" in done.stderr
    assert "--theirs" in done.stderr
    (project.folder / "dvc.lock").unlink()
    done = project.audit(KEY)
    assert done.returncode == 1
    assert "nothing was run here yet" in done.stderr


def test_the_text_names_commands_parameters_code_and_hashes(ran):
    text = ran.audit(KEY, "--full").stdout
    for part in ("= 3.0", "python -m stages.second", "second.factor = 0.1", "stages/helper.py", "from first", "one.py"):
        assert part in text
    brief = ran.audit(KEY).stdout
    assert len(brief.splitlines()) < 16


def test_without_full_numbers_are_rounded_and_what_has_changed_is_named(project):
    project.edit("params.yaml", "factor: 5", "factor: 5.1234567")
    project.do("dvc", "repro", "-q")
    assert f"{KEY} = 3.07407\n" in project.audit(KEY).stdout
    assert f"{KEY} = 3.0740740" in project.audit(KEY, "--full").stdout
    said = project.audit("--diff", "HEAD", "workspace").stdout
    assert "numbers that differ\n  metrics/third.json:test.r10: 3.0 -> 3.07407\n" in said
    project.edit("params.yaml", "factor: 2", "factor: 4")
    project.write("stages/helper.py", (project.folder / "stages/helper.py").read_text() + "# a remark\n")
    said = project.audit(KEY).stdout
    assert "  first: first.factor = 2  now 4; stages/helper.py\n" in said
    assert "  third: stages/helper.py\n" in said


@pytest.mark.parametrize("what", ["extra/dvc.yaml:fourth", "metrics/fourth.json:total"])
def test_an_audit_where_nothing_ran_names_the_pipeline_that_makes_the_target(project, what):
    project.add_second_pipeline()
    project.write("extra/.dvcignore", "dvc.yaml\n")
    (project.folder / "dvc.lock").unlink()
    done = project.audit(what)
    assert done.returncode == 1
    assert "nothing was run here yet" in done.stderr
    assert "`rm extra/.dvcignore && dvc repro extra/dvc.yaml`" in done.stderr


NAMES = st.text("ab.", min_size=1, max_size=4)
TREES = st.recursive(st.integers(), lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=8)


@given(st.dictionaries(NAMES, TREES, min_size=1))
def test_every_entry_has_a_name_that_leads_to_one(values):
    """Where keys have dots several entries may share a name: one of those is found."""
    entries = {}
    for path, value in leaves(values):
        entries.setdefault(".".join(path), []).append(value)
    assert set(flat(values)) == set(entries)
    for name, those in entries.items():
        found = find(values, name, "file")
        assert found in those or isinstance(found, dict)


def leaves(values):
    for key, value in values.items():
        if isinstance(value, dict):
            yield from (((key, *path), leaf) for path, leaf in leaves(value))
        else:
            yield (key,), value


def test_the_longest_key_counts():
    values = {"STS15": {"surprise.OnWN": {"pearson": 1}, "surprise": {"OnWN": {"pearson": 2}}}}
    assert find(values, "STS15.surprise.OnWN.pearson", "f") == 1
    assert find(values, "STS15.surprise", "f") == {"OnWN": {"pearson": 2}}
    assert find(values, "", "f") is values
    assert find({"a.b": {"x": 1}, "a": {"b": {"c": 2}}}, "a.b.c", "f") == 2  # where the longest leads nowhere
