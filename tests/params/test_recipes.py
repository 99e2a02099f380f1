"""Recipes: nothing of the user's is lost, nothing wrong is written."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pipeline.params import params_file, recipes
from sightword.errors import ParamsError

TEXT = (
    "# One.\nreport:\n  title: One\n  gallery: 12\n  thumbnail: 128\n  published: true\n"
    "  attention: 8\n  regularities: 6\n  points: 3000\n  worst: 20\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dvc.yaml").write_text("stages:\n  report:\n    cmd: python -m stages report\n")
    (tmp_path / "recipes").mkdir()
    for name in ("one", "two"):
        (tmp_path / "recipes" / f"{name}.yaml").write_text(TEXT.replace("One", name))
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    identity = {
        f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=environment)


def write(project: Path, name: str = "two", **options: bool) -> bool:
    return recipes.write(recipes.find(name, project), project / "params.yaml", project, **options)


def test_one_recipe_replaces_another(project: Path) -> None:
    assert write(project, "one")
    assert write(project, "two")
    assert not write(project, "two")


def test_edits_that_git_has_may_be_replaced(project: Path) -> None:
    (project / "params.yaml").write_text(TEXT.replace("12", "7"))
    with pytest.raises(ParamsError, match="would be lost"):
        write(project)
    git(project, "init")
    git(project, "add", "params.yaml")
    with pytest.raises(ParamsError, match="would be lost"):
        write(project)
    git(project, "commit", "-m", "my settings")
    assert write(project)


def test_edits_after_the_commit_are_kept(project: Path) -> None:
    (project / "params.yaml").write_text(TEXT)
    git(project, "init")
    git(project, "add", "params.yaml")
    git(project, "commit", "-m", "my settings")
    (project / "params.yaml").write_text(TEXT.replace("12", "7"))
    with pytest.raises(ParamsError, match="gallery: 7"):
        write(project)


def test_a_comment_of_the_users_is_an_edit(project: Path) -> None:
    (project / "params.yaml").write_text((project / "recipes/one.yaml").read_text() + "# remember: try 24\n")
    with pytest.raises(ParamsError, match="comments or layout"):
        write(project)


def test_a_file_that_is_no_yaml_is_kept(project: Path) -> None:
    (project / "params.yaml").write_text("report: [")
    with pytest.raises(ParamsError, match="is not valid YAML"):
        write(project)
    assert write(project, force=True)


def test_many_edits_are_cut_short(project: Path) -> None:
    (project / "params.yaml").write_text("report:\n" + "".join(f"  key{number}: 1\n" for number in range(50)))
    with pytest.raises(ParamsError, match=r"and \d+ more"):
        write(project)


def test_a_wrong_recipe_is_not_written(project: Path) -> None:
    (project / "recipes" / "two.yaml").write_text(TEXT.replace("128", "-1"))
    (project / "params.yaml").write_bytes((project / "recipes" / "one.yaml").read_bytes())
    with pytest.raises(ParamsError, match="thumbnail"):
        write(project)
    assert "one" in (project / "params.yaml").read_text()


def test_a_recipe_may_be_a_path(project: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(TEXT)
    assert recipes.find(str(mine), project) == recipes.Recipe("mine", mine, "One.")
    with pytest.raises(ParamsError, match="no such recipe file"):
        recipes.find("gone.yaml", project)


def test_line_ends_and_bytes_stay(project: Path) -> None:
    (project / "recipes" / "two.yaml").write_bytes(TEXT.replace("\n", "\r\n").encode())
    write(project)
    assert b"\r\n" in (project / "params.yaml").read_bytes()


def test_the_projects_own_recipes_are_right_and_say_what_they_are(repository: Path) -> None:
    found = recipes.list_recipes(repository)
    assert {recipe.name for recipe in found} >= {"sample", "flickr8k", "coco"}
    for recipe in found:
        params_file.load(recipe.path)
        assert recipe.summary


def test_recipe_path_of_raw_data_is_told(repository: Path) -> None:
    """A reader who puts the data where the pages, or the recipe's comments, say can run every recipe."""
    pages = [*repository.glob("docs/*.md"), *(repository / "data").rglob("*.md")]
    told = "\n".join(page.read_text() for page in pages)
    missing = {
        f"{recipe.name}: {path}"
        for recipe in (repository / "recipes").glob("*.yaml")
        for path in re.findall(r"\bdata/raw/[\w./-]*\w", recipe.read_text())
        if not (repository / path).exists()
        and not re.search(rf"{re.escape(path)}(?![\w-])", told + "".join(re.findall("#.*", recipe.read_text())))
    }
    assert not missing
