"""The recipe that some parameters are of."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.params import overlay, recipes
from pipeline.results.recognition import further, overridden, recognise
from sightword.errors import ParamsError

PROJECT = Path(__file__).parents[2]
NAMES = [recipe.name for recipe in recipes.list_recipes(PROJECT)]


def whole(name: str) -> overlay.Whole:
    return overlay.resolve(recipes.find(name, PROJECT), PROJECT)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_a_recipe_have_no_overrides(name):
    of = whole(name)
    assert recognise(of.values, of.pipeline, name=name) == (name, {})


@pytest.mark.parametrize("name", ["sample", "vendrov", "snli-small", "grounded-sample"])
def test_nearest_recipe_of_a_recipe_is_itself(name):
    of = whole(name)
    assert recognise(of.values, of.pipeline) == (name, {})


def test_overrides_of_the_nearest_recipe_make_the_parameters_again():
    of = whole("flickr8k-ngrams")
    values = overlay.merged(of.values, {"train": {"seed": 7, "batch": 33}, "report": {"title": "another"}})
    found = recognise(values, of.pipeline, without="train.seed")
    assert found == ("flickr8k-ngrams", {"train.batch": 33})
    again = overridden(found.recipe, {**found.overrides, "train.seed": 7, "report.title": "another"}, PROJECT)
    assert again.values == values


def test_parameter_newer_than_the_values_is_no_override():
    of = whole("flickr8k")
    values = {**of.values, "train": {key: one for key, one in of.values["train"].items() if key != "patience"}}
    assert recognise(values, of.pipeline, name="flickr8k").overrides == {}


def test_recipe_of_another_pipeline_is_refused():
    of = whole("sample")
    with pytest.raises(ParamsError, match=r"vendrov: params\.yaml has the parameters of another pipeline"):
        recognise(of.values, of.pipeline, name="vendrov")


def test_override_that_no_setting_accepts_is_refused():
    with pytest.raises(ParamsError, match=r"train\.hidden = 'wide'"):
        overridden("sample", {"train.hidden": "wide"}, PROJECT)


def test_overrides_of_a_further_file_are_laid_over_its_recipe():
    overrides = {"train.common.batch": 9, "params.yaml": "sample", "params.yaml:features.crops": "one"}
    (of,) = further(overrides, PROJECT)
    assert of.pipeline.folder == ""
    assert of.values == overlay.merged(whole("sample").values, {"features": {"crops": "one"}})
    assert overridden("grounded-sample", overrides, PROJECT).values["train"]["common"]["batch"] == 9
