"""Scores of entailment, baselines and the classifier, against hand-made numbers, brute force and closed forms."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import chi2

from sightword.compute.devices import threads
from sightword.entailment import classifiers
from sightword.entailment.classifiers import classify, energies_of
from sightword.entailment.data.pairs import SentencePairs, premise_numbers
from sightword.entailment.judging import System, judge, parts, significance, three_classes
from sightword.entailment.settings import NetworkSettings
from sightword.evaluation.semantics.encoding import Inputs
from sightword.io.opening import lines

E, N, C = "entailment", "neutral", "contradiction"


def pairs_of(*rows, source="here"):
    return SentencePairs.of([(*row, source) for row in rows])


def test_one_long_premise_costs_its_own_letters():
    tracemalloc.start()
    numbers = premise_numbers(["dog " * 25_000, *["a cat", "A cat"] * 500])
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    assert numbers.tolist() == [1] + [0] * 1000


def test_a_confusion_by_hand():
    rows = [("a dog runs", "an animal runs", E, "one"), ("a dog runs in the park", "a dog runs", E, "one"),
            ("a dog runs", "a cat sleeps", C, "one"), ("a dog", "a brown dog", N, "two"),
            ("a dog", "a dog .", N, "two")]  # fmt: skip
    pairs = SentencePairs.of(rows)
    energies = np.array([0.1, 0.9, 0.5, 0.2, 0.3])
    found = judge(energies, pairs.entailed, parts(pairs), 0.4, premise_numbers(pairs.premises))
    # Accepted: rows 1, 4 and 5. Right: rows 1 and 3.
    assert (found["accuracy"], found["pairs"], found["threshold"]) == (40.0, 5, 0.4)
    # Three premises: rows 1 and 3, row 2, rows 4 and 5. Their sums of (right - 0.4) are 1.2, -0.4 and -0.8.
    # Their variance, 3 / 2 (1.44 + 0.16 + 0.64) / 5^2, is that of 0.4 * 0.6 / 0.1344 = 1.7857 cases.
    assert found["accuracy_ci95"] == pytest.approx([5.7778, 87.8756], abs=1e-4)
    assert found["f1"] == pytest.approx(200 * 1 / (3 + 2), abs=1e-5)
    assert found["auc"] == pytest.approx(3 / 6)  # of six (entailed, other) pairs three are in order
    assert found["average_precision"] == pytest.approx((1 / 1 + 2 / 5) / 2, abs=1e-6)
    right = {name: (one["accuracy"], one["pairs"]) for name, one in found["class"].items()}
    assert right == {E: (50.0, 2), N: (0.0, 2), C: (100.0, 1)}
    assert found["class"][E]["accuracy_ci95"] == pytest.approx([5.4619, 94.5381], abs=1e-4)
    sources = {name: one["accuracy"] for name, one in found["source"].items()}
    assert sources == {"one": pytest.approx(66.666667), "two": 0.0}


def test_systems_are_compared_by_mcnemars_test_over_premises_with_holms_correction():
    right = np.ones((3, 40), bool)
    right[1, :9] = False  # only the first is right
    right[2, 8] = False
    # The eight pairs that only one classifies correctly have two premises: a statistic of 8^2 / (2 * 4^2), and of
    # (8 + 1)^2 / (2 * 4^2 + 1) with the ninth.
    found = significance(dict(zip("abc", right, strict=True)), np.array([0] * 4 + [1] * 4 + [*range(2, 34)]))
    assert list(found) == ["a_vs_b", "a_vs_c", "b_vs_c"]
    p = {"a_vs_b": chi2.sf(81 / 33, 1), "a_vs_c": chi2.sf(1, 1), "b_vs_c": chi2.sf(2, 1)}
    assert {key: one["p"] for key, one in found.items()} == pytest.approx(p)
    assert [found[key]["holm"] for key in p] == pytest.approx([3 * p["a_vs_b"]] * 3)  # the others are not below
    assert (found["b_vs_c"]["only_first"], found["b_vs_c"]["only_second"]) == (0, 8)
    assert found["b_vs_c"]["difference"] == pytest.approx(-20.0)


def test_three_classes_by_hand():
    pairs = pairs_of(("a", "b", E), ("a", "c", E), ("d", "b", N), ("e", "f", C))
    systems = [
        System("energy", np.zeros(0), np.zeros(4), np.zeros(4), 0.0),
        System("one", np.zeros(0), np.zeros(4), np.zeros(4), 0.0, np.array([2, 0, 0, 1])),
        System("other", np.zeros(0), np.zeros(4), np.zeros(4), 0.0, np.full(4, 2)),
    ]
    found = three_classes(systems, pairs, premise_numbers(pairs.premises))
    assert {name: one["accuracy"] for name, one in found["systems"].items()} == {"one": 75.0, "other": 50.0}
    by_class = {label: one["accuracy"] for label, one in found["systems"]["one"]["class"].items()}
    assert by_class == {E: 50.0, N: 100.0, C: 100.0}
    ((name, test),) = found["significance"].items()
    assert (name, test["only_first"], test["only_second"]) == ("one_vs_other", 2, 1)


def test_the_energy_of_logits_is_minus_the_log_odds_of_entailment():
    logits = np.random.default_rng(0).standard_normal((9, 3))
    share = softmax(logits, axis=1)[:, 2]
    assert energies_of(logits) == pytest.approx(np.log((1 - share) / share))
    assert energies_of(logits[:, 1:]).tolist() == (logits[:, 1] - logits[:, 2]).tolist()


def test_new_words_are_counted_once_without_case_and_signs():
    pairs = pairs_of(
        ("A dog runs.", "The dog , the dog sleeps !", N), ("A dog.", "a DOG", E), ("A dog", ". ,", N), ("", "dog", N)
    )
    assert classifiers.new_words(pairs).tolist() == pytest.approx([2 / 3, 0.0, 0.0, 1.0])


def snli(real_data, part):
    folder = real_data / "senteval/downstream/SNLI"
    columns = ([line for _, line in lines(folder / f"{name}.{part}")] for name in ("s1", "s2", "labels"))
    return pairs_of(*zip(*columns, strict=True), source="SNLI")


def test_majority_and_new_words_on_snli(real_data):
    dev, test = snli(real_data, "dev"), snli(real_data, "test")
    assert (len(dev), len(test)) == (9842, 9824)
    for baseline, expected in ((lambda pairs: np.zeros(len(pairs)), 65.7), (classifiers.new_words, 72.2)):
        system = System.chosen("x", [baseline(part) for part in (dev, test, test)], dev.entailed)
        assert 100 * system.right(test.entailed).mean() == pytest.approx(expected, abs=0.1)


def biased(number, seed):
    """Pairs whose hypothesis reveals the label in nine of ten cases."""
    draw = np.random.default_rng(seed)
    rows = []
    for _ in range(number):
        label = draw.choice([E, N, C])
        word = "outdoors" if (label == E) != (draw.random() < 0.1) else "nobody"
        rows.append((f"a dog {draw.integers(9)}", f"{word} is {draw.choice(['a', 'b', 'c'])}", label))
    return pairs_of(*rows)


def test_the_hypothesis_alone_reveals_a_bias_and_never_sees_the_premise():
    train, dev, test = biased(400, 0), biased(100, 1), biased(200, 2)
    found = classifiers.hypothesis_only(train, dev, [dev, test], features=50, classes=2, seed=0)
    system = System.chosen("x", [energies_of(found[place]) for place in (0, 1, 1)], dev.entailed)
    word = np.array(["outdoors" in text for text in test.hypotheses])
    assert ((test.entailed == word) == system.right(test.entailed)).all()
    for one in (train, dev, test):
        one.premises[:] = ["another"] * len(one)
    again = classifiers.hypothesis_only(train, dev, [dev, test], features=50, classes=2, seed=0)
    assert [a.tolist() for a in again] == [a.tolist() for a in found]


def examples(number, seed, classes=2):
    """Pairs of vectors that are entailed where the premise's first number is larger; the second parts the rest."""
    draw = np.random.default_rng(seed)
    vectors = draw.standard_normal((2 * number, 4)).astype(np.float32)
    first, second = np.arange(number), np.arange(number, 2 * number)
    entailed, other = (vectors[first, place] > vectors[second, place] for place in (0, 1))
    labels = np.where(entailed, classes - 1, other & (classes == 3)).astype(np.int64)
    return Inputs(torch.from_numpy(vectors), "directed", first, second, labels)


def test_the_classifier_learns_a_direction_with_the_same_bytes(monkeypatch):
    monkeypatch.setattr(classifiers, "BATCH", 40)
    train, dev, test = examples(1201, 0), examples(200, 1), examples(400, 2)
    settings = NetworkSettings(hidden=40, epochs=8, dropout=0.2)
    turned = replace(test, first=test.second, second=test.first)
    found = []
    for number in (1, 2):
        with threads(number):
            torch.manual_seed(number)
            found.append(classify(train, dev, [dev, test, turned], settings, seed=3, device=torch.device("cpu")))
            assert torch.initial_seed() == number
    assert [one.tobytes() for one in found[0]] == [one.tobytes() for one in found[1]]
    labels = [part.labels.astype(bool) for part in (dev, test)]
    energies = [energies_of(one) for one in found[0]]
    system = System.chosen("x", energies, labels[0])
    assert system.right(labels[1]).mean() > 0.9
    assert ((energies[1] < energies[2]) == labels[1]).mean() > 0.9  # lower in the direction that is entailed


def plain_normalised(values, state, training):
    """Batch normalisation without torch's module; ``state`` is (scale, shift, mean, variance)."""
    scale, shift, mean, variance = state
    if training:
        own = values.mean(0), values.var(0, unbiased=False)
        rows = len(values)
        state[2] = 0.9 * mean + 0.1 * own[0].detach()
        state[3] = 0.9 * variance + 0.1 * own[1].detach() * rows / (rows - 1)
        mean, variance = own
    return scale * (values - mean) / (variance + 1e-5).sqrt() + shift


def plain_logits(pairs, rows, weights, states, dropout, training):
    """The network of section 5.4 of Vendrov et al. (2016), line by line."""
    u, v = (pairs.vectors[torch.from_numpy(side[rows])] for side in (pairs.first, pairs.second))
    values = torch.nn.functional.dropout(torch.cat([u, v, (u - v).abs()], 1), dropout, training)
    for (weight, bias), slope, state in zip(weights[:2], weights[3], states, strict=True):
        values = plain_normalised(values @ weight.T + bias, state, training)
        values = torch.where(values > 0, values, slope * values)
        values = torch.nn.functional.dropout(values, dropout, training)
    weight, bias = weights[2]
    return values @ weight.T + bias


@pytest.mark.parametrize("classes", [2, 3])
def test_the_classifier_equals_a_plain_loop(classes, monkeypatch):
    monkeypatch.setattr(classifiers, "BATCH", 40)
    train, dev, test = examples(150, 0, classes), examples(60, 1, classes), examples(90, 2, classes)
    settings = NetworkSettings(hidden=9, epochs=4, dropout=0.4, classes=classes)
    outputs = 1 if classes == 2 else 3
    (found,) = classify(train, dev, [test], settings, seed=5, device=torch.device("cpu"))
    with torch.random.fork_rng():
        torch.manual_seed(5)
        layers = [torch.nn.Linear(inputs, outputs) for inputs, outputs in ((12, 9), (9, 9), (9, outputs))]
        slopes = [torch.full((9,), 0.25, requires_grad=True) for _ in range(2)]
        states = [[torch.ones(9), torch.zeros(9), torch.zeros(9), torch.ones(9)] for _ in range(2)]
        for state in states:
            state[:2] = (one.requires_grad_() for one in state[:2])
        learned = [one for layer in layers for one in (layer.weight, layer.bias)]
        learned += [*slopes, *(one for state in states for one in state[:2])]
        weights = [*((layer.weight, layer.bias) for layer in layers), slopes]
        moments = [[torch.zeros_like(one), torch.zeros_like(one)] for one in learned]
        order, step, best = np.random.default_rng(5), 0, (-1.0, None)
        for _ in range(4):
            shuffled = order.permutation(150)
            for rows in (shuffled[:40], shuffled[40:80], shuffled[80:120], shuffled[120:]):
                logits = plain_logits(train, rows, weights, states, 0.4, True)
                labels = torch.from_numpy(train.labels[rows])
                if classes == 2:
                    losses = torch.log1p((-(2 * labels - 1) * logits[:, 0]).exp())
                else:
                    losses = torch.logsumexp(logits, 1) - logits[torch.arange(len(rows)), labels]
                gradients = torch.autograd.grad(losses.mean(), learned)
                step += 1
                for one, (first, second), gradient in zip(learned, moments, gradients, strict=True):
                    first.mul_(0.9).add_(0.1 * gradient)
                    second.mul_(0.999).add_(0.001 * gradient**2)
                    moved = first / (1 - 0.9**step) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
                    one.data -= classifiers.RATE * moved
            with torch.no_grad():
                every = slice(None)
                judged, logits = (plain_logits(part, every, weights, states, 0.4, False) for part in (dev, test))
            if classes == 2:
                accuracy = max(((judged[:, 0] >= cut).numpy() == (dev.labels == 1)).mean() for cut in judged[:, 0])
            else:
                accuracy = (judged.argmax(1).numpy() == dev.labels).mean()
            if accuracy > best[0]:
                best = accuracy, logits
    # Ahead of a normalisation a bias has no gradient but rounding, which Adam scales up to whole steps.
    assert found[:, -outputs:] == pytest.approx(best[1].numpy(), abs=0.005)
    assert (found[:, :-outputs] == 0).all()
