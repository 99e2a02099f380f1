from __future__ import annotations

import pytest
from pydantic import ValidationError

from sightword.evaluation.retrieval.settings import RetrievalSettings


def test_the_defaults_are_the_published_way():
    settings = RetrievalSettings()
    assert (settings.split, settings.protocols, settings.folds) == ("test", ["full", "five_fold_1k"], "contiguous")


@pytest.mark.parametrize("protocols", [[], ["full", "full"], ["one_fold"]])
def test_wrong_protocols_are_refused(protocols):
    with pytest.raises(ValidationError):
        RetrievalSettings(protocols=protocols)


def test_the_query_bank_is_no_judge_of_its_own_split():
    with pytest.raises(ValidationError, match="its bank from the split train: score dev or test"):
        RetrievalSettings(split="train", protocols=["full", "querybank"])
