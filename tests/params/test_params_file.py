"""params.yaml: every mistake in one message, with key, value and what is accepted."""

import importlib
import math
import re

import pytest
from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from pipeline.downloads.sources import DataSet
from pipeline.experiments.grid import Grid
from pipeline.params import overlay, params_file, recipes
from sightword.corpus.sample.scene import World, _Part
from sightword.errors import ParamsError
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


def test_a_section_comes_typed(repository):
    settings = params_file.section(repository / "params.yaml", "train")
    assert settings.hidden == 96
    assert settings.margin == 0.2


def test_the_published_values_are_the_defaults_and_the_recipe(repository):
    found = overlay.resolve(recipes.find("flickr8k", repository), repository).sections["train"]
    assert found == TrainSettings()


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


def test_values_that_do_not_fit_each_other(edited):
    text = message(edited(lambda values: values["train"].update(epochs=7, cycle=4)))
    assert "train: epochs (7) is no multiple of cycle (4)" in text


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


def test_a_query_bank_needs_cosines(edited):
    def change(values):
        values["retrieval"]["protocols"] = ["full", "querybank"]
        values["select"].update(members=2, renormalise=renormalise)

    renormalise = False
    assert "querybank with select.members > 1 needs select.renormalise: true" in message(edited(change))
    renormalise = True
    assert params_file.load(edited(change))["retrieval"].protocols == ["full", "querybank"]


def test_infinity_and_seeds_that_no_generator_takes(edited):
    def change(values):
        values["train"].update(clip_images=float("inf"), margin=float("nan"), seed=2**32)

    text = message(edited(change))
    assert "train.clip_images = inf: expected a finite number" in text
    assert "train.margin = nan: expected a finite number" in text
    assert f"train.seed = {2**32}" in text


def test_yes_is_no_number_and_true_is_no_1(edited):
    text = message(edited(lambda values: values["train"].update(epochs=True, seed="0")))
    assert "train.epochs = True" in text
    assert "train.seed = '0'" in text


def test_files_that_are_no_parameters(tmp_path):
    assert "does not exist. Write one with `sightword params --recipe sample`" in message(tmp_path / "none.yaml")
    (tmp_path / "p.yaml").write_text("train:\n  hidden: [1\nselect: 2\n")
    assert "p.yaml, line 3, column 7: is not valid YAML" in message(tmp_path / "p.yaml")
    (tmp_path / "p.yaml").write_text("")
    assert "has no sections" in message(tmp_path / "p.yaml")


def test_a_character_that_no_file_may_have_is_told(tmp_path):
    (tmp_path / "p.yaml").write_bytes(b"corpus: \x00")
    assert "is not valid YAML" in message(tmp_path / "p.yaml")


PYDANTIC = re.compile(r"\b([Ii]nput|should|valid|[Vv]alidation error|pydantic|instance|type)\b")
WRONG = [
    "many",
    1.5,
    -(10**30),
    True,
    None,
    math.inf,
    math.nan,
    "",
    [],
    {},
    ["x"],
    [None],
    [[]],
    {"x": 1},
    {"x": {"y": []}},
]


def kinds(one: type[Settings]) -> set[type[BaseModel]]:
    """All classes of settings and of the sample's description below a class."""
    return {one}.union(*map(kinds, one.__subclasses__()))


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_no_word_of_pydantic_reaches_the_user(repository, wrong):
    """Of each key of each class: as the value, as an item of a list, and as a value of a mapping."""
    for path in sorted((repository / "sightword").rglob("settings.py")):
        importlib.import_module(".".join(path.relative_to(repository).with_suffix("").parts))
    classes = kinds(Settings) | kinds(_Part)
    assert {TrainSettings, Grid, World} <= classes
    said = set()
    for one in classes - {Settings, _Part, *kinds(DataSet)}:  # the table of downloads comes with the program
        for name in one.model_fields:
            for value in (wrong, [wrong], {"x": wrong}):
                try:
                    one.model_validate({name: value})
                except ValidationError as error:
                    said |= {explain(one, item, "here") for item in error.errors() if item["type"] != "missing"}
    assert len(said) > 100
    own = [line.partition(": ")[2] if " = " in line else line for line in said]
    assert [line for line in own if PYDANTIC.search(line)] == []


def test_wrong_value_is_told_with_what_is_expected(edited):
    text = message(edited(lambda values: values["train"].update(hidden="many")))
    assert text.count("train.hidden = 'many': expected a whole number, above 0") == 1
