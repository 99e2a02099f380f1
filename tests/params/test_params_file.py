"""params.yaml: every mistake in one message, with key, value and what is accepted."""

import importlib
import math
import re

import pytest
from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from pipeline.downloads.sources import DataSet
from pipeline.experiments import grid
from pipeline.experiments.grid import Grid
from pipeline.params import params_file, reference
from pipeline.pipelines import Pipeline, expanded
from sightword.corpus.sample.scene import World, _Part
from sightword.errors import ParamsError
from sightword.model.shape import MOST
from sightword.settings import Settings, explain
from sightword.vse.training.settings import TrainSettings


@pytest.fixture
def edited(repository, tmp_path):
    """A function that writes the sample recipe with changes, and gives its path."""

    def write(change):
        values = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
        change(values)
        with (tmp_path / "params.yaml").open("w") as file:
            YAML().dump(values, file)
        return tmp_path / "params.yaml"

    return write


def message(path):
    with pytest.raises(ParamsError) as caught:
        params_file.load(path)
    return str(caught.value)


def refused(values):
    with pytest.raises(ParamsError) as caught:
        params_file.check(values, where="grounded/params.yaml")
    return str(caught.value)


def test_all_mistakes_of_the_file_stand_in_one_message(edited):
    def change(values):
        values["train"]["hiden"] = values["train"].pop("hidden")
        values["train"]["margin"] = "wide"
        values["train"]["batch"] = 1
        values["resize"]["side"] = 25.6
        values["captions"]["case"] = "upper"
        del values["report"]
        values["retreival"] = {}
        values["select"] = 3

    text = message(edited(change))
    for line in (
        "retreival: no such section (did you mean 'retrieval'?)",
        "train.hiden: no such key (did you mean 'hidden'?)",
        "train.hidden: the key is missing; its published value is 1024",
        "train.margin = 'wide': expected a number, ",
        "train.batch = 1: expected a whole number, at least 2",
        "resize.side = 25.6: ",
        "captions.case = 'upper': expected `keep` or `lower` or `fold_capitals`",
        "report: the section is missing",
        "select = 3: not a section",
    ):
        assert line in text
    assert "9 entries are wrong" in text
    assert "accepted: " not in text  # dozens of names, where a near one is known


def test_sections_that_do_not_fit_each_other(edited):
    def change(values):
        values["train"].update(epochs=4, cycle=4)
        values["train"].update(similarity="order", bidirectional=False)
        values["select"]["beside"] = ["gru"]
        values["retrieval"]["protocols"] = ["querybank"]
        values["resize"]["side"], values["features"]["crop"] = 200, 224

    text = message(edited(change))
    assert "select.beside: parts stand beside an encoder of the cosine only (train.similarity is order)" in text
    assert "retrieval.protocols: querybank needs the cosine (train.similarity is order)" in text
    assert "select.members = 2: there are 1 to choose from" in text
    assert "features.crop = 224: the resized pictures' smaller side is 200" in text


def test_files_that_are_no_parameters(tmp_path):
    assert "does not exist. Write one with `sightword params --recipe sample`" in message(tmp_path / "none.yaml")
    (tmp_path / "p.yaml").write_text("train:\n  hidden: [1\nselect: 2\n")
    assert "p.yaml, line 3, column 7: is not valid YAML" in message(tmp_path / "p.yaml")
    (tmp_path / "p.yaml").write_text("")
    assert "has no sections" in message(tmp_path / "p.yaml")


PYDANTIC = re.compile(r"\b([Ii]nput|should|valid|[Vv]alidation error|pydantic|instance|type)\b")
WRONG = ["many", 1.5, True, None, math.inf, [[]], {"x": {"y": []}}, MOST + 1]


def kinds(one: type[Settings]) -> set[type[BaseModel]]:
    """All classes of settings and of the sample's description below a class."""
    return {one}.union(*map(kinds, one.__subclasses__()))


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_no_word_of_pydantic_reaches_the_user(repository, wrong):
    """Of each key of each class: as the value, as an item of a list, and as a value of a mapping.

    Infinity is refused, and where no other limit stands, a size that no saved network has.
    """
    for path in sorted((repository / "sightword").rglob("settings.py")):
        importlib.import_module(".".join(path.relative_to(repository).with_suffix("").parts))
    classes = kinds(Settings) | kinds(_Part)
    assert {TrainSettings, Grid, World} <= classes
    said = set()
    for one in classes - {Settings, _Part, *kinds(DataSet)}:  # the table of downloads comes with the program
        for name, field in one.model_fields.items():
            for value in (wrong, [wrong], {"x": wrong}):
                try:
                    one.model_validate({name: value})
                except ValidationError as error:
                    said |= {explain(one, item, "here") for item in error.errors() if item["type"] != "missing"}
                else:
                    limited = issubclass(one, _Part) or "Le(" in str(field)
                    assert value != math.inf
                    assert value != MOST + 1 or limited or "int" not in str(field.annotation)
    assert len(said) > 100
    assert wrong != math.inf or "here.clip_images = inf: expected a finite number" in said
    own = [line.partition(": ")[2] if " = " in line else line for line in said]
    assert [line for line in own if PYDANTIC.search(line)] == []


@pytest.fixture
def grounded(repository, monkeypatch):
    monkeypatch.chdir(repository)
    return YAML(typ="safe", pure=True).load((repository / "grounded/params.yaml").read_text())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cg": {"clustr": 1.0}}, "scenarios.cg.clustr: no such key (did you mean 'cluster'?)"),
        ({"cg": {"cluster": -1.0}}, "scenarios.cg.cluster"),
        ({"cg": {"cluster": [1.0]}}, "train.scenarios.cg.cluster"),
        ({"cg": 1.0}, "train.scenarios.cg = 1.0"),
        ({"a-b-c": {}}, "scenarios.'a-b-c'"),
    ],
)
def test_a_mistake_inside_a_scenario_is_named(grounded, change, said):
    grounded["train"]["scenarios"] |= change
    assert said in refused(grounded)


def test_mistakes_in_the_nested_keys_of_all_scenarios_are_named(grounded):
    del grounded["train"]["common"]["batch"]
    grounded["train"]["common"]["batchh"] = 32
    grounded["train"]["run"] += ["nothing"]
    found = refused(grounded)
    assert "train.common.batch: the key is missing; its published value is 32" in found
    assert "train.common.batchh: no such key (did you mean 'batch'?)" in found
    grounded["train"]["common"] = {**grounded["train"]["common"], "batch": 32}
    del grounded["train"]["common"]["batchh"]
    assert "no scenario is called 'nothing'" in refused(grounded)


def test_a_baseline_that_is_no_scenario_is_named_before_anything_runs(grounded):
    grounded["report"]["baseline"] = "cg-gp"
    assert "report.baseline = cg-gp: no such scenario (did you mean 'cg-pg'?); known: t, cg, pg" in refused(grounded)
    grounded["report"]["baseline"], grounded["train"]["run"] = "t", ["cg-pg"]
    params_file.check(grounded)


def test_the_reference_explains_nested_settings(repository, monkeypatch):
    monkeypatch.chdir(repository)
    (cluster,) = reference.explain("train.common.cluster")
    assert (cluster.name, cluster.default) == ("grounded/params.yaml:train.common.cluster", 0.0)
    assert "Bordes et al. 2019, equation 4" in cluster.text  # alpha, the weight of the grounded losses
    (seeds,) = reference.explain("train.seeds")
    assert seeds.accepted == "list of whole number, at least 0, at most 4294967295, not empty"
    (scenarios,) = reference.explain("train.scenarios")
    assert scenarios.accepted.startswith("mapping of text to mapping of text to ")


def test_the_sweep_of_alpha_changes_one_scenario(repository, monkeypatch):
    monkeypatch.chdir(repository)
    wanted = grid.load(repository / "study/recipes/grid-alpha.yaml")
    _, base, _ = grid.base_params(wanted, repository)
    runs = grid.expand(wanted, base, "grid-alpha.yaml")
    assert len(runs) == 8
    described = Pipeline(repository, "grounded").stages
    for run in runs:
        entries = expanded(described, run.params, "grounded/dvc.yaml")
        assert [name for name in entries if "@" in name] == ["train@cg-pg-0", "evaluate@cg-pg-0"]
