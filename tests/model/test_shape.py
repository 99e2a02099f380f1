"""The shape of a saved network, and that of the parameters."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from sightword.model.settings import ModelSettings
from sightword.model.shape import NgramShape, RecurrentShape, shape_as_json, shape_from_json


def test_fields_and_types_of_shapes_are_those_of_the_parameters():
    parameters = {name: setting.annotation for name, setting in ModelSettings.model_fields.items()}
    for kind in (RecurrentShape, NgramShape):
        hints = get_type_hints(kind)
        own = {field.name: hints[field.name] for field in fields(kind) if field.name not in ("scaled", "cell", "frame")}
        assert own.items() <= parameters.items()


@pytest.mark.parametrize(
    ("settings", "width", "reader"),
    [
        ({}, 2048, "GRU"),
        ({"bidirectional": False}, 1024, "GRU"),
        ({"cell": "lstm", "hidden": 7, "pooling": "last", "similarity": "order", "bidirectional": False}, 7, "LSTM"),
        ({"cell": "ngrams", "embedding": 7}, 7, "n-grams"),
    ],
)
def test_a_shape_of_parameters_is_read_back_as_it_was(settings, width, reader):
    shape = ModelSettings(**settings).shape
    assert (shape.width, shape.reader) == (width, reader)
    assert shape_from_json(shape_as_json(shape)) == shape


def test_parameters_that_the_reader_does_not_use_are_no_part_of_the_shape():
    one, other = ModelSettings(pooling="max", attention=5), ModelSettings(pooling="max", ngram_buckets=9)
    assert one.shape == other.shape
    bags = [ModelSettings(cell="ngrams", hidden=hidden) for hidden in (5, 6)]
    assert bags[0].shape == bags[1].shape


def test_ngrams_saved_before_the_frame_have_none():
    kept = shape_as_json(ModelSettings(cell="ngrams").shape)
    del kept["frame"]
    assert shape_from_json(kept) == ModelSettings(cell="ngrams").shape


WHOLE = shape_as_json(ModelSettings().shape)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({**WHOLE, "hidden": 0}, "shape.hidden is 0; expected a whole number from 1 to 100,000,000"),
        ({**WHOLE, "cell": "rnn"}, "shape.cell is 'rnn'; expected 'gru' or 'lstm'"),
        ({**WHOLE, "heads": 4}, "shape.heads is unknown"),
        ({key: one for key, one in WHOLE.items() if key != "hidden"}, "shape.hidden is missing"),
        ({**WHOLE, "reader": "eye"}, "shape.reader is 'eye'; expected 'recurrent' or 'ngrams'"),
    ],
)
def test_a_value_that_cannot_be_is_named(value, message):
    with pytest.raises(ValueError, match=message):
        shape_from_json(value)
