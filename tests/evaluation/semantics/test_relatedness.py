"""The cosine, the trained head and the cosine of n-grams, against plain loops."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sightword.errors import SemanticsError
from sightword.evaluation.semantics import relatedness
from sightword.evaluation.semantics.encoding import Inputs
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.relatedness import TfIdf, cosine, train_head

vectors = hnp.arrays(np.float32, (4, 3), elements=st.floats(-1e3, 1e3, width=32))


@given(vectors, vectors)
def test_cosines_agree_with_a_plain_loop_in_float64(first, second):
    for a, b, found in zip(first.astype(float), second.astype(float), cosine(first, second), strict=True):
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        if min(np.linalg.norm(a), np.linalg.norm(b)) > 1e-100:
            assert found == pytest.approx(np.dot(a, b) / norms, abs=1e-12)
        elif norms == 0:
            assert found == 0


@given(hnp.arrays(np.float64, (5, 7), elements=st.floats(-1e300, 1e300)))
def test_equal_vectors_tie_at_exactly_1(rows):
    assert set(cosine(rows, rows)) <= {0.0, 1.0}
    assert (cosine(rows, rows)[rows.any(axis=1)] == 1).all()


def examples(count, seed, width=6):
    random = np.random.default_rng(seed)
    first = random.standard_normal((count, width)).astype(np.float32)
    share = random.random(count)
    second = share[:, None] * first + (1 - share[:, None]) * random.standard_normal((count, width))
    return pairs(first, second.astype(np.float32), 5 * share)


def pairs(first, second, gold):
    rows = np.arange(len(gold))
    return Inputs(torch.from_numpy(np.concatenate([first, second])), "compared", rows, rows + len(gold), gold)


def senteval_head(train, dev, test, seed):
    """SentEval's loop with autograd, written as its code reads."""

    def features(part):
        first, second = (part.vectors.numpy()[rows] for rows in (part.first, part.second))
        return torch.from_numpy(np.c_[np.abs(first - second), first * second].astype(np.float32))

    targets = np.zeros((len(train), 5), np.float32)
    for row, score in enumerate(train.labels):
        for column in range(5):
            if column + 1 == np.floor(score) + 1:
                targets[row, column] = score - np.floor(score)
            if column + 1 == np.floor(score):
                targets[row, column] = np.floor(score) - score + 1
    x, y = features(train), torch.from_numpy(targets)
    generator = np.random.RandomState(seed)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 5), torch.nn.Softmax(dim=1))
    optimiser = torch.optim.Adam(model.parameters())
    best, answer, worse, epoch, stop = -1.0, None, 0, 0, False
    while not stop and epoch <= relatedness.MOST_EPOCHS:
        for _ in range(relatedness.CHECK_EVERY):
            order = generator.permutation(len(x))
            for start in range(0, len(x), 64):
                rows = torch.from_numpy(order[start : start + 64])
                loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        epoch += relatedness.CHECK_EVERY
        with torch.no_grad():
            r = np.corrcoef(model(features(dev)).numpy() @ np.arange(1, 6), dev.labels)[0, 1]
            if r > best:
                best, answer = r, model(features(test)).numpy() @ np.arange(1, 6)
            else:
                stop = worse >= 3
                worse += 1
    return best, answer


@pytest.mark.parametrize(("every", "most"), [(5, 1000), (10, 100)])
def test_the_head_is_sentevals(monkeypatch, every, most):
    monkeypatch.setattr(relatedness, "CHECK_EVERY", every)
    monkeypatch.setattr(relatedness, "MOST_EPOCHS", most)
    train, dev, test = examples(150, 1), examples(60, 2), examples(30, 3)
    with torch.random.fork_rng(devices=[]):
        best, answer = senteval_head(train, dev, test, 1111)
    found = train_head(train, dev, test, seed=1111)
    assert found.dev_pearson == pytest.approx(best, abs=1e-4)
    np.testing.assert_allclose(found.predicted, answer, atol=2e-3)


def test_the_head_learns_and_depends_on_its_seed_alone(monkeypatch):
    monkeypatch.setattr(relatedness, "MOST_EPOCHS", 100)
    train, dev, test = examples(200, 1), examples(60, 2), examples(100, 3)
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    found = [train_head(train, dev, test, seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0].predicted, found[1].predicted)
    assert not np.array_equal(found[0].predicted, found[2].predicted)
    assert np.corrcoef(found[0].predicted, test.labels)[0, 1] > 0.7
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_a_head_that_scores_all_dev_pairs_equally_gives_none(monkeypatch):
    monkeypatch.setattr(relatedness, "CHECK_EVERY", 2)
    same = np.ones((9, 4), np.float32)
    part = pairs(same, same, np.linspace(1, 5, 9))
    assert train_head(part, part, part) is None


TEXT = st.text("ab. Aü\t\u3000", max_size=8)


def grams(text: str) -> Counter[str]:
    framed = re.sub(r"\s+", " ", " " + text + " ")
    return Counter(framed[start : start + size] for size in (2, 3, 4) for start in range(len(framed) - size + 1))


def plain_cosine(captions: list[str], first: str, second: str) -> float:
    known = [set(grams(caption)) for caption in captions]

    def vector(text: str) -> dict[str, float]:
        return {
            gram: count * math.log((len(captions) + 1) / (1 + sum(gram in own for own in known)))
            for gram, count in grams(text).items()
        }

    a, b = vector(first), vector(second)
    lengths = math.sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    return sum(value * b.get(gram, 0.0) for gram, value in a.items()) / lengths if lengths else 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=6), st.lists(st.tuples(TEXT, TEXT), max_size=6))
def test_cosines_are_those_of_a_plain_dictionary(captions, pairs) -> None:
    pairs = [*pairs, ("ab a", "ab b"), ("", "ab")]
    first, second = (list(side) for side in zip(*pairs, strict=True))
    control = TfIdf(captions)
    control.prepare([*first, *second])
    expected = [plain_cosine(captions, *pair) for pair in pairs]
    np.testing.assert_allclose(control.cosines(first, second), expected, atol=1e-12)


@pytest.mark.parametrize("end", ["", " \t\n"])
def test_an_empty_text_and_unseen_characters_have_a_cosine(end) -> None:
    control = TfIdf(["a dog", "a cat"])
    first, second = ["" + end, "ξψ", "ξψ", "a dog" + end], ["a dog", "ξψ", "a dog", "a dog"]
    control.prepare([*first, *second])
    np.testing.assert_allclose(control.cosines(first, second), [0, 1, 0, 1], atol=1e-12)


def test_no_caption_is_refused() -> None:
    with pytest.raises(SemanticsError, match="there are no captions to count n-grams in"):
        TfIdf([])


def test_controls_stand_beside_the_scores_of_each_task(data, bag_encoder) -> None:
    captions = ["a red dog runs", "the man sits on the park", "a blue ball"]
    tasks = ["STSOwn", "SICKRelatedness"]

    def other(sentences):
        return bag_encoder([sentence[:6] for sentence in sentences])

    found = evaluate(bag_encoder, tasks, data, controls={"tfidf": TfIdf(captions), "untrained": other})
    plain, alone = evaluate(bag_encoder, tasks, data), evaluate(other, tasks, data)
    assert {name: found[name] for name in tasks} == plain.metrics
    assert found["controls"]["untrained"] == {
        "STSOwn": {name: alone["STSOwn"][name]["pearson"] for name in ("park.life", "street", "mean")},
        "SICKRelatedness": {
            "cosine": alone["SICKRelatedness"]["cosine"]["pearson"]
        },  # no head is trained for a control
    }
    pairs = next(row.pairs for row in found.judged if row.subtask == "street")
    scores = [plain_cosine(captions, *pair) for pair in zip(pairs.first, pairs.second, strict=True)]
    tfidf = found["controls"]["tfidf"]
    assert tfidf["STSOwn"]["street"] == pytest.approx(np.corrcoef(scores, pairs.gold)[0, 1])
    assert tfidf["STSOwn"]["mean"] == pytest.approx((tfidf["STSOwn"]["street"] + tfidf["STSOwn"]["park.life"]) / 2)
    assert tfidf["SICKRelatedness"].keys() == {"cosine"}
    assert "chance" not in found["controls"]


def test_chance_is_the_most_frequent_class_of_the_test_examples(published) -> None:
    def encode(sentences: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("a")] for text in sentences], float)

    control = {"tfidf": TfIdf(["a film"]), "untrained": encode}
    found = evaluate(encode, ["SST2"], published, controls=control)
    assert found["controls"]["chance"] == {"SST2": 50.0}  # two test examples, one of each class
    assert found["controls"]["untrained"] == {"SST2": found["SST2"]["accuracy"]}
    assert found["controls"]["tfidf"] == {}
