"""Logistic regression and protocols of SentEval, against plain loops."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from sightword.errors import SemanticsError
from sightword.evaluation.semantics import classifier
from sightword.evaluation.semantics.classification_data import ClassificationTask, Labelled
from sightword.evaluation.semantics.classifier import AdamRegression, check_folds, classify
from sightword.evaluation.semantics.encoding import Embeddings, Inputs
from sightword.statistics.inference import proportion_interval


def examples(count, seed, classes=3, width=6, kind="vector", dtype=np.float32):
    """Vectors around one centre for each class, so that some but not all can be told apart."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    centres = np.random.default_rng(99).standard_normal((classes, width))
    vectors = (centres[labels] + 1.5 * random.standard_normal((count, width))).astype(dtype)
    rows = np.arange(count)
    second = None if kind == "vector" else np.roll(rows, 1)
    return Inputs(torch.from_numpy(vectors), kind, rows, second, labels)


def features(part):
    """In numpy, as SentEval stacks them."""
    u = part.vectors.numpy()[part.first]
    if part.second is None:
        return u
    v = part.vectors.numpy()[part.second]
    if part.features == "compared":
        return np.c_[np.abs(u - v), u * v]
    if part.features == "directed":
        return np.c_[u, v, np.abs(u - v)]
    return np.hstack((u, v, u * v, np.abs(u - v)))


def plain_fit(x, y, classes, penalty, seed, dev=None, most_epochs=200):
    """SentEval's classifier with autograd and torch's Adam: (dev accuracy, layer, epochs)."""
    draw = np.random.RandomState(seed).permutation  # numpy's global generator, as it is after np.random.seed(seed)
    torch.manual_seed(seed)
    layer = torch.nn.Linear(x.shape[1], classes)
    optimiser = torch.optim.Adam(layer.parameters(), weight_decay=penalty)
    if dev is None:
        shuffled = draw(len(x))
        cut = int(0.05 * len(x))
        dev = x[shuffled[:cut]], y[shuffled[:cut]]
        x, y = x[shuffled[cut:]], y[shuffled[cut:]]
    x, y = torch.FloatTensor(x), torch.LongTensor(y)
    dev_x, dev_y = torch.FloatTensor(dev[0]), torch.LongTensor(dev[1])
    best_accuracy, best, epoch, worse, stop = -1, None, 0, 0, False
    while not stop and epoch <= most_epochs:
        for _ in range(4):
            order = torch.from_numpy(draw(len(x)))
            for start in range(0, len(x), 64):
                rows = order[start : start + 64]
                loss = torch.nn.functional.cross_entropy(layer(x[rows]), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        epoch += 4
        with torch.no_grad():
            found = int((layer(dev_x).max(1)[1] == dev_y).sum()) / len(dev_y)
        if found > best_accuracy:
            best_accuracy, best = found, copy.deepcopy(layer)
        else:
            stop = worse >= 5
            worse += 1
    return best_accuracy, best, epoch


def part(count, seed, classes, pairs):
    """Sentences that say their own class, most of the time."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    noisy = np.where(random.random(count) < 0.8, labels, random.integers(0, classes, count))
    first = [f"{seed} {number} {name}" for number, name in enumerate(noisy)]
    second = [f"{text} 0" for text in first] if pairs else None
    return Labelled(first, second, labels)


def vector(sentence):
    return np.random.default_rng([int(word) for word in sentence.split()]).standard_normal(5) + 2 * int(
        sentence.split()[2]
    )


def task_and_vectors(name, protocol, tmp_path, classes=2, features="vector", train=60, dtype=np.float64):
    pairs = features != "vector"
    test = None if protocol == "nested" else part(40, 2, classes, pairs)
    dev = part(30, 3, classes, pairs) if protocol == "split" else None
    names = tuple("abcdef"[:classes])
    task = ClassificationTask(
        name, tmp_path, names, features, protocol, part(train, 1, classes, pairs), dev, test, regularised=name != "SNLI"
    )
    sentences = sorted(set(task.sentences()))
    return task, Embeddings(sentences, np.array([vector(sentence) for sentence in sentences], dtype=dtype))


def arrays(part, vectors, features):
    u = vectors.of(part.first)
    if features == "vector":
        return u, part.labels
    v = vectors.of(part.second)
    columns = (np.abs(u - v), u * v) if features == "compared" else (u, v, u * v, np.abs(u - v))
    return np.hstack(columns), part.labels


class Adam:
    grid = (1e-5, 1e-4, 1e-3, 1e-2)

    def __init__(self, classes, seed):
        self.classes, self.seed = classes, seed

    def score(self, x, y, test_x, test_y, strength):
        return plain_fit(x, y, self.classes, strength, self.seed, (test_x, test_y))[0]

    def predict(self, x, y, test_x, strength, dev=None):
        layer = plain_fit(x, y, self.classes, strength, self.seed, dev)[1]
        return layer(layer.weight.new_tensor(test_x)).argmax(1).numpy()


def chosen(plain, grid, x, y, folds, seed):
    """One mean accuracy for each regularisation, rounded; the first best."""
    scores = []
    for strength in grid:
        each = [
            plain.score(x[rest], y[rest], x[fold], y[fold], strength)
            for rest, fold in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y)
        ]
        scores.append(round(100 * np.mean(each), 2))
    return grid[int(np.argmax(scores))], max(scores)


def test_nested_folds_agree_with_a_plain_loop(tmp_path):
    seed, folds = 4, 2
    task, vectors = task_and_vectors("MR", "nested", tmp_path)
    x, y = arrays(task.train, vectors, task.features)
    plain = Adam(2, seed)
    dev, test = [], []
    for rest, fold in StratifiedKFold(folds, shuffle=True, random_state=1111).split(x, y):
        strength, best = chosen(plain, plain.grid, x[rest], y[rest], folds, 1111)
        dev.append(best)
        right = np.mean(plain.predict(x[rest], y[rest], x[fold], strength) == y[fold])
        test.append(round(100 * right, 2))
    found, _ = classify(task, vectors, kfold=folds, seed=seed)
    expected = round(np.mean(test), 2)
    assert found == {
        "accuracy": expected,
        "accuracy_ci95": proportion_interval(expected, 60),
        "dev_accuracy": round(np.mean(dev), 2),
        "test": 60,
    }
    assert found["accuracy"] not in (50, 100)  # so that the comparison says something


def test_folds_and_a_test_set_agree_with_a_plain_loop(tmp_path):
    seed = 4
    task, vectors = task_and_vectors("MRPC", "folds", tmp_path, features="compared")
    x, y = arrays(task.train, vectors, task.features)
    test_x, test_y = arrays(task.test, vectors, task.features)
    plain = Adam(2, seed)
    strength, best = chosen(plain, plain.grid, x, y, 4, seed)
    predicted = plain.predict(x, y, test_x, strength)
    found, _ = classify(task, vectors, kfold=4, seed=seed)
    accuracy = round(100 * np.mean(predicted == test_y), 2)
    assert found == {
        "accuracy": accuracy,
        "accuracy_ci95": proportion_interval(accuracy, 40),
        "dev_accuracy": best,
        "f1": round(100 * f1_score(test_y, predicted), 2),
        "test": 40,
    }


@pytest.mark.parametrize(("name", "features"), [("SICKEntailment", "compared"), ("SNLI", "all"), ("SST2", "vector")])
def test_a_split_agrees_with_a_plain_loop(tmp_path, name, features):
    task, vectors = task_and_vectors(name, "split", tmp_path, 3, features, dtype=np.float32)
    (x, y), dev, (test_x, test_y) = (arrays(p, vectors, features) for p in (task.train, task.dev, task.test))
    plain = Adam(3, 1111)
    grid = plain.grid if name != "SNLI" else [1e-9]
    scores = [round(100 * plain.score(x, y, *dev, strength), 2) for strength in grid]
    predicted = plain.predict(x, y, test_x, grid[int(np.argmax(scores))], dev)
    found, _ = classify(task, vectors)
    assert found["dev_accuracy"] == max(scores)
    assert found["accuracy"] == round(100 * np.mean(predicted == test_y), 2)
    assert (found["test"], "f1" in found) == (40, False)


def silent(protocol, tmp_path, value, test_labels=None):
    """Four of five examples are of class 0; all vectors are the same."""
    labels = (np.arange(500) % 5 == 0).astype(np.int64)
    sentences = [str(number) for number in range(500)]
    train = Labelled(sentences, None, labels)
    other = Labelled(sentences[:50], None, labels[:50] if test_labels is None else test_labels)
    test = None if protocol == "nested" else other
    dev = other if protocol == "split" else None
    task = ClassificationTask("MRPC", tmp_path, ("0", "1"), "vector", protocol, train, dev, test)
    return task, Embeddings(sentences, np.full((500, 100), value))


@pytest.mark.parametrize("value", [0.0, 0.3])
@pytest.mark.parametrize("protocol", ["nested", "folds", "split"])
def test_a_constant_encoder_predicts_the_largest_class(tmp_path, value, protocol):
    found, _ = classify(*silent(protocol, tmp_path, value), kfold=2)
    assert (found["accuracy"], found["dev_accuracy"]) == (80.0, 80.0)
    assert found.get("f1", 0.0) == 0.0


@pytest.mark.parametrize(
    ("protocol", "counts", "folds", "message"),
    [
        ("folds", (30, 4), 5, "task MR: has 4 examples of the class b; expected enough for 5 folds. Lower"),
        ("nested", (30, 6), 5, "has 6 examples of the class b; expected enough for 5 folds within each of as many"),
        ("folds", (9, 10), 5, "has 19 training examples; expected enough to hold out 5% of them"),
        ("nested", (12, 12), 5, "has 24 training examples; expected enough to hold out 5% of them"),
    ],
)
def test_too_few_examples_for_the_folds_are_reported(tmp_path, protocol, counts, folds, message):
    labels = np.repeat([0, 1], counts)
    sentences = [str(number) for number in range(len(labels))]
    test = None if protocol == "nested" else Labelled(["0"], None, np.array([0]))
    task = ClassificationTask(
        "MR", tmp_path, ("a", "b"), "vector", protocol, Labelled(sentences, None, labels), test=test
    )
    for check in (lambda: check_folds(task, folds), lambda: classify(task, Embeddings([], []), kfold=folds)):
        with pytest.raises(SemanticsError) as caught:
            check()
        assert message in str(caught.value)
        assert str(tmp_path) in str(caught.value)
    enough = int(10 * folds)
    more = Labelled([str(number) for number in range(2 * enough)], None, np.repeat([0, 1], enough))
    check_folds(ClassificationTask("MR", tmp_path, ("a", "b"), "vector", protocol, more, test=test), folds)


GRID = [1e-5, 1e-4, 1e-3, 1e-2]


@pytest.mark.parametrize(
    ("kind", "classes", "dtype"), [("vector", 2, np.float32), ("compared", 3, np.float64), ("all", 3, np.float32)]
)
def test_joint_fits_equal_separate_fits(kind, classes, dtype):
    train = examples(150, 1, classes, kind=kind, dtype=dtype)
    dev = examples(70, 2, classes, kind=kind, dtype=dtype)
    found = AdamRegression(classes, seed=7).scan(train, dev, GRID)
    for (score, layer), penalty in zip(found, GRID, strict=True):
        expected, plain, _ = plain_fit(features(train), train.labels, classes, penalty, 7, (features(dev), dev.labels))
        assert score == expected
        torch.testing.assert_close(layer.weight, plain.weight, rtol=0, atol=2e-6)
        torch.testing.assert_close(layer.bias, plain.bias, rtol=0, atol=2e-6)


def test_each_fit_stops_by_its_own_accuracy():
    train, dev = examples(150, 8), examples(70, 9)
    ends = [plain_fit(features(train), train.labels, 3, p, 1111, (features(dev), dev.labels))[2] for p in [0.0, 1.0]]
    assert ends[0] != ends[1]  # so that the comparison says something
    seen = []
    together = AdamRegression(3, on_round=seen.append).scan(train, dev, [0.0, 1.0])
    assert seen == list(range(4, max(ends) + 1, 4))
    for penalty, (score, layer) in zip([0.0, 1.0], together, strict=True):
        ((alone, other),) = AdamRegression(3).scan(train, dev, [penalty])
        assert score == alone
        torch.testing.assert_close(layer.weight, other.weight, rtol=0, atol=1e-6)


def test_a_fit_that_keeps_getting_better_ends_past_200_epochs(monkeypatch):
    train, dev = examples(30, 1), examples(30, 2)
    looks = iter(range(1000))
    monkeypatch.setattr(classifier._Fits, "right", lambda self, dev: [next(looks)])
    seen = []
    AdamRegression(3, on_round=seen.append).scan(train, dev, [0.0])
    assert seen[-1] == 204


def test_without_dev_examples_a_twentieth_is_held_out():
    train, test = examples(210, 5), examples(100, 6)
    _, plain, _ = plain_fit(features(train), train.labels, 3, 1e-3, 1111)
    fitted = AdamRegression(3).final(train, 1e-3)
    torch.testing.assert_close(fitted.weight, plain.weight, rtol=0, atol=2e-6)
    with torch.no_grad():
        assert fitted.predict(test).tolist() == plain(torch.from_numpy(features(test))).argmax(1).tolist()
