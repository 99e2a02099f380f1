from __future__ import annotations

import importlib.util
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

import sightword
from sightword.errors import SemanticsError
from sightword.evaluation.semantics import relatedness
from sightword.evaluation.semantics.datasets import SUBTASKS, read_task
from sightword.evaluation.semantics.encoding import Embeddings, embed, inputs_of
from sightword.evaluation.semantics.evaluation import UNCHOSEN, evaluate
from sightword.evaluation.semantics.relatedness import cosine, train_head
from sightword.evaluation.semantics.results import CONSTANT, Seen, bare, mean_of_seven
from sightword.evaluation.semantics.settings import TASKS as SEVEN
from sightword.statistics.inference import fisher_interval, pearson, spearman

TASKS = ["STSOwn", "STSBenchmark", "SICKRelatedness"]


def test_the_result_has_the_keys_of_the_metrics_file(data, bag_encoder):
    found = sightword.evaluate(bag_encoder, TASKS, data, ["a man"])
    assert list(found) == TASKS
    assert list(found["STSOwn"]) == ["park.life", "street", "mean", "weighted_mean", "all"]
    numbers = ["pearson", "spearman", "pairs", "pearson_ci95", "spearman_ci95"]
    keys = [*numbers, "seen_in_training", "pairs_seen", "unseen"]
    assert list(found["STSOwn"]["street"]) == keys
    assert list(found["STSOwn"]["street"]["unseen"]) == numbers
    for name in TASKS[1:]:
        assert list(found[name]) == ["cosine", "trained"]
        assert list(found[name]["cosine"]) == keys
        assert list(found[name]["trained"]) == [*keys, "dev_pearson"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_scores_are_correlations_of_cosine_and_gold(data, bag_encoder):
    found = evaluate(bag_encoder, ["STSOwn"], str(data))["STSOwn"]
    parts = read_task("STSOwn", data).subtasks
    scores = {name: cosine(bag_encoder(pairs.first), bag_encoder(pairs.second)) for name, pairs in parts.items()}
    for name, pairs in parts.items():
        assert found[name]["pearson"] == pytest.approx(pearson(scores[name], pairs.gold))
        assert found[name]["spearman"] == pytest.approx(spearman(scores[name], pairs.gold))
        assert found[name]["pearson_ci95"] == list(fisher_interval(found[name]["pearson"], len(pairs)))
    assert found["street"]["pearson"] > 0.3
    for kind in ("pearson", "spearman"):
        one, two = found["park.life"][kind], found["street"][kind]
        assert found["mean"][kind] == pytest.approx((one + two) / 2)
        assert found["weighted_mean"][kind] == pytest.approx((30 * one + 28 * two) / 58)
    together = np.concatenate([scores["park.life"], scores["street"]])
    gold = np.concatenate([parts["park.life"].gold, parts["street"].gold])
    assert found["all"]["pearson"] == pytest.approx(pearsonr(together, gold).statistic)
    assert found["all"]["spearman"] == pytest.approx(spearmanr(together, gold).statistic)


def test_the_mean_of_seven_tasks_has_each_year_as_one_list_of_pairs(data, bag_encoder):
    for number, (year, subtasks) in enumerate(SUBTASKS.items()):
        folder = data / f"downstream/STS/{year}-en-test"
        folder.mkdir()
        for shift, subtask in enumerate(subtasks, start=number):  # other scores, so that a mean of subtasks is another
            own = data / "downstream/STS/STSOwn-en-test"
            pairs = (own / "STS.input.park.life.txt").read_text().splitlines()[shift:]
            gold = (own / "STS.gs.park.life.txt").read_text().splitlines()[shift:]
            (folder / f"STS.input.{subtask}.txt").write_text("\n".join(pairs))
            (folder / f"STS.gs.{subtask}.txt").write_text("\n".join(f"{shift + float(score)}" for score in gold))
    found = evaluate(bag_encoder, SEVEN, data, trained_head=False)
    one_list = {}
    for row in found.judged:
        lists = one_list.setdefault(row.task, ([], []))
        lists[0].extend(row.scores)
        lists[1].extend(row.pairs.gold)
    assert len(one_list) == 7
    expected = np.mean([spearmanr(*lists).statistic for lists in one_list.values()])
    assert mean_of_seven(found.metrics) == pytest.approx(expected)
    assert mean_of_seven({name: found.metrics[name] for name in SEVEN[1:]}) is None


def test_the_trained_heads_batches_follow_sentevals_order_with_empty_sentences_of_length_0(
    data, bag_encoder, monkeypatch
):
    """SentEval sorts its lists of tokens; the full stop of an empty one is put in later, by the batcher."""
    monkeypatch.setattr(relatedness, "MOST_EPOCHS", 50)
    file = data / "downstream/STS/STSBenchmark/sts-train.csv"
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    # The pairs with an empty sentence have higher scores than those with one of one token, and come first all the same.
    rows[2][5], rows[4][5], rows[5][6], rows[7][6], rows[9][5] = "dog", "", "cat", "", "."
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    triples = [(row[5].split(), row[6].split(), float(row[4])) for row in rows]
    triples.sort(key=lambda one: (len(one[0]), len(one[1]), one[2]))
    first, second = ([" ".join(one[side]) or "." for one in triples] for side in (0, 1))
    task = read_task("STSBenchmark", data)
    assert (task.train.first, task.train.second) == (first, second)
    gold = np.array([one[2] for one in triples])
    texts = sorted({*first, *second, *task.dev.first, *task.dev.second, *task.test.first, *task.test.second})
    vectors = Embeddings(texts, bag_encoder(texts))
    train, dev, test = (
        inputs_of(vectors, "compared", part_first, part_second, part_gold)
        for part_first, part_second, part_gold in (
            (first, second, gold),
            (task.dev.first, task.dev.second, task.dev.gold),
            (task.test.first, task.test.second, task.test.gold),
        )
    )
    found = evaluate(bag_encoder, ["STSBenchmark"], data)["STSBenchmark"]["trained"]
    assert found["dev_pearson"] == train_head(train, dev, test).dev_pearson


def test_each_sentence_is_encoded_once_over_all_tasks(data, bag_encoder):
    calls = []

    def encode(sentences):
        calls.extend(sentences)
        return bag_encoder(sentences)

    evaluate(encode, TASKS, data)
    assert len(calls) == len(set(calls)) > 300
    everything = set(calls)
    calls.clear()
    evaluate(encode, TASKS, data, trained_head=False)
    assert set(calls) < everything  # training sentences are left alone when no head is trained


def test_unseen_pairs_have_two_unseen_sentences(data, bag_encoder):
    street = read_task("STSOwn", data).subtasks["street"]
    training = [*street.first[:9], *street.second[:4]]
    found = evaluate(bag_encoder, ["STSOwn"], data, training)["STSOwn"]["street"]
    known = set(training)
    both = [a in known and b in known for a, b in zip(street.first, street.second, strict=True)]
    neither = [a not in known and b not in known for a, b in zip(street.first, street.second, strict=True)]
    assert sum(both) >= 4
    assert found["pairs_seen"] == sum(both) / len(both)
    scores = cosine(bag_encoder(street.first), bag_encoder(street.second))[neither]
    unseen = found["unseen"]
    assert unseen["pairs"] == sum(neither) < 28
    assert unseen["pearson"] == pytest.approx(pearson(scores, street.gold[neither]))
    assert unseen["spearman"] == pytest.approx(spearman(scores, street.gold[neither]))
    assert unseen["pearson_ci95"] == list(fisher_interval(unseen["pearson"], sum(neither)))


def test_a_constant_encoder_has_undefined_correlations_with_the_reason(data):
    found = evaluate(lambda sentences: np.full((len(sentences), 333), 0.1), TASKS, data)
    for entry in (found["STSOwn"]["street"], found["STSBenchmark"]["cosine"], found["SICKRelatedness"]["trained"]):
        assert entry["pearson"] is entry["spearman"] is entry["pearson_ci95"] is None
        assert entry["undefined"] in (CONSTANT, UNCHOSEN)
    assert found["SICKRelatedness"]["trained"]["undefined"] == UNCHOSEN
    for aggregate in ("mean", "weighted_mean", "all"):
        assert found["STSOwn"][aggregate] == {"pearson": None, "spearman": None}


def test_vectors_of_zeros_are_counted(data, bag_encoder):
    street = read_task("STSOwn", data).subtasks["street"]
    silent = set(street.first[:5])
    found = evaluate(
        lambda sentences: bag_encoder(sentences) * [[sentence not in silent] for sentence in sentences],
        ["STSOwn", "STSBenchmark"],
        data,
        trained_head=False,
    )
    expected = sum(sentence in silent for sentence in [*street.first, *street.second])
    assert found["STSOwn"]["street"]["zero_vectors"] == expected >= 5
    assert "zero_vectors" not in found["STSBenchmark"]["cosine"]


@pytest.mark.parametrize("scale", [1e30, 1e200])
def test_vectors_that_are_too_large_for_the_head_are_refused(data, bag_encoder, scale):
    with pytest.raises(SemanticsError, match="so large that a classifier on them overflows"):
        evaluate(lambda sentences: bag_encoder(sentences) * scale, ["STSBenchmark"], data)
    assert evaluate(lambda sentences: bag_encoder(sentences) * scale, ["STSOwn"], data)["STSOwn"]["street"]["pearson"]


def test_missing_sets_are_an_error_or_named(data, bag_encoder):
    with pytest.raises(SemanticsError, match="task STS13: does not exist"):
        evaluate(bag_encoder, ["STSOwn", "STS13"], data)
    found = evaluate(bag_encoder, ["STSOwn", "STS13"], data, missing="skip")
    assert list(found) == ["STSOwn", "skipped"]
    assert found["skipped"] == {"STS13": "downstream/STS/STS13-en-test does not exist"}
    controls = {"none": bag_encoder}
    nothing = evaluate(bag_encoder, ["STS13"], data, missing="skip", controls=controls)
    assert nothing.metrics == {"skipped": found["skipped"]}


def test_wrong_arguments_are_refused(data, bag_encoder):
    with pytest.raises(SemanticsError, match="task STSOwn is named twice"):
        evaluate(bag_encoder, ["STSOwn", "STSOwn"], data)
    with pytest.raises(SemanticsError, match="the tasks are 'STSOwn'; expected a list of names"):
        evaluate(bag_encoder, "STSOwn", data)
    with pytest.raises(SemanticsError, match="the training captions are one text"):
        evaluate(bag_encoder, ["STSOwn"], data, "a caption")
    with pytest.raises(SemanticsError, match="training caption 1 is not a text but NoneType"):
        evaluate(bag_encoder, ["STSOwn"], data, ["a caption", None])
    with pytest.raises(SemanticsError, match="missing is 'bogus'"):
        evaluate(bag_encoder, ["STSOwn"], data, missing="bogus")
    for wrong in ({"seed": -1}, {"kfold": 1}, {"kfold": 2.5}, {"seed": True}):
        with pytest.raises(SemanticsError, match="expected a whole number from"):
            evaluate(bag_encoder, ["STSOwn"], data, **wrong)


@pytest.fixture(scope="module")
def reference(real_data):
    """(encode, SentEval's own scores with it)."""
    path = real_data / "reference" / "hash_encoder.py"
    spec = importlib.util.spec_from_file_location("hash_encoder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scores = json.loads((real_data / "reference/senteval_scores_hash_encoder.json").read_text())["tasks"]
    return lambda sentences: module.encode_batch([sentence.split() for sentence in sentences]), scores


def test_sts12_to_16_are_sentevals_own_scores(real_data, reference):
    encode, scores = reference
    found = evaluate(encode, list(SUBTASKS), real_data / "senteval")
    for task, subtasks in SUBTASKS.items():
        for subtask in subtasks:
            ours, theirs = found[task][subtask], scores[task][subtask]
            assert ours["pairs"] == theirs["nsamples"]
            assert ours["pearson"] == pytest.approx(theirs["pearson"], abs=1e-9)
            assert ours["spearman"] == pytest.approx(theirs["spearman"], abs=1e-3)
        for ours, theirs in (("mean", "mean"), ("weighted_mean", "wmean")):
            assert found[task][ours]["pearson"] == pytest.approx(scores[task]["all"]["pearson"][theirs], abs=1e-9)
            assert found[task][ours]["spearman"] == pytest.approx(scores[task]["all"]["spearman"][theirs], abs=1e-3)


@pytest.mark.parametrize(
    "task",
    [pytest.param("STSBenchmark", marks=pytest.mark.slow), pytest.param("SICKRelatedness", marks=pytest.mark.full)],
)
def test_the_trained_head_gives_sentevals_own_scores(real_data, reference, task):
    encode, scores = reference
    found = evaluate(encode, [task], real_data / "senteval")
    trained, theirs = found.metrics[task]["trained"], scores[task]
    assert trained["pairs"] == theirs["ntest"]
    assert trained["dev_pearson"] == pytest.approx(theirs["devpearson"], abs=5e-4)
    assert trained["pearson"] == pytest.approx(theirs["pearson"], abs=5e-4)
    assert trained["spearman"] == pytest.approx(theirs["spearman"], abs=1e-3)
    row = found.judged[-1]
    assert np.mean((row.scores - row.pairs.gold) ** 2) == pytest.approx(theirs["mse"], abs=2e-3)


def lengths(sentences):
    return np.array([[len(sentence), 1.0] for sentence in sentences])


def test_each_distinct_sentence_is_encoded_once_by_length():
    calls = []

    def encode(sentences):
        calls.append(sentences)
        return lengths(sentences)

    found = embed(encode, ["bb", "a", "bb", "dddd", "ccc", "a"], chunk=3)
    assert calls == [["dddd", "ccc", "bb"], ["a"]]
    np.testing.assert_array_equal(found.of(["a", "ccc", "a"]), lengths(["a", "ccc", "a"]))


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (
            lambda s: np.ones((len(s) + 1, 3)),
            r"3 sentences from 'ccc': .* shape \(4, 3\) of float64; expected numbers of",
        ),
        (lambda s: np.ones((len(s), 0)), r"shape \(3, 0\)"),
        (lambda s: [["a"]] * len(s), r"shape \(3, 1\) of <U1"),
        (lambda s: [[1.0] * len(x) for x in s], "vectors differ in width"),
        (lambda s: np.where(lengths(s) == 2, np.nan, 1.0), r"'bb': the encoder gave NaN or infinity for 1 of 3"),
    ],
)
def test_an_invalid_result_is_refused(encode, message):
    with pytest.raises(SemanticsError, match=message):
        embed(encode, ["a", "bb", "ccc"])


def test_object_with_a_method_encode_is_an_encoder():
    found = embed(SimpleNamespace(encode=lengths), ["a", "bb"])
    np.testing.assert_array_equal(found.of(["a"]), lengths(["a"]))
    for wrong in ("flickr8k", None):
        with pytest.raises(SemanticsError, match=rf"the encoder is {wrong!r}; expected a function"):
            embed(wrong, ["a"])


def test_prepare_receives_all_distinct_sentences_once_and_first():
    calls = []

    class Encoder:
        def prepare(self, sentences):
            calls.append(("prepare", sentences))

        def __call__(self, sentences):
            calls.append(("encode", sentences))
            return lengths(sentences)

    embed(Encoder(), ["a", "bb", "a", "ccc"], chunk=2)
    assert calls == [("prepare", ["ccc", "bb", "a"]), ("encode", ["ccc", "bb"]), ("encode", ["a"])]


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("A dog's ball , on the street .", "a dog s ball on the street"),
        ("  TWO-tone\tSTRASSE ", "two tone strasse"),
        ("... !", ""),
        ("Ma\u0308dchen, كَلْبٌ؟ हिन्दी।", "mädchen كَلْبٌ हिन्दी"),
    ],
)
def test_case_and_punctuation_do_not_count(sentence, rule):
    assert bare(sentence) == rule


def test_three_quarters_of_sts15_images_are_flickr8k_training_captions(real_data):
    flickr = real_data / "flickr8k"
    train = set((flickr / "Flickr_8k.trainImages.txt").read_text().split())
    rows = [line.split("\t", 1) for line in (flickr / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()]
    seen = Seen(caption for name, caption in rows if name.split("#")[0] in train)
    images = read_task("STS15", real_data / "senteval").subtasks["images"]
    assert round(100 * seen.mask([*images.first, *images.second]).mean(), 1) == 75.5
