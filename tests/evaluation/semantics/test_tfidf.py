"""The cosine of weighted n-grams, against a plain dictionary."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.relatedness import TfIdf

TEXT = st.text("ab. Aü\t\u3000", max_size=8)


def grams(text: str) -> Counter[str]:
    framed = re.sub(r"\s+", " ", " " + text + " ")
    return Counter(framed[start : start + size] for size in (2, 3, 4) for start in range(len(framed) - size + 1))


def cosine(captions: list[str], first: str, second: str) -> float:
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
    expected = [cosine(captions, *pair) for pair in pairs]
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
    scores = [cosine(captions, *pair) for pair in zip(pairs.first, pairs.second, strict=True)]
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
