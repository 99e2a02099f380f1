"""The shape of a saved network, and that of the parameters."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import get_type_hints

import pytest

from sightword.model.settings import ModelSettings
from sightword.model.shape import CellName, Shape


def test_entries_and_types_are_those_of_the_parameters():
    kinds = get_type_hints(Shape)
    assert [field.name for field in fields(Shape)] == list(ModelSettings.model_fields)
    kinds["cell"] = CellName  # a saved encoder may have another cell, which skipthought trains
    assert kinds == {name: setting.annotation for name, setting in ModelSettings.model_fields.items()}
    for settings in (ModelSettings(), ModelSettings(bidirectional=False)):
        assert settings.width == settings.hidden * (1 + settings.bidirectional)
    assert ModelSettings(cell="ngrams", embedding=7).width == 7


def test_a_shape_of_parameters_is_read_back_as_it_was():
    settings = ModelSettings(cell="lstm", hidden=7, pooling="last", similarity="order", bidirectional=False)
    found = Shape.from_json(asdict(settings))
    assert asdict(found) == asdict(settings) == settings.model_dump()
    assert Shape.from_json(asdict(settings) | {"cell": "layer_norm_gru"}).cell == "layer_norm_gru"


def test_a_missing_entry_is_named():
    whole = asdict(ModelSettings())
    del whole["hidden"]
    with pytest.raises(ValueError, match=r"model\.hidden is missing"):
        Shape.from_json(whole)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"hidden": 0}, "model.hidden is 0; expected a whole number above 0"),
        ({"hidden": True}, "model.hidden is True"),
        ({"hidden": 8.0}, r"model.hidden is 8\.0"),
        ({"cell": "rnn"}, "model.cell is 'rnn'; expected 'gru' or 'lstm' or 'layer_norm_gru' or 'ngrams'"),
        ({"cell": ["gru"]}, r"model.cell is \['gru'\]"),
        ({"mask_padding": 1}, "model.mask_padding is 1; expected true or false"),
        ({"heads": 4}, "model.heads is unknown"),
    ],
)
def test_what_cannot_be_is_named(entry, message):
    with pytest.raises(ValueError, match=message):
        Shape.from_json(entry)


@pytest.mark.parametrize("value", [None, 3, [], "gru"])
def test_only_an_object_is_a_shape(value):
    with pytest.raises(ValueError, match="no JSON object"):
        Shape.from_json(value)
