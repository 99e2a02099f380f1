"""grounded/params.yaml: recipes, scenarios with keys of their own, and the reference of nested settings."""

import pytest
from ruamel.yaml import YAML

from pipeline.experiments import grid
from pipeline.params import overlay, params_file, recipes, reference
from pipeline.pipelines import Pipeline, expanded
from sightword.errors import ParamsError


def message(values):
    with pytest.raises(ParamsError) as caught:
        params_file.check(values, where="grounded/params.yaml")
    return str(caught.value)


@pytest.fixture
def values(repository, monkeypatch):
    monkeypatch.chdir(repository)
    return YAML(typ="safe", pure=True).load((repository / "grounded/params.yaml").read_text())


@pytest.mark.parametrize("name", ["grounded-sample", "grounded-flickr8k", "bordes"])
def test_every_recipe_runs_all_of_its_scenarios(repository, name):
    found = overlay.resolve(recipes.find(name, repository), repository).sections
    assert set(found["train"].run) == set(found["train"].scenarios)
    assert found["report"].baseline in found["train"].run


def test_the_published_values_are_the_defaults_and_the_recipe(repository):
    found = overlay.resolve(recipes.find("bordes", repository), repository).sections
    assert found["skipthought"] == type(found["skipthought"])()
    common = found["train"].common
    assert common == type(common)()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"cg": {"clustr": 1.0}},
            "scenarios.cg.clustr: no such key (did you mean 'cluster'?)",
        ),
        ({"cg": {"cluster": -1.0}}, "scenarios.cg.cluster"),
        ({"cg": {"cluster": "much"}}, "scenarios.cg.cluster"),
        ({"cg": {"cluster": [1.0]}}, "train.scenarios.cg.cluster"),
        ({"cg": 1.0}, "train.scenarios.cg = 1.0"),
        ({"a-b-c": {}}, "scenarios.'a-b-c'"),
    ],
)
def test_a_mistake_inside_a_scenario_is_named(values, change, said):
    values["train"]["scenarios"] |= change
    assert said in message(values)


def test_mistakes_in_the_nested_keys_of_all_scenarios_are_named(values):
    del values["train"]["common"]["batch"]
    values["train"]["common"]["batchh"] = 32
    values["train"]["run"] += ["nothing"]
    found = message(values)
    assert "train.common.batch: the key is missing; its published value is 32" in found
    assert "train.common.batchh: no such key (did you mean 'batch'?)" in found
    values["train"]["common"] = {**values["train"]["common"], "batch": 32}
    del values["train"]["common"]["batchh"]
    assert "no scenario is called 'nothing'" in message(values)


def test_a_baseline_that_is_no_scenario_is_named_before_anything_runs(values):
    values["report"]["baseline"] = "cg-gp"
    assert "report.baseline = cg-gp: no such scenario (did you mean 'cg-pg'?); known: t, cg, pg" in message(values)
    values["report"]["baseline"], values["train"]["run"] = "t", ["cg-pg"]
    params_file.check(values)


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
