"""Recipes: bases, whole parameter files, nothing of the user's is lost, nothing wrong is written."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, strategies
from pydantic import Field

from pipeline.params import overlay, params_file, recipes, writing
from pipeline.pipelines import pipelines
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.report.departures import departures_of, merged
from sightword.settings import Settings
from sightword.vse.page.settings import ReportSettings

TEXT = "# One.\n\nreport:\n  title: One\n  gallery: 10\n"


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
    return writing.write(recipes.find(name, project), project / "params.yaml", project, **options)


def whole(project: Path, name: str = "two") -> str:
    return writing.text(recipes.find(name, project), project)


def resolved(project: Path, name: str, text: str = "") -> dict[str, Any]:
    """The section of a recipe, which is written first if it has a text."""
    if text:
        (project / "recipes" / f"{name}.yaml").write_text(text)
    values: dict[str, Any] = overlay.resolve(recipes.find(name, project), project).values["report"]
    return values


def test_python_without_docstrings_writes_the_same_text(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = whole(project)
    monkeypatch.setattr(ReportSettings, "__doc__", None)
    assert whole(project) == before


def test_edits_that_git_has_may_be_replaced(project: Path) -> None:
    (project / "params.yaml").write_text(whole(project).replace("gallery: 10", "gallery: 7"))
    with pytest.raises(ParamsError, match="would be lost"):
        write(project)
    git(project, "init")
    git(project, "add", "params.yaml")
    with pytest.raises(ParamsError, match="would be lost"):
        write(project)
    git(project, "commit", "-m", "my settings")
    (project / "params.yaml").write_text("report: [")
    with pytest.raises(ParamsError, match="would be lost"):
        write(project)
    git(project, "checkout", "params.yaml")
    assert write(project)
    assert not write(project)
    (project / "params.yaml").write_text("report: [")
    assert write(project, force=True)


def test_a_wrong_recipe_is_not_written(project: Path) -> None:
    (project / "recipes" / "two.yaml").write_text(TEXT.replace("10", "-1"))
    write(project, "one")
    with pytest.raises(ParamsError, match="gallery"):
        write(project)
    assert "one" in (project / "params.yaml").read_text()


def test_a_recipe_may_be_a_path(project: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(TEXT)
    assert recipes.find(str(mine), project) == recipes.Recipe("mine", mine, "One.")
    with pytest.raises(ParamsError, match="no such recipe file"):
        recipes.find("gone.yaml", project)


def test_base_lies_below_the_keys_that_differ(project: Path) -> None:
    assert resolved(project, "one") == ReportSettings().model_dump() | {"title": "one"}
    assert resolved(project, "three", "base: one\nreport: {gallery: 3}\n")["title"] == "one"
    found = resolved(project, "four", "base: three\nreport: {title: Four}\n")
    assert found == ReportSettings().model_dump() | {"title": "Four", "gallery": 3}


def test_mapping_below_is_merged_and_list_replaced() -> None:
    below = {"run": [1, 2], "common": {"steps": 9, "rate": 1.0}, "scenarios": {"a": {"steps": 1}}}
    above = {"run": [3], "common": {"rate": 2.0}, "scenarios": {"a": {"rate": 3.0}, "b": {}}}
    assert merged(below, above) == {
        "run": [3],
        "common": {"steps": 9, "rate": 2.0},
        "scenarios": {"a": {"steps": 1, "rate": 3.0}, "b": {}},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base: ones\n", "two.yaml: base: no such recipe: 'ones' (did you mean 'one'?); expected one of "),
        ("base: three\n", "three.yaml: base: is a loop: two -> three -> two"),
        ("base: one\nreport: {galery: 3}\n", "report.galery: no such key (did you mean 'gallery'?)"),
        ("pipeline: reprot\n", "two.yaml: pipeline: no such pipeline: 'reprot'"),
        ("base: one\nreport:\n  gallery: [3\n", "two.yaml, line 4, column 1: is not valid YAML"),
        ("[one]\n", "two.yaml: has no sections"),
    ],
)
def test_wrong_base_or_key_is_one_message(project: Path, text: str, said: str) -> None:
    (project / "recipes/three.yaml").write_text("base: two\n")
    (project / "recipes/two.yaml").write_text(text)
    with pytest.raises((ParamsError, FileFormatError)) as caught:
        write(project)
    assert said in str(caught.value)
    assert not (project / "params.yaml").exists()


def test_pipeline_of_a_recipe_is_the_one_that_its_base_names(repository: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("# Mine.\n\nbase: bordes\n")
    assert overlay.resolve(recipes.find(str(mine), repository), repository).pipeline.folder == "grounded"
    mine.write_text("# Mine.\n\npipeline: groundde\n")
    with pytest.raises(ParamsError, match=r"mean 'grounded'\?\); expected one of entailment, grounded, hypernyms"):
        overlay.resolve(recipes.find(str(mine), repository), repository)


def test_key_has_the_first_sentence_of_its_meaning(project: Path, monkeypatch) -> None:
    class Toy(Settings):
        """A toy. Its second sentence is not written."""

        cell: Literal["gru", "lstm"] = "gru"
        """The cell of the drawing, by Hochreiter et al. (1997). It is published."""
        rate: float = 1e-8
        """Rate of ``cell``."""
        words: list[str] = Field(default=["no", "a, b", "", "1", "two words", "ö"])

    monkeypatch.setattr(params_file, "settings_class", lambda _pipeline, name: Toy)
    (project / "recipes/two.yaml").write_text("# Two.\nreport: {}\n")
    assert whole(project).splitlines()[2:] == [
        "# Written by `sightword params --recipe two`; `sightword params --explain KEY` tells more of a key.",
        "",
        "report:                       # A toy",
        "  cell: gru                   # The cell of the drawing, by Hochreiter et al. (1997); or lstm",
        "  rate: 0.00000001            # Rate of cell",
        """  words: [no, "a, b", '', "1", two words, ö]""",
    ]
    assert yaml_reader.parse(whole(project), "")["report"] == Toy().model_dump()


@given(
    strategies.recursive(
        strategies.text() | strategies.integers() | strategies.floats(allow_nan=False, allow_infinity=False)
        | strategies.booleans() | strategies.none(),
        lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.just("key"), inner),
    )
)  # fmt: skip
def test_value_on_one_line_is_read_as_it_was(value: Any) -> None:
    assert yaml_reader.parse(f"key: {writing.spelt(value)}  # comment", "") == {"key": value}


def test_written_file_is_a_recipe_that_writes_itself(repository: Path, tmp_path: Path) -> None:
    for one in recipes.list_recipes(repository):
        path = tmp_path / f"{one.name}.yaml"
        path.write_text(writing.text(one, repository))
        values = yaml_reader.parse(path.read_text(), path)
        assert values == overlay.resolve(one, repository).values
        assert writing.text(recipes.find(str(path), repository), repository) == path.read_text()


def test_parameter_files_in_git_are_what_the_samples_recipes_write(repository: Path) -> None:
    for one in pipelines(repository):
        name = f"{one.folder}-sample" if one.folder else "sample"
        if (repository / one.params).read_text() != writing.text(recipes.find(name, repository), repository):
            pytest.fail(
                f"{one.params} is not what its recipe writes: run `sightword params --recipe {name}`", pytrace=False
            )


def test_each_recipe_belongs_to_a_pipeline_and_says_what_it_is_and_needs(repository: Path) -> None:
    found: dict[str, list[str]] = {}
    for one in recipes.list_recipes(repository):
        assert one.summary
        assert one.needs, one.name
        found.setdefault(overlay.resolve(one, repository).pipeline.folder, []).append(one.name)
    assert found.keys() == {"", "entailment", "grounded", "hypernyms"}


@pytest.mark.parametrize("name", ["grounded-sample", "grounded-flickr8k", "bordes"])
def test_grounded_recipe_runs_all_of_its_scenarios(repository: Path, name: str) -> None:
    found = overlay.resolve(recipes.find(name, repository), repository).sections
    assert set(found["train"].run) == set(found["train"].scenarios)
    assert found["report"].baseline in found["train"].run


@pytest.mark.parametrize(
    ("name", "section", "key"),
    [("flickr8k", "train", ""), ("bordes", "skipthought", ""), ("bordes", "train", "common")],
)
def test_published_values_are_the_defaults_and_the_recipe(repository: Path, name: str, section: str, key: str) -> None:
    found = overlay.resolve(recipes.find(name, repository), repository).sections[section]
    found = getattr(found, key) if key else found
    assert found == type(found)()


def test_recipe_path_of_raw_data_is_told(repository: Path) -> None:
    """A reader who puts the data where the pages, or the recipe's comments, say can run every recipe."""
    pages = [*repository.glob("docs/*.md"), *(repository / "data").rglob("*.md")]
    told = "\n".join(page.read_text() for page in pages)
    missing = set()
    for recipe in recipes.list_recipes(repository):
        text = writing.text(recipe, repository)
        comments = "".join(re.findall("#.*", text))
        missing |= {
            f"{recipe.name}: {path}"
            for path in re.findall(r"\bdata/raw/[\w./-]*\w", text)
            if not (repository / path).exists() and not re.search(rf"{re.escape(path)}(?![\w-])", told + comments)
        }
    assert not missing


def test_departures_of_the_sample_name_data_and_networks_first(repository: Path) -> None:
    """Places, hashes and titles are left out; what comes after the training stands last."""
    whole = overlay.resolve(recipes.find("sample", repository), repository)
    stages = {name: params_file.settings_class(whole.pipeline, name) for name in whole.sections}
    departed = departures_of(whole.sections, stages)
    names = [one.name for one in departed]
    assert names[:4] == ["corpus.format", "features.backbone", "features.weights", "train.hidden"]
    assert [one for one in departed if one.name == "train.loss"] == [("train.loss", "infonce", "hinge")]
    assert names.index("train.clip_captions") < names.index("select.criterion")
    assert not {"corpus.path", "features.weights_sha256", "report.title", "resize.shards"} & set(names)
