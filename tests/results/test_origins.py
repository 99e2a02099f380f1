"""Which files `sightword fetch` brings."""

from __future__ import annotations

import pytest

from pipeline.downloads.sources import data_sets
from pipeline.results.origins import fetched_by


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/raw/flickr8k", "flickr8k"),
        ("data/raw/flickr8k/images", "flickr8k"),
        ("data/raw/flickr8k/images/1000268201_693b08cb0e.jpg", "flickr8k"),
        ("data/raw/flickr8k/images/notes.txt", None),
        ("data/raw/flickr8k/Flickr8k.token.txt", "flickr8k"),
        ("data/raw/flickr8k/features.npy", None),
        ("data/raw/flickr8k-own/Flickr8k.token.txt", None),
        ("data/raw/senteval/downstream", "senteval"),
        ("data/raw/senteval/downstream/STS/STS12-en-test/STS.input.MSRpar.txt", "senteval"),
        ("data/raw/senteval/downstream/own.txt", None),
        ("data/raw/coco/images/val2014/COCO_val2014_1.jpg", "coco"),
        ("data/raw/wordnet/data.noun", "wordnet"),
        ("data/raw/features/features_densenet169.npy", None),
        ("data/raw", None),
    ],
)
def test_file_of_a_data_set_is_known_by_its_place(path, name):
    assert fetched_by(path) == name


def test_all_files_that_a_data_set_needs_are_its_own():
    for data_set in (one for one in data_sets().values() if one.folder):
        names = [name for source in data_set.sources for name in source.wanted()]
        strange = [name for name in names if fetched_by(f"data/raw/{data_set.folder}/{name}") is None]
        assert strange == []
