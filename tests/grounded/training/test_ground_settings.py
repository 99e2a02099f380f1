"""The section ground: scenarios are common parameters with changes, and wrong ones are named before any training."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sightword.grounded.training.settings import Common, GroundSettings

ALL = {"t": {}, "cg-pg": {"cluster": 0.01, "perceptual": 0.02, "judged": "grounded"}}


def section(**changes):
    return GroundSettings.model_validate({"run": ["t"], "common": {}, "scenarios": ALL} | changes)


def test_a_scenario_is_the_common_parameters_with_its_changes():
    settings = section(common={"batch": 8, "cluster": 0.5})
    assert settings.scenario("t").model_dump() == Common(batch=8, cluster=0.5).model_dump()
    found = settings.scenario("cg-pg")
    assert (found.batch, found.cluster, found.perceptual, found.judged) == (8, 0.01, 0.02, "grounded")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": ["cg-pq"]}, r"no scenario is called 'cg-pq' \(did you mean 'cg-pg'\?\)"),
        ({"run": []}, "at least 1 item"),
        ({"run": ["t", "t"]}, "run has t twice"),
        ({"seeds": [0, 1, 0]}, "seeds has 0 twice"),
        ({"seeds": [-1]}, "greater than or equal to 0"),
        ({"scenarios": {"t": {}, "cg--pg": {}}}, "'cg--pg' is no name of a scenario"),
        ({"scenarios": {"t": {}, "c-p-x": {}}}, "at most one -"),
        ({"scenarios": {"t": {}, "cg-1": {}}}, "'cg-1' is no name of a scenario"),
        ({"scenarios": {"t": {}, "C.g": {}}}, "is no name of a scenario"),
        ({"scenarios": {"t": {"clutser": 1}}}, r"scenarios.t.clutser: no such key \(did you mean 'cluster'"),
        ({"scenarios": {"t": {"batch": 1}}}, "scenarios.t.batch = 1: expected a whole number, at least 2"),
        ({"scenarios": {"t": {"cluster": -1}}}, "scenarios.t.cluster = -1: expected a number, at least 0"),
        ({"scenarios": {"t": {"perceptual": 1, "batch": 2}}}, "Pearson's correlation needs a batch of 3 or more"),
        ({"scenarios": {"t": {"concatenate": True}}}, "concatenate joins T with itself"),
        ({"scenarios": {"t": {"sequential": True, "cluster": 1}}}, "sequential trains nothing"),
        ({"scenarios": {"t": {"start": "char", "cluster": 1}}}, "text has a weight with start 'char'"),
        ({"scenarios": {"t": {"start": "char", "text": 0, "cap2cap": 1}}}, "cap2cap has a weight with start 'char'"),
        ({"scenarios": {"t": {"states": 8}}}, "states is 8 with start 'skipthought'"),
        ({"common": {"states": 8}}, "scenarios.t: states is 8"),
        ({"scenarios": {"t": {"pictures": "none", "cluster": 1}}}, "pictures none trains on with the text alone"),
        ({"scenarios": {"t": {"pictures": "none", "text": 0}}}, "pictures none trains on with the text alone"),
        ({"scenarios": {"t": {"judged": "grounded"}}}, "needs space: mlp and cluster or perceptual"),
        ({"scenarios": {"t": {"judged": "visual", "cluster": 1}}}, "needs projection, or sequential"),
    ],
)
def test_wrong_sections_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        section(**changes)


def test_good_sections():
    section(scenarios={"t": {}, "seq": {"sequential": True, "judged": "visual"}, "char": {"start": "char", "text": 0}})
    section(scenarios={"t": {}, "gs-img_2": {"ranking": 1, "concatenate": True, "start": "scratch"}})
    section(common={"judged": "grounded"}, scenarios={"t": {"cluster": 1}})
