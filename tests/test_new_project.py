"""Projects that `sightword init` makes, and the code that they take over from the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import new_project
from pipeline.cli import main
from pipeline.lineage.facts import listed
from pipeline.lineage.lock import is_code
from pipeline.params import params_file, recipes
from pipeline.pipelines import by_entry, find_project, pipelines
from sightword.errors import SetupError


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    return subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A", ".")
    git(folder, "commit", "-qm", "state")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A new project, all of it committed."""
    folder = new_project.create(tmp_path_factory.mktemp("made") / "below" / "demo")
    commit(folder)
    return folder


FURTHER = ("entailment", "grounded", "hypernyms")


@pytest.fixture
def project(made, tmp_path, monkeypatch) -> Path:
    shutil.copytree(made, tmp_path / "demo", symlinks=True)
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


def test_a_project_has_the_first_pipeline_with_the_parameters_of_the_sample(made, repository):
    assert find_project(made / "data") == made
    assert [one.folder for one in pipelines(made)] == [""]
    assert (made / "params.yaml").read_bytes() == (repository / "params.yaml").read_bytes()
    assert params_file.load(made / "params.yaml")
    assert (made / ".dvc/plots/intervals.json").is_file()
    assert not (made / "dvc.lock").exists()
    names = git(made, "ls-files").splitlines()
    assert not [name for name in names if set(name.split("/")[:-1]) & set(FURTHER)]
    bases = {recipe.name for recipe in recipes.list_recipes(made)}
    assert {"sample", "own", "flickr8k"} <= bases
    assert not bases & {"vendrov", "bordes", "snli-small", "hypernyms-sample"}


def test_a_project_with_all_pipelines_has_all_code_that_stages_name_and_no_more_than_git_has(project, repository):
    for number, name in enumerate(FURTHER):
        assert main(["init", "--add", name]) == 0
        assert [one.folder for one in pipelines(project)] == ["", *FURTHER[: number + 1]]
        assert (project / name / "params.yaml").read_bytes() == (repository / name / "params.yaml").read_bytes()
        assert (project / f"metrics/{name}/scorings.csv").is_file()
    assert [one.hidden for one in pipelines(project)] == [False, True, True, True]
    code = {path for stage in by_entry(project).values() for path, _ in listed(stage, ("deps",)) if is_code(path)}
    assert len(code) > 40
    assert not [path for path in code if not (project / path).exists()]
    packages = ("sightword", "pipeline", "stages", "recipes")
    wanted = set(git(repository, "ls-files", "-co", "--exclude-standard", *packages).splitlines())
    commit(project)
    found = set(git(project, "ls-files", *packages).splitlines())
    assert found == {one for one in wanted if (repository / one).is_file()}
    assert new_project.differences(project) == ([], [], [])


def test_a_pipeline_that_is_there_or_unknown_is_not_added(project, capsys):
    assert main(["init", "--add", "hypernyms"]) == 0
    commit(project)
    assert main(["init", "--add", "hypernyms"]) == 1
    assert "the project has it already" in capsys.readouterr().err
    assert main(["init", "--add", "hypernym"]) == 1
    assert "there is no such pipeline (did you mean 'hypernyms'?)" in capsys.readouterr().err
    assert git(project, "status", "--porcelain") == ""


def test_the_program_that_lies_elsewhere_adds_a_pipeline_and_makes_projects_within_a_project(project):
    code = "import sys; from pipeline.cli import main; sys.exit(main(sys.argv[1:]))"
    for words in (["init", "--add", "hypernyms"], ["init", "other"], ["recipe", "--list"]):
        done = subprocess.run([sys.executable, "-I", "-c", code, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (project / "hypernyms/dvc.yaml").is_file()
    assert (project / "other/dvc.yaml").is_file()
    assert "vendrov" in done.stdout


@pytest.mark.parametrize("broken", ["recipes/vendrov.yaml", "stages/hypernyms/train.py"])
def test_a_pipeline_that_cannot_be_added_leaves_no_file(project, capsys, monkeypatch, broken):
    if broken.endswith(".yaml"):
        (project / broken).write_text("train: {}  # the user's own\n")
        expected = f"the pipeline would replace other files: {broken}"
    else:
        real, expected = new_project.shutil.copyfile, "no space"

        def stop(source, target):
            if str(target).endswith(broken):
                raise SetupError(expected)
            real(source, target)

        monkeypatch.setattr(new_project.shutil, "copyfile", stop)
    before = git(project, "status", "--porcelain")
    assert main(["init", "--add", "hypernyms"]) == 1
    assert expected in capsys.readouterr().err
    assert git(project, "status", "--porcelain") == before


def test_code_that_the_first_pipelines_stages_name_is_in_a_new_project(made):
    code = {path for stage in by_entry(made).values() for path, _ in listed(stage, ("deps",)) if is_code(path)}
    assert len(code) > 20
    assert not [path for path in code if not (made / path).exists()]
    assert new_project.differences(made) == ([], [], [])


@pytest.mark.parametrize("named", [True, False])
def test_a_new_repository_gets_its_first_commit_where_git_knows_the_user(tmp_path, monkeypatch, capsys, named):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    identity = "[user]\n\tname = Ada\n\temail = ada@example.org\n" if named else "[user]\n\tuseConfigOnly = true\n"
    (tmp_path / "config").write_text(identity)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == 0
    commits = "" if named else 'git add -A . && git commit -m "A new project" && '
    assert capsys.readouterr().out.endswith(f"Next: cd demo && {commits}dvc repro\n")
    monkeypatch.chdir("demo")
    if named:
        assert git(tmp_path / "demo", "status", "--porcelain", "--untracked-files=all") == ""
        assert not new_project.first_commit(tmp_path / "demo")
        main(["doctor", "--quick"])
        bad = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("warning", "PROBLEM"))]
        assert [line for line in bad if "settings:" not in line] == [
            "warning  files:     there is no dvc.lock: nothing has run here yet"
        ]


def test_the_next_step_is_printed_and_results_stay_out_of_git(tmp_path, monkeypatch, capsys, made):
    monkeypatch.setattr(new_project, "create", lambda folder: tmp_path / folder)
    monkeypatch.setattr(new_project, "first_commit", lambda folder: True)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == 0
    assert capsys.readouterr().out.endswith("Next: cd demo && dvc repro\n")
    assert main(["init", "."]) == 0
    assert capsys.readouterr().out.endswith("Next: dvc repro\n")
    for stage in by_entry(made).values():
        for path, options in listed(stage, ("outs",)):
            if (options or {}).get("cache", True):
                assert git(made, "check-ignore", path), path


@pytest.mark.slow
def test_a_folder_that_git_ignores_is_refused_with_the_reason_of_dvc(tmp_path, monkeypatch, capsys):
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("demo/\n")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == 1
    assert ".gitignore" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_in_a_git_repository_a_project_is_a_folder_of_it(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "demo" / ".venv").mkdir(parents=True)
    folder = new_project.create(tmp_path / "demo")
    assert not (folder / ".git").exists()
    assert "sightword/io/files.py" in git(folder, "ls-files", "-co", "--exclude-standard").splitlines()
    assert new_project.run_dvc("stage", "list", "--name-only", folder=folder).startswith("corpus")


def test_a_folder_with_files_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("all of it")
    (tmp_path / "file").write_text("x")
    for name, what in (("full", "is not empty (thesis.txt)"), ("file", "is a file"), ("file/below", "Not a directory")):
        assert main(["init", name]) == 1
        message = capsys.readouterr().err
        assert what in message
        assert message.count("\n") == 1
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    with pytest.raises(SystemExit) as stopped:
        main(["init"])
    assert stopped.value.code == 2


def test_an_error_on_the_way_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "held" / ".venv").mkdir(parents=True)

    for number, error in ((3, OSError), (300, KeyboardInterrupt)):
        copied = []
        real = shutil.copyfile

        def stop(source, target, copied=copied, number=number, error=error, real=real):
            copied.append(target)
            if len(copied) == number:
                raise error
            return real(source, target)

        monkeypatch.setattr(new_project.shutil, "copyfile", stop)
        for folder in ("new/below", "held"):
            copied.clear()
            with pytest.raises(error):
                new_project.create(tmp_path / folder)
        monkeypatch.setattr(new_project.shutil, "copyfile", real)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == ["held", "held/.venv"]


def test_an_update_takes_over_the_code_and_leaves_the_parameters(project, capsys):
    assert main(["init", "--update"]) == 0
    assert "the code was already that of sightword" in capsys.readouterr().out
    before = (project / "sightword/io/files.py").read_bytes()
    (project / "sightword/io/files.py").write_text("# of an older version\n")
    (project / "sightword/older.py").write_text("# gone since\n")
    (project / "stages/mine.py").write_text("# a stage of my own\n")
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("margin: 0.2", "margin: 0.3"))
    (project / "recipes/grid.yaml").unlink()
    assert main(["init", "--add", "hypernyms"]) == 0
    (project / "hypernyms/.dvcignore").unlink()  # this pipeline runs here
    commit(project)
    assert main(["init", "--update"]) == 0
    assert "(files: 1 new, 1 changed, 1 deleted; `git diff` shows them)" in capsys.readouterr().out
    assert (project / "sightword/io/files.py").read_bytes() == before
    changed = ["recipes/grid.yaml", "sightword/io/files.py", "sightword/older.py"]
    assert sorted(line[3:] for line in git(project, "status", "--porcelain").splitlines()) == changed
    assert "margin: 0.3" in (project / "params.yaml").read_text()


def test_the_installed_program_updates_a_project_and_adds_a_pipeline_whose_stages_it_lacks(project):
    """In a process of its own ``stages`` is the project's; the modules of a pipeline that is not there are absent."""
    program = Path(sys.executable).with_name("sightword")
    for options in (["--update"], ["--add", "hypernyms"], ["--update"], ["--add", "grounded"]):
        done = subprocess.run([program, "init", *options], cwd=project, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        if options[0] == "--add":
            commit(project)
    assert [one.folder for one in pipelines(project)] == ["", "grounded", "hypernyms"]


def test_an_update_replaces_nothing_that_git_does_not_have(project, capsys):
    (project / "sightword/io/files.py").write_text("# my own work\n")
    assert main(["init", "--update"]) == 1
    assert "git does not have sightword/io/files.py as they are" in capsys.readouterr().err
    assert (project / "sightword/io/files.py").read_text() == "# my own work\n"
    with pytest.raises(SetupError, match="the running code is that of this project"):
        new_project.update(Path(__file__).parents[1])


def test_an_update_deletes_nothing_that_git_ignores_and_asks_about_replaced_files_only(project, capsys):
    (project / ".git/info/exclude").write_text("sightword/mine.py\n")
    (project / "sightword/mine.py").write_text("# my own work\n")
    (project / "sightword/io/files.py").write_text("# of an older version\n")
    (project / "sightword/io/unpacking.py").unlink()
    commit(project)
    shutil.copy(Path(__file__).parents[1] / "sightword/io/unpacking.py", project / "sightword/io")  # not committed
    assert main(["init", "--update"]) == 0
    assert "(files: 1 changed; `git diff` shows them)" in capsys.readouterr().out
    assert (project / "sightword/mine.py").read_text() == "# my own work\n"


def test_an_update_leaves_clones_and_projects_of_other_kinds_alone(project, capsys):
    for other in ("clone", "other"):
        shutil.copytree(project, project.parent / other, symlinks=True)
    (project.parent / "clone/setup.py").touch()
    shutil.rmtree(project.parent / "other/stages")
    for other in ("clone", "other"):
        (project.parent / other / "sightword/io/files.py").write_text("# theirs\n")
        commit(project.parent / other)
        assert main(["init", "--update", str(project.parent / other)]) == 1
        assert "was not made by `sightword init`" in capsys.readouterr().err
        assert git(project.parent / other, "status", "--porcelain") == ""


def test_the_doctor_tells_that_a_project_has_other_code(project, capsys):
    main(["doctor", "--quick"])
    assert "this command that of" not in capsys.readouterr().out
    (project / "stages/train.py").write_text("# my own work\n")
    main(["doctor", "--quick"])
    assert "they differ in stages/train.py" in capsys.readouterr().out
