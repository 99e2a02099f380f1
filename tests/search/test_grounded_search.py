"""Search by an encoder of grounded spaces: sentences find pictures in the space ``visual``."""

from __future__ import annotations

import numpy as np
import pytest
from small_encoder import made
from small_ground import TEXTS, encoder

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.by_name import open_with_pictures
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SearchError
from sightword.features.tables.table import FeatureTable
from sightword.search.query import check_query
from sightword.search.searcher import Searcher

NAMES = [f"{number:02d}" for number in range(20)]


def test_a_sentence_finds_the_pictures_with_the_largest_cosine():
    features = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    table = FeatureTable(features, NAMES, [""] * 20, {"backbone": "made_up"})
    found = Searcher(encoder().in_space("visual"), table).pictures(TEXTS[3], top=20)
    vector = encoder().encode(TEXTS[3], space="visual")
    cosines = features @ vector / np.linalg.norm(features, axis=1) / np.linalg.norm(vector)
    assert [hit.row for hit in found.hits] == np.argsort(-cosines).tolist()
    np.testing.assert_allclose([hit.score for hit in found.hits], np.sort(cosines)[::-1], atol=1e-5)


def test_folders_with_and_without_pictures(tmp_path):
    encoder().save(tmp_path / "visual")
    assert open_with_pictures(tmp_path / "visual").default == "visual"
    assert open_with_pictures(f"{tmp_path}/visual:visual").width == 7
    with pytest.raises(EncoderError, match="no embeddings of pictures in the space 'grounded'"):
        open_with_pictures(f"{tmp_path}/visual:grounded")
    made().save(tmp_path / "plain")
    assert open_with_pictures(tmp_path / "plain").default is None
    for space in ("visual", ""):
        with pytest.raises(EncoderError, match=f"plain: has one space only, without a name; not '{space}'"):
            open_with_pictures(f"{tmp_path}/plain:{space}")
    one = encoder()
    SentenceEncoder(one.parts, heads={"sentence": one.heads["sentence"]}, default="sentence").save(tmp_path / "one")
    with pytest.raises(EncoderError, match="one: has no embeddings of pictures; expected an encoder trained on"):
        open_with_pictures(tmp_path / "one")


def test_an_unknown_token_of_the_treebank_is_called_a_word():
    vocabulary = Vocabulary(("dog",), unit="treebank")
    assert check_query("dog cat", vocabulary).note == "The word “cat” is unknown to this encoder."
    with pytest.raises(SearchError, match=r"no word of the query is known .* some of the 1 words"):
        check_query("cat", vocabulary)
