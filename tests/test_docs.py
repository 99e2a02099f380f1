"""The pages name what there is."""

from __future__ import annotations

import html
import re
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from pipeline.params import reference
from pipeline.pipelines import pipelines
from sightword.errors import ParamsError
from sightword.messages import flat
from sightword.vse.selection.settings import SelectSettings


def test_link_of_a_page_leads_to_a_file(repository):
    for page in [repository / "README.md", *(repository / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_reference_of_parameters_equals_that_of_the_settings(repository):
    if (repository / "docs/parameters.md").read_text() != reference.page():
        pytest.fail("docs/parameters.md is not of these settings: run `make docs`", pytrace=False)


def test_parameter_refers_to_one_of_the_same_key():
    found = re.findall(r"(?m)^- \*\*`(?:\w+\.)*(\w+)`.*\. As `[^`]*?(\w+)`\.$", reference.page())
    assert len(found) > 5
    assert not [pair for pair in found if len(set(pair)) > 1]


def test_parameter_has_a_text_and_stands_in_its_file(repository):
    read = YAML(typ="safe", pure=True).load
    written = {
        one.full_name(name)
        for one in pipelines(repository)
        for name in flat(read((repository / one.params).read_text()))
    }
    parameters = [one for section in reference.sections() for one in section.parameters]
    mappings = [one.name for one in parameters if one.accepted.startswith("mapping")]  # their keys are the user's
    written = {next((one for one in mappings if name.startswith(f"{one}.")), name) for name in written}
    # The entries of a list have own keys, and so has a format that the file does not name.
    own = {one.name for one in parameters if one.text.startswith("Format `")}
    assert {one.name for one in parameters if "[]" not in one.name} - own == written
    assert not [one.name for one in parameters if len(one.text) < 10 or not one.accepted]


def test_parameter_is_explained_by_its_name_or_its_last_part():
    (found,) = reference.explain("dropout_states")
    assert (found.name, found.default, found.accepted) == ("train.dropout_states", 0.0, "number, at least 0, below 1")
    assert [one.name for one in reference.explain("margin")] == [
        "train.margin",
        "entailment/params.yaml:train.margin",
        "hypernyms/params.yaml:train.margin",
    ]
    (own,) = reference.explain("train.margin")
    assert own.name == "train.margin"
    (other,) = reference.explain("hypernyms/params.yaml:train.margin")
    assert other.text != own.text
    (entry,) = reference.explain("premises")
    assert (entry.name, entry.default) == ("entailment/params.yaml:pairs.train[].premises", "all")
    assert {one.name for one in reference.explain("select")} == {
        f"select.{name}" for name in SelectSettings.model_fields
    }
    with pytest.raises(ParamsError, match=r"Did you mean train\.margin"):
        reference.explain("train.margn")


@pytest.mark.full
def test_documentation_is_built_without_a_warning(repository, tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in (repository / "docs").glob("*.md"):
        heading = page.read_text().splitlines()[0].removeprefix("# ")
        built = (tmp_path / f"{page.stem}.html").read_text()
        # Sphinx writes pages of its own, such as search.html, over ours of the same name.
        assert f"<title>{html.escape(heading)} - " in built or page.stem == "index", page
    assert "SentenceEncoder" in (tmp_path / "encoder.html").read_text()
