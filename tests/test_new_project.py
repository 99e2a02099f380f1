"""Projects that `sightword init` makes, and their lists of the code of the installed program."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from stage_here import run_here

from pipeline import new_project
from pipeline.cli import main
from pipeline.lineage import code_lists
from pipeline.lineage.facts import listed
from pipeline.lineage.lock import is_code
from pipeline.params import params_file
from pipeline.pipelines import by_entry, find_project, pipelines
from sightword.errors import SetupError
from sightword.evaluation.semantics.datasets import missing_file


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    return subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A", ".")
    git(folder, "commit", "-qm", "state")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A new project, all of it committed."""
    folder = new_project.create(tmp_path_factory.mktemp("made") / "below" / "demo")[0]
    commit(folder)
    return folder


FURTHER = ("entailment", "grounded", "hypernyms")
CHANGED = "sightword/captions/units.py"


@pytest.fixture
def project(made, tmp_path, monkeypatch) -> Path:
    shutil.copytree(made, tmp_path / "demo", symlinks=True)
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


def lists(folder: Path) -> dict[str, dict[str, str]]:
    """The hashes of each list that the stages of a project name, by path."""
    named = (path for stage in by_entry(folder).values() for path, _ in listed(stage, ("deps",)) if is_code(path))
    return {path: code_lists.read(folder, path) for path in named}


def test_a_project_has_the_first_pipeline_and_few_files(made, repository):
    assert find_project(made / "data") == made
    assert [one.folder for one in pipelines(made)] == [""]
    assert (made / "params.yaml").read_bytes() == (repository / "params.yaml").read_bytes()
    assert params_file.load(made / "params.yaml")
    assert (made / ".dvc/plots/intervals.json").is_file()
    assert not (made / "dvc.lock").exists()
    names = git(made, "ls-files").splitlines()
    assert len(names) < 40
    assert not [name for name in names if set(name.split("/")[:-1]) & {*FURTHER, "sightword", "stages", "recipes"}]


def test_lists_have_all_files_that_the_repositorys_stages_name(project, repository):
    for number, name in enumerate(FURTHER):
        assert main(["init", "--add", name]) == 0
        assert [one.folder for one in pipelines(project)] == ["", *FURTHER[: number + 1]]
        assert (project / name / "params.yaml").read_bytes() == (repository / name / "params.yaml").read_bytes()
        assert (project / f"metrics/{name}/scorings.csv").is_file()
    assert [one.hidden for one in pipelines(project)] == [False, True, True, True]
    theirs, found = by_entry(repository), lists(project)
    for name, stage in by_entry(project).items():
        rooms = [path for path, _ in listed(theirs[name], ("deps",)) if is_code(path)]
        (path,) = (path for path, _ in listed(stage, ("deps",)) if is_code(path))
        tracked = git(repository, "ls-files", "-co", "--exclude-standard", "--", *rooms).splitlines()
        wanted = {file: hashlib.sha256((repository / file).read_bytes()).hexdigest() for file in tracked}
        assert found[path] == wanted, name
        kept = [dep for dep in theirs[name]["deps"] if dep not in rooms]
        assert stage == {**theirs[name], "deps": [*kept, path]}
    assert not code_lists.outdated(project)


def test_recipes_and_grids_of_the_program_are_known_in_a_project(project, capsys):
    assert main(["params", "--list"]) == 0
    assert "\n  flickr8k  " in (shown := capsys.readouterr().out)
    assert "\n  vendrov  " in shown
    assert main(["params", "--recipe", "flickr8k"]) == 0
    assert "flickr8k" in (project / "params.yaml").read_text()
    assert main(["params", "--recipe", "vendrov"]) == 1
    said = "does not have the pipeline hypernyms. `sightword init --add hypernyms` adds it"
    assert said in capsys.readouterr().err
    assert main(["sweep", "grid-samples"]) == 1
    assert "no such grid (did you mean 'grid-sample'?)\n" in capsys.readouterr().err
    (project / "recipes").mkdir()
    (project / "recipes/mine.yaml").write_text("base: flickr8k\ntrain: {seed: 3}\n")
    assert main(["params", "--recipe", "mine"]) == 0
    assert "seed: 3" in (project / "params.yaml").read_text()


def test_a_pipeline_that_is_there_or_unknown_is_not_added(project, capsys):
    assert main(["init", "--add", "hypernyms"]) == 0
    commit(project)
    assert main(["init", "--add", "hypernyms"]) == 1
    assert "the project has it already" in capsys.readouterr().err
    assert main(["init", "--add", "hypernym"]) == 1
    assert "there is no such pipeline (did you mean 'hypernyms'?)" in capsys.readouterr().err
    assert git(project, "status", "--porcelain") == ""


@pytest.mark.parametrize("broken", ["data/raw/hypernyms/README.md", "code/hypernyms/train.sha256"])
def test_a_pipeline_that_cannot_be_added_leaves_no_file(project, capsys, monkeypatch, broken):
    if broken.endswith(".md"):
        (project / broken).parent.mkdir()
        (project / broken).write_text("the user's own\n")
        expected = f"the pipeline would replace other files: {broken}"
    else:
        real, expected = new_project.atomic_file, "no space"

        def stop(path):
            if str(path).endswith(broken):
                raise SetupError(expected)
            return real(path)

        monkeypatch.setattr(new_project, "atomic_file", stop)
    before = git(project, "status", "--porcelain")
    assert main(["init", "--add", "hypernyms"]) == 1
    assert expected in capsys.readouterr().err
    assert git(project, "status", "--porcelain") == before


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
        assert [line for line in bad if "settings:" not in line] == []


def test_the_next_step_is_printed_and_results_stay_out_of_git(tmp_path, monkeypatch, capsys, made):
    monkeypatch.setattr(new_project, "create", lambda folder, source, columns: (tmp_path / folder, []))
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
def test_in_a_git_repository_a_project_is_a_folder_of_it(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "demo" / ".venv").mkdir(parents=True)
    folder, _ = new_project.create(tmp_path / "demo")
    assert not (folder / ".git").exists()
    assert "code/train.sha256" in git(folder, "ls-files", "-co", "--exclude-standard").splitlines()
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

    for number, error in ((3, OSError), (20, KeyboardInterrupt)):
        written = []
        real = new_project.atomic_file

        def stop(path, written=written, number=number, error=error, real=real):
            written.append(path)
            if len(written) == number:
                raise error
            return real(path)

        monkeypatch.setattr(new_project, "atomic_file", stop)
        for folder in ("new/below", "held"):
            written.clear()
            with pytest.raises(error):
                new_project.create(tmp_path / folder)
        monkeypatch.setattr(new_project, "atomic_file", real)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == ["held", "held/.venv"]


def test_a_project_on_a_folder_of_ones_own_has_a_link_to_it_and_its_parameters(tmp_path, monkeypatch, capsys):
    photos = tmp_path / "photos"
    (photos / "images").mkdir(parents=True)
    rows = [f"{number}.jpg,Picture {number} .,{split}" for number, split in enumerate(("train", "dev", "test"))]
    for number in range(3):
        (photos / f"images/{number}.jpg").write_bytes(b"picture")
    (photos / "captions.csv").write_text("\n".join(["image,caption,split", *rows, ""]))
    (photos / "notes.csv").write_text("a,b\n1,2\n")
    git(tmp_path, "init", "-q")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo", "--from", "photos/captions.csv"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 pictures (1 train, 1 dev, 1 test), 3 captions.\n")
    assert f"demo is now a project, on data/raw/own, a link to {Path('photos').resolve()};" in said
    assert "Columns of captions.csv: captions = caption; image = image; split = split.\n" in said
    assert said.endswith("&& dvc repro\n")
    corpus = params_file.load(Path("demo/params.yaml"))["corpus"].model_dump()
    wanted = {"path": "data/raw/own", "pictures": "data/raw/own/images", "file": "captions.csv"}
    assert {key: corpus[key] for key in wanted} == wanted
    assert Path("demo/data/raw/own").resolve() == photos
    assert "data/raw/own" in git(tmp_path / "demo", "ls-files").splitlines()
    assert missing_file("STSBenchmark", Path("demo/data/raw/senteval"))  # the folder is there, without pairs

    for source, what in (
        ("photos", f"sightword: {photos}: must have one table, or tables named by splits, but has captions.csv"),
        ("nowhere", r"nowhere: does not exist; expected a folder with pictures and captions\n$"),
        ("s3://bucket/photos", "lists a bucket; put the list into the folder of captions"),
        (".", f"{tmp_path}: holds the new project"),
        (
            "photos/notes.csv",
            r"no column image .*such as \{image: a\}\. Here --column ROLE=NAME sets corpus\.columns\.",
        ),
    ):
        assert main(["init", "other", "--from", source]) == 1
        assert re.search(what, capsys.readouterr().err)
        assert "other" not in git(tmp_path, "status", "--short")
    (photos / "notes.csv").write_text("pic,alt text,split\n" + "\n".join(rows))
    named = ["init", "other", "--from", "photos/notes.csv", "--column", "image=pic"]
    assert main([*named, "--column", "captions=alt text"]) == 1
    assert "--column captions=alt text: names no column; expected ROLE=NAME" in capsys.readouterr().err
    assert not Path("other").exists()
    assert main([*named, "--column", "caption=alt text"]) == 0
    found = params_file.load(Path("other/params.yaml"))["corpus"].model_dump()
    assert found["columns"] == {"image": "pic", "caption": "alt text"}
    with pytest.raises(SystemExit):
        main(["init", "third", "--column", "caption=alt text"])
    assert "--column goes with --from" in capsys.readouterr().err
    assert len(list(photos.rglob("*"))) == 6


@pytest.fixture
def newer(monkeypatch) -> None:
    """Let the installed program have another sightword/captions/units.py than the lists."""
    real = code_lists.installed

    def other(path: str) -> dict[str, str]:
        found = real(path)
        return found | ({CHANGED: "0" * 64} if CHANGED in found else {})

    monkeypatch.setattr(code_lists, "installed", other)


def test_another_program_is_refused_by_its_stages_until_the_project_is_renewed(project, repository, newer, capsys):
    refused = run_here(repository, project, "captions")
    assert refused.returncode == 1
    assert "code/captions.sha256: the installed sightword" in refused.stderr
    assert f"has other code than this list: {CHANGED}. `sightword init --renew` takes over" in refused.stderr
    assert CHANGED not in run_here(repository, project, "resize").stderr  # its list lacks the file
    main(["doctor", "--quick"])
    assert f"the installed sightword has other code than the lists in code/: {CHANGED}" in capsys.readouterr().out
    assert main(["init", "--renew"]) == 0
    assert " changed; `git diff` shows them)" in capsys.readouterr().out
    changed = {line[3:] for line in git(project, "status", "--porcelain").splitlines()}
    assert changed == {path for path, found in lists(project).items() if CHANGED in found}
    assert "code/captions.sha256" in changed
    assert "code/resize.sha256" not in changed
    assert "other code" not in run_here(repository, project, "captions").stderr
    assert main(["init", "--renew"]) == 0
    assert "was already of sightword" in capsys.readouterr().out


def test_a_renewal_follows_the_program_and_leaves_the_users_files(project, capsys):
    main(["init", "--add", "hypernyms"])
    (project / "hypernyms/.dvcignore").unlink()  # this pipeline runs here
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("margin: 0.2", "margin: 0.3"))
    (project / "data/raw/sample/scenes.yaml").write_text("# mine\n")
    (project / "dvc.yaml").write_text("# of an older version\n" + (project / "dvc.yaml").read_text())
    (project / "code/gone.sha256").write_text("# of a stage that is gone\n")
    (project / "code/hypernyms/train.sha256").unlink()
    commit(project)
    assert main(["init", "--renew"]) == 0
    assert "(files: 1 new, 1 changed, 1 deleted; `git diff` shows them)" in capsys.readouterr().out
    changed = sorted(line[3:] for line in git(project, "status", "--porcelain", "-uall").splitlines())
    assert changed == ["code/gone.sha256", "code/hypernyms/train.sha256", "dvc.yaml"]


def test_a_renewal_replaces_nothing_that_git_does_not_have(project, repository, capsys):
    (project / "dvc.yaml").write_text((project / "dvc.yaml").read_text() + "# mine\n")
    assert main(["init", "--renew"]) == 1
    assert "has edits that would be lost: dvc.yaml. Commit first" in capsys.readouterr().err
    assert (project / "dvc.yaml").read_text().endswith("# mine\n")
    with pytest.raises(SetupError, match="was not made by `sightword init`"):
        new_project.renew(repository)
