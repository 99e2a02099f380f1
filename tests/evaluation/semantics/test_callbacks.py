"""SentEval's prepare and batcher as an encoder."""

from __future__ import annotations

import copy
import importlib.util
import json

import numpy as np
import pytest

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.callbacks import Params, SentEvalEncoder
from sightword.evaluation.semantics.datasets import SUBTASKS
from sightword.evaluation.semantics.encoding import embed
from sightword.evaluation.semantics.evaluation import evaluate


def bag_of_vectors(params, samples):
    """As a bag-of-words script for SentEval does: what batcher needs is put into the parameters."""
    words = sorted({word for tokens in samples for word in tokens})
    params.word_vec = dict(zip(words, np.random.default_rng(params.seed).normal(size=(len(words), 8)), strict=True))
    params["samples"] = samples


def mean(params, batch):
    batch = [sent if sent != [] else ["."] for sent in batch]
    return np.vstack([np.mean([params["word_vec"][word] for word in sent], 0) for sent in batch])


def test_prepare_receives_all_sentences_once_and_the_batcher_batches_of_tokens(data):
    calls = []

    def batcher(params, batch):
        calls.append(batch)
        return mean(params, batch)

    encode = SentEvalEncoder(batcher, bag_of_vectors, {"batch_size": 7})
    found = evaluate(encode, ["STSOwn", "STSBenchmark"], data, trained_head=False)
    seen = [tuple(tokens) for tokens in encode.params.samples]
    assert len(seen) == len(set(seen)) > 100
    assert all(isinstance(tokens, list) and all(isinstance(word, str) for word in tokens) for tokens in calls[0])
    assert max(map(len, calls)) == 7
    assert sorted(tuple(tokens) for batch in calls for tokens in batch) == sorted(seen)
    assert found["STSOwn"]["all"]["pearson"] > 0.3


def test_an_empty_sentence_is_a_full_stop():
    batches = []
    SentEvalEncoder(lambda params, batch: batches.append(batch) or np.ones((len(batch), 2)))(["", "a  b"])
    assert batches == [[["."], ["a", "b"]]]


def test_params_are_a_copy_with_sentevals_defaults():
    given = {"seed": 5, "model": object()}
    params = SentEvalEncoder(mean, None, given).params
    assert (params.seed, params["batch_size"], params.usepytorch, params.nhid, params.kfold) == (5, 128, True, 0, 5)
    assert params.classifier == {"nhid": 0}
    assert params.model is given["model"]
    params.new = 1
    params.classifier["nhid"] = 50
    assert "new" not in given
    assert SentEvalEncoder(mean).params.classifier == {"nhid": 0}


def test_params_are_reached_by_attribute_and_by_key():
    params = Params(a=1)
    params.b = 2
    assert (params.a, params["b"], "b" in params, params.missing, "missing" in params) == (1, 2, True, None, False)
    del params.a
    assert params == {"b": 2}
    assert copy.deepcopy(params) == params


@pytest.mark.parametrize("size", [0, -1, "128", None])
def test_an_invalid_batch_size_is_refused(size):
    with pytest.raises(SemanticsError, match=f"batch_size is {size!r}"):
        SentEvalEncoder(mean, None, {"batch_size": size})


@pytest.mark.parametrize(
    ("batcher", "message"),
    [
        (lambda params, batch: np.ones((len(batch) + 1, 2)), r"2 sentences from 'bb': .* shape \(3, 2\)"),
        (
            lambda params, batch: np.ones((len(batch), len(batch))),
            "sentence 'a': .* width 1 and .* after width 2",
        ),
        (lambda params, batch: np.full((len(batch), 2), np.inf), "sentence 'bb': .* NaN or infinity"),
    ],
)
def test_an_invalid_batch_is_refused(batcher, message):
    with pytest.raises(SemanticsError, match=message):
        embed(SentEvalEncoder(batcher, params={"batch_size": 2}), ["a", "bb", "cc"])


@pytest.mark.slow
def test_the_published_pair_gives_sentevals_own_scores(real_data):
    spec = importlib.util.spec_from_file_location("hash_encoder", real_data / "reference" / "hash_encoder.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scores = json.loads((real_data / "reference/senteval_scores_hash_encoder.json").read_text())["tasks"]
    found = evaluate(SentEvalEncoder(module.batcher, module.prepare), list(SUBTASKS), real_data / "senteval")
    for task, subtasks in SUBTASKS.items():
        for subtask in subtasks:
            assert found[task][subtask]["pearson"] == pytest.approx(scores[task][subtask]["pearson"], abs=1e-9)
            assert found[task][subtask]["spearman"] == pytest.approx(scores[task][subtask]["spearman"], abs=1e-3)
