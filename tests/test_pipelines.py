"""Several pipelines in one repository: each is run by itself, and all are traced, checked and described together."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

import pytest
from tiny_project import tiny_project

from pipeline import pipelines, systems
from pipeline.cli import main
from pipeline.doctor.findings import Check, good
from pipeline.doctor.project import checks
from pipeline.experiments.baseline import find_baseline
from pipeline.experiments.grid import Trial
from pipeline.lineage.lock import lock_here
from pipeline.params import params_file
from sightword.errors import ParamsError, SweepError
from sightword.settings import Settings

KEY = "metrics/fourth.json:total"
FOURTH, FACTOR = "extra/dvc.yaml:fourth", "extra/params.yaml:fourth.factor"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A project of two pipelines: three stages and one, each run once."""
    project = tiny_project(tmp_path_factory).copy(tmp_path_factory.mktemp("both") / "project")
    project.add_second_pipeline()
    project.do("dvc", "repro", "-q")
    assert not (project.folder / "extra/dvc.lock").exists()  # the first pipeline only
    project.do("dvc", "repro", "-q", "extra/dvc.yaml")
    project.commit("two pipelines")
    return project


@pytest.fixture
def changed(both, tmp_path):
    """A copy of one's own."""
    return both.copy(tmp_path / "project")


def test_a_run_of_the_second_runs_what_it_needs_of_the_first(changed):
    changed.edit("params.yaml", "factor: 5", "factor: 6")
    changed.do("dvc", "repro", "-q")
    assert json.loads((changed.folder / "metrics/fourth.json").read_text())["total"] == pytest.approx(3 * 7)
    changed.edit("params.yaml", "factor: 6", "factor: 10")
    changed.do("dvc", "repro", "-q", "extra/dvc.yaml")
    assert json.loads((changed.folder / "metrics/fourth.json").read_text())["total"] == pytest.approx(6 * 7)
    assert [stage["state"] for stage in changed.audited(KEY)["stages"]] == ["ok"] * 4


def test_an_audit_of_the_second_goes_back_through_the_first(both, tmp_path):
    found = both.audited(KEY)
    assert [stage["name"] for stage in found["stages"]] == [FOURTH, "third", "second", "first"]
    assert (found["state"], found["value"]) == ("ok", pytest.approx(21))
    assert {stage["record"]["verdict"] for stage in found["stages"]} == {"never seen to run"}
    fourth = found["stages"][0]
    assert fourth["params"] == {FACTOR: 7, "extra/params.yaml:fourth.reads": "models/encoder"}
    assert {dep["path"]: dep.get("stage") for dep in fourth["deps"]}["models/encoder"] == "second"


def test_audit_past_a_stage_that_fails_to_load_tells_its_error(both, monkeypatch, capsys):
    def broken(_: str) -> None:
        raise NameError("name 'losses' is not defined")

    monkeypatch.setattr(systems.importlib, "import_module", broken)
    monkeypatch.chdir(both.folder)
    assert main(["audit", KEY]) == 0
    told = "published parameters of second: its code cannot be imported (name 'losses' is not defined)"
    assert told in " ".join(capsys.readouterr().out.split())


def test_what_changed_in_the_second_is_reported(changed):
    changed.edit("extra/params.yaml", "factor: 7", "factor: 8")
    changed.edit("extra/dvc.yaml", "cmd: python -m", "cmd: python -B -m")
    fourth, *first = changed.audited(KEY)["stages"]
    assert fourth["changed_params"] == {FACTOR: [7, 8]}
    assert fourth["reasons"] == ["dvc.yaml has another command now: python -B -m stages.fourth"]
    assert [stage["state"] for stage in first] == ["ok"] * 3
    changed.write("extra/dvc.yaml", "stages: [")
    assert "extra/dvc.yaml is not here or cannot be read" in " ".join(changed.audited(KEY)["not_known"])


def test_history_and_differences_go_over_both(changed):
    changed.edit("params.yaml", "factor: 5", "factor: 10")
    changed.do("dvc", "repro", "-q", "extra/dvc.yaml")
    changed.commit("more")
    changed.edit("extra/params.yaml", "factor: 7", "factor: 8")
    changed.do("dvc", "repro", "-q", "extra/dvc.yaml")
    changed.commit("still more")
    points = changed.audited("--history", KEY)["points"]
    assert [point["value"] for point in points] == [pytest.approx(value) for value in (21, 42, 48)]
    assert [point["params"] for point in points[1:]] == [{"third.factor": [5, 10]}, {FACTOR: [7, 8]}]
    found = changed.audited("--diff", "HEAD~2", "HEAD", KEY)
    assert [stage["name"] for stage in found["stages"]] == ["third", FOURTH]
    assert changed.audited(found["stages"][1]["outs"][0], "--rev", "HEAD~1")["stage"] == FOURTH


def test_the_doctor_checks_both_locks(changed):
    said = changed.do("sightword", "doctor", "--lock")
    assert "the commands of all 4 stages" in said
    changed.edit("extra/params.yaml", "factor: 7", "factor: 8")
    changed.edit("stages/fourth.py", "import json", "import json  # a remark\nimport json")
    done = changed.run("sightword", "doctor", "--lock")
    assert done.returncode == 1
    assert f"{FOURTH}: parameters: {FACTOR} is 8, in dvc.lock 7" in done.stdout
    assert f"{FOURTH}: code: stages/fourth.py is modified" in done.stdout


class First(Settings):
    """The section of a stage ``first``."""

    size: int = 1


class Other(Settings):
    """The section of a stage ``other``."""

    depth: int = 2


@pytest.fixture
def described(tmp_path, monkeypatch):
    """A project of two pipelines that were not run, with a recipe for each, and the user in the second."""
    for name, settings in (("first", First), ("more.other", Other)):
        monkeypatch.setitem(sys.modules, f"stages.{name}", SimpleNamespace(SETTINGS=settings))
    files = {
        "dvc.yaml": "stages:\n  first: {cmd: python -m stages first}\n",
        "params.yaml": "first: {size: 3}\n",
        "more/dvc.yaml": "stages:\n  other: {cmd: python -m stages more other, wdir: ..}\n",
        "more/params.yaml": "other: {depth: 4}\n",
        "recipes/small.yaml": "# Small.\nfirst: {size: 1}\n",
        "recipes/deep.yaml": "# Deep.\nother: {depth: 99}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".dvc").mkdir()
    monkeypatch.chdir(tmp_path / "more")
    return tmp_path


def test_the_parameters_of_each_pipeline_are_checked_by_its_own_stages(described, capsys):
    assert main(["params", "--check"]) == 0
    assert (
        capsys.readouterr().out == "../params.yaml: all 1 sections are right\nparams.yaml: all 1 sections are right\n"
    )
    (described / "more/params.yaml").write_text("other: {depth: many}\nfirst: {size: 1}\n")
    assert main(["params", "--check"]) == 1
    message = capsys.readouterr().err
    assert "first: no such section; accepted: other" in message
    assert "other.depth = 'many'" in message


def test_a_recipe_is_written_to_the_pipeline_whose_stages_are_its_sections(described, capsys):
    assert main(["params", "--recipe", "deep", "--force"]) == 0
    assert params_file.load(described / "more/params.yaml")["other"] == Other(depth=99)
    assert "Next: dvc repro more/dvc.yaml" in capsys.readouterr().out
    assert main(["params", "--recipe", "small", "--force"]) == 0
    assert params_file.load(described / "params.yaml")["first"] == First(size=1)


def test_two_pipelines_with_one_stage_name_are_told_apart_by_the_file(described, monkeypatch):
    monkeypatch.setitem(sys.modules, "stages.more.first", SimpleNamespace(SETTINGS=Other))
    (described / "more/dvc.yaml").write_text("stages:\n  first: {cmd: y, wdir: ..}\n")
    (described / "more/params.yaml").write_text("first: {depth: 5}\n")
    assert main(["params", "--check"]) == 0
    for folder, command in (("", "x"), ("more", "y")):
        lock = f"schema: '2.0'\nstages:\n  first:\n    cmd: {command}\n"
        (described / folder / "dvc.lock").write_text(lock)
    assert {name: entry.command for name, entry in lock_here(described).entries.items()} == {
        "first": "x",
        "more/dvc.yaml:first": "y",
    }
    assert {name: one["cmd"] for name, one in pipelines.by_entry(described).items()} == {
        "first": "python -m stages first",
        "more/dvc.yaml:first": "y",
    }
    assert params_file.load(described / "params.yaml")["first"] == First(size=3)
    assert params_file.load(described / "more/params.yaml")["first"] == Other(depth=5)


def test_a_system_declares_its_checks_its_seed_and_the_rules_between_its_sections(described, monkeypatch, capsys):
    def conflicts(values):
        return [f"other.depth = {values['other']['depth']}: too deep"] * (values["other"]["depth"] > 9)

    toy = SimpleNamespace(SEED="other.depth", CHECKS=(Check("toy", lambda _: [good("here")]),), conflicts=conflicts)
    monkeypatch.setitem(sys.modules, "stages.more.system", toy)
    monkeypatch.setitem(sys.modules, "stages.system", SimpleNamespace())
    assert [check.name for check in checks(described) if check in toy.CHECKS] == ["toy"]
    assert systems.declared(pipelines.Pipeline(described, "more"), "SEED", None) == "other.depth"
    assert systems.declared(pipelines.Pipeline(described, "nowhere"), "SEED", None) is None
    assert main(["params", "--check"]) == 0
    (described / "more/params.yaml").write_text("other: {depth: 10}\n")
    assert main(["params", "--check"]) == 1
    assert "other.depth = 10: too deep" in capsys.readouterr().err


def test_another_project_in_a_folder_is_not_a_pipeline(described):
    (described / "more/.dvc").mkdir()
    assert list(pipelines.by_stage(described)) == ["first"]
    assert pipelines.find_project(described / "more") == described / "more"


def test_a_stage_without_a_module_is_one_message(described):
    (described / "more/dvc.yaml").write_text("stages:\n  nowhere: {cmd: x, wdir: ..}\n")
    (described / "more/params.yaml").write_text("nowhere: {}\n")
    with pytest.raises(
        ParamsError, match=r"nowhere: more/dvc\.yaml has this stage, and there is no stages/more/nowhere\.py"
    ):
        params_file.load(described / "more/params.yaml")


class Fourth(Settings):
    """The section of the stage ``fourth``."""

    factor: int = 1
    reads: str = "x"


@pytest.mark.slow
def test_a_sweep_varies_the_second_pipeline(changed, monkeypatch, capsys):
    for name, value in changed.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "stages.extra.fourth", SimpleNamespace(SETTINGS=Fourth))
    changed.write(".dvc/tmp/grid.yaml", "name: wide\nblocks: [{fourth.factor: [2, 3]}]\n")
    monkeypatch.chdir(changed.folder)
    assert main(["sweep", ".dvc/tmp/grid.yaml", "--slots", "1", "--metric", "total"]) == 0, capsys.readouterr().err
    values = {name: changed.audited(KEY, "--rev", name)["value"] for name in ("wide-factor2", "wide-factor3")}
    assert values == {"wide-factor2": pytest.approx(6), "wide-factor3": pytest.approx(9)}
    assert "factor" in capsys.readouterr().out


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A project whose second pipeline was never run, and an experiment and a remote of the first."""
    project = tiny_project(tmp_path_factory).copy(tmp_path_factory.mktemp("fresh") / "project")
    project.add_second_pipeline()
    project.write("extra/.dvcignore", "dvc.yaml\n")
    project.do("dvc", "remote", "add", "-q", "-d", "lab", str(project.folder.parent / "remote"))
    project.do("git", "init", "-q", "--bare", "../origin.git")
    project.do("git", "remote", "add", "origin", "../origin.git")
    project.commit("a second pipeline")
    project.do("git", "push", "-q", "origin", "main")
    project.do("dvc", "exp", "run", "-q", "-n", "more", "-S", "third.factor=6")
    project.do("git", "checkout", "-q", ".")
    return project


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "dvc checkout", "dvc exp apply more", "dvc repro", "dvc push --run-cache", "dvc fetch", "dvc pull",
        "dvc status --cloud", "dvc plots show", "dvc exp push origin more", "dvc gc --workspace --dry --force",
        "sightword doctor --lock",
    ],
)  # fmt: skip
def test_a_pipeline_that_never_ran_is_in_no_command_of_dvc(fresh, command):
    done = fresh.run(*command.split())
    assert done.returncode == 0, done.stderr
    said = (done.stdout + done.stderr).replace("; not run yet: extra", "")
    assert not re.search("fourth|extra|ERROR|failed to load", said)


def test_a_result_of_a_pipeline_that_never_ran_is_told_with_the_command_that_makes_it(fresh):
    for what in (KEY, FOURTH, "data/fourth/text"):
        done = fresh.run("sightword", "audit", what)
        assert done.returncode == 1
        assert f"{FOURTH} has not run: `rm extra/.dvcignore && dvc repro extra/dvc.yaml`." in done.stderr


def test_a_sweep_of_a_hidden_pipeline_is_refused(fresh):
    runs = [Trial("wide", {}, {"fourth": {"factor": 2, "reads": "models/encoder"}})]
    with pytest.raises(
        SweepError, match=r"extra/\.dvcignore: hides the pipeline from DVC\. `git rm extra/\.dvcignore`"
    ):
        find_baseline(pipelines.Pipeline(fresh.folder, "extra")).check(runs)


@pytest.mark.slow
def test_the_first_run_of_a_hidden_pipeline_brings_its_lock(fresh, tmp_path):
    project = fresh.copy(tmp_path / "project")
    project.do("git", "checkout", "-q", ".")
    project.do("dvc", "checkout", "-q")
    project.do("sh", "-c", pipelines.Pipeline(project.folder, "extra").command)
    made = {name: (project.folder / name).read_text() for name in ("data/fourth/text", "metrics/fourth.json")}
    project.do("dvc", "exp", "run", "-q", "-n", "others", "-S", "third.factor=7")  # before anything is committed
    project.do("git", "checkout", "-q", "params.yaml", "dvc.lock", "metrics")
    project.do("dvc", "exp", "apply", "others")
    assert (project.folder / "data/fourth/text").read_text() == made["data/fourth/text"]
    for back, kept in (("dvc checkout dvc.yaml", True), ("dvc checkout", False)):
        project.do("git", "checkout", "-q", ".")  # the hiding file too
        project.do(*back.split())
        assert [(project.folder / name).exists() for name in made] == [kept, True]
        if not kept:
            (project.folder / "metrics/fourth.json").unlink()  # DVC removes the file where it wrote it last
        told = project.run("sightword", "doctor", "--lock")
        assert told.returncode == 1
        assert "extra/.dvcignore hides from DVC a pipeline that has run: extra/dvc.lock is there" in told.stdout
        assert "belongs to" not in told.stdout
        project.do("sh", "-c", re.search("-> `(rm .*?)`", told.stdout)[1])
        assert {name: (project.folder / name).read_text() for name in made} == made
        assert "up to date" in project.do("dvc", "status", "extra/dvc.yaml")
    project.do("sh", "-c", f"{re.search('`(git add .*?)`', told.stdout)[1]} -qm both")
    assert project.do("git", "status", "--porcelain") == ""
    assert "the commands of all 4 stages\n" in project.do("sightword", "doctor", "--lock")
    assert "up to date" in project.do("dvc", "status")


@pytest.mark.parametrize("committed", [False, True])
def test_a_visible_pipeline_without_a_lock_has_a_warning_with_the_command_that_hides_it(fresh, tmp_path, committed):
    project = fresh.copy(tmp_path / "project")
    (project.folder / "extra/.dvcignore").unlink()
    if committed:
        project.commit("without the lock")

    def told():
        found = json.loads(project.run("sightword", "doctor", "--lock", "--json").stdout)
        return [
            (one["state"], one["todo"]) for one in found if one["what"].startswith("extra/dvc.yaml has no dvc.lock")
        ]

    ((state, todo),) = told()
    assert state == "warning"
    assert project.run("dvc", "checkout").returncode != 0
    run, hide = re.findall("`(.*?)`", todo)
    project.do("sh", "-c", hide)
    project.do("dvc", "checkout")
    assert told() == []
    assert run == "dvc repro extra/dvc.yaml"
