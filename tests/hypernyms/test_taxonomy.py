"""Taxonomies, splits, false pairs and lists of pairs, against brute force and the files of WordNet."""

from __future__ import annotations

import dataclasses
import gzip
import math
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.params import overlay, recipes
from sightword.errors import CorpusError
from sightword.evaluation.binary import best_threshold, score
from sightword.hypernyms.data.pairs import (
    PairSet,
    corrupt,
    corruptible,
    read_pairs,
    read_prepared,
    split,
    write_prepared,
)
from sightword.hypernyms.data.taxonomy import build, closure, read_edges, read_scenes, read_wordnet
from sightword.hypernyms.settings import TaxonomySettings

BOTH = ("hypernym", "instance_hypernym")
IDS = {"dog": 0, "animal": 1, "thing": 2}


@st.composite
def graphs(draw):
    """A random acyclic graph as a boolean matrix: row above column."""
    count = draw(st.integers(2, 9))
    bits = draw(st.lists(st.booleans(), min_size=count * count, max_size=count * count))
    edges = np.triu(np.array(bits).reshape(count, count), 1)
    edges[0, 1] = True
    order = draw(st.permutations(range(count)))
    return edges[np.ix_(order, order)]


def of_matrix(edges):
    names = [f"c{place}" for place in range(len(edges))]
    return build(names, [(names[low], names[high], "hypernym") for low, high in np.argwhere(edges)], "matrix")


@given(graphs())
def test_the_closure_is_that_of_boolean_matrix_powers(edges):
    power, reached, paths = edges.astype(int), edges.copy(), edges.astype(int)
    for _ in edges:
        power = power @ edges
        reached |= power > 0
        paths += power
    taxonomy = of_matrix(edges)
    found = np.zeros(edges.shape, int)
    np.add.at(found, closure(taxonomy), 1)
    assert (found == reached).all()
    found[:] = 0
    np.add.at(found, closure(taxonomy, paths=True), 1)
    assert (found == paths).all()


@given(graphs(), st.integers(0, 9))
def test_a_corrupted_pair_is_false_and_changes_one_side(edges, seed):
    taxonomy = of_matrix(edges)
    low, high = closure(taxonomy)
    true = PairSet(low, high, len(edges))
    names = range(len(edges))
    pairs = set(zip(low.tolist(), high.tolist(), strict=True))
    possible = [
        any((c, b) not in pairs and c != b for c in names) or any((a, c) not in pairs and c != a for c in names)
        for a, b in zip(low, high, strict=True)
    ]
    assert corruptible(low, high, true).tolist() == possible
    low, high = low[possible], high[possible]
    new_low, new_high, replaced = corrupt(low, high, true, len(edges), np.random.default_rng(seed))
    assert not pairs & set(zip(new_low.tolist(), new_high.tolist(), strict=True))
    assert (new_low != new_high).all()
    assert (new_high[replaced] == high[replaced]).all()
    assert (new_low[~replaced] == low[~replaced]).all()


def test_a_pair_that_nothing_corrupts_is_an_error_and_not_a_hang():
    taxonomy = build("abc", [("a", "b", "hypernym"), ("b", "c", "hypernym")], "chain")
    low, high = closure(taxonomy)
    true = PairSet(low, high, 3)
    possible = {(int(a), int(b)): bool(c) for a, b, c in zip(low, high, corruptible(low, high, true), strict=True)}
    assert possible == {(0, 1): True, (0, 2): False, (1, 2): True}
    with pytest.raises(ValueError):
        corrupt(*np.array([[0], [2]], np.int32), true, 3, np.random.default_rng(0))
    with pytest.raises(CorpusError, match="the closure has 2 pairs to draw from"):
        split(taxonomy, TaxonomySettings(dev=1, test=1))


def test_closure_by_paths_of_many_diamonds_is_refused_before_it_is_built():
    edges = [edge for n in range(40) for side in "ab" for edge in ((f"{n + 1}", f"{n}{side}"), (f"{n}{side}", f"{n}"))]
    names = sorted({name for edge in edges for name in edge})
    taxonomy = build(names, [(low, high, "hypernym") for low, high in edges], "edges.csv")
    with pytest.raises(CorpusError, match=r"more than 50000000 paths\. Set taxonomy\.closure to distinct"):
        closure(taxonomy, paths=True)
    assert len(closure(taxonomy)[0]) == sum(3 * n for n in range(1, 41)) + 2 * sum(3 * n + 1 for n in range(40))


def test_as_drawn_keeps_the_first_draw():
    low, high = np.zeros(4000, np.int32), np.ones(4000, np.int32)
    new_low, new_high, replaced = corrupt(low, high, None, 4, np.random.default_rng(0))
    assert replaced.mean() == pytest.approx(0.5, abs=0.05)
    assert np.bincount(new_low[replaced]) / replaced.sum() == pytest.approx([0.25] * 4, abs=0.05)
    assert set(new_high[~replaced]) == {0, 1, 2, 3}


@pytest.fixture(scope="module")
def sample(repository):
    return read_scenes(repository / "data/raw/sample")


def test_the_sample_has_the_closed_form(sample):
    low, _ = closure(sample)
    assert len(sample.names) == 3 * 10 * 10 * 11
    assert len(low) == 5 * 19 * 19 * 21 - 3300 == 34605
    assert len(sample.hyponyms) == sum(len(name.split("_")) for name in sample.names if name != "scene")
    assert len(closure(sample, paths=True)[0]) > 2 * len(low)  # k! chains to a description of k words more


def test_what_is_written_is_read(sample, tmp_path):
    settings = TaxonomySettings(format="sample", path="x", dev=300, test=200)
    pairs, counts = split(sample, settings)
    write_prepared(tmp_path, sample, pairs, counts)
    once = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    taxonomy, again, numbers = read_prepared(tmp_path)
    assert (taxonomy.names, numbers) == (sample.names, counts)
    for name, part in pairs.items():
        for column in ("hyponyms", "hypernyms", "labels", "direct", "replaced"):
            assert (getattr(part, column) == getattr(again[name], column)).all(), (name, column)
    assert [len(pairs[name].labels) for name in ("train", "dev", "test")] == [34105, 600, 400]
    assert counts["test"] == {"true": 200, "false": 200, "in_training": 0.0, "mislabelled": 0.0, "ceiling": 100.0}
    write_prepared(tmp_path, sample, *split(sample, settings))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == once


def test_the_released_protocol_is_counted(sample):
    settings = TaxonomySettings(format="sample", path="x", dev=1000, test=1000, closure="paths", negatives="as_drawn")
    pairs, counts = split(sample, settings)
    true = set(zip(*(side.tolist() for side in closure(sample)), strict=True))
    train = set(zip(pairs["train"].hyponyms.tolist(), pairs["train"].hypernyms.tolist(), strict=True))
    test = list(zip(*(getattr(pairs["test"], n).tolist() for n in ("hyponyms", "hypernyms", "labels")), strict=True))
    wrong = sum((low, high) in true for low, high, label in test if not label)
    again = sum((low, high) in train for low, high, label in test if label)
    assert counts["test"]["mislabelled"] == pytest.approx(100 * wrong / 1000)
    assert counts["test"]["in_training"] == pytest.approx(100 * again / 1000)
    assert counts["test"]["ceiling"] == pytest.approx(100 - 100 * wrong / 2000)
    assert wrong > 50
    assert again > 500


def test_draws_of_the_split_have_the_spread_of_the_splits_by_themselves(sample):
    settings = TaxonomySettings(
        format="sample", path="x", dev=200, test=200, closure="paths", negatives="as_drawn", split_seed=3, draws=4
    )
    _, counts = split(sample, settings)
    true = set(zip(*(side.tolist() for side in closure(sample)), strict=True))
    edges = set(zip(sample.hyponyms.tolist(), sample.hypernyms.tolist(), strict=True))
    shares = {name: [] for name in ("mislabelled", "mislabelled_hyponym", "ceiling", "in_training", "direct")}
    for seed in range(3, 7):
        parts, alone = split(sample, settings.model_copy(update={"split_seed": seed, "draws": 0}))
        assert "draws" not in alone
        assert {key: counts[key] for key in alone} == alone or seed != 3
        test = list(zip(parts["test"].hyponyms.tolist(), parts["test"].hypernyms.tolist(), strict=True))
        changed = [other for one, other in zip(test[:200], test[200:], strict=True) if one[1] == other[1]]
        shares["mislabelled"].append(alone["test"]["mislabelled"])
        shares["mislabelled_hyponym"].append(100 * sum(pair in true for pair in changed) / len(changed))
        shares["ceiling"].append(alone["test"]["ceiling"])
        shares["in_training"].append(alone["test"]["in_training"])
        shares["direct"].append(100 * sum(pair in edges for pair in test[:200]) / 200)
    assert counts["draws"]["number"] == 4
    for name, values in shares.items():
        expected = {"mean": np.mean(values), "lowest": min(values), "highest": max(values)}
        expected["deviation"] = math.sqrt(sum((value - np.mean(values)) ** 2 for value in values) / 3)
        assert counts["draws"][name] == pytest.approx(expected, abs=1e-3), name
        assert expected["deviation"] > 0


@pytest.mark.parametrize(
    ("names", "edges", "message"),
    [
        ("ab", [("a", "b", "h"), ("a", "b", "i")], r"x, edge 2: the edge \('a', 'b'\) stands twice, with the relation"),
        ("aab", [("a", "b", "h")], "x, concept 2: the concept 'a' stands twice"),
        ("abc", [("a", "b", "h"), ("b", "c", "h"), ("c", "a", "h")], "has a cycle: a -> b -> c -> a"),
    ],
)
def test_wrong_edges_are_one_message(names, edges, message):
    with pytest.raises(CorpusError, match=message):
        build(names, edges, "x")
    assert build("ab", [("a", "b", "h")] * 3, "x").doubled == 2


def test_edges_of_other_relations_are_told(tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "edges.csv").write_text("hyponym,hypernym,relation\na,b,hypernym\na,c,is_a\n")
    assert len(read_edges(tmp_path / "edges.csv", BOTH).names) == 2
    assert "1 edge left out, of is_a" in caplog.text
    with pytest.raises(CorpusError, match=r"has only edges of hypernym, is_a\. Name its relations in taxonomy"):
        read_edges(tmp_path / "edges.csv", ["part"])


def test_given_lists(tmp_path, caplog):
    head = "hyponym\thypernym\tlabel\n"
    (tmp_path / "dev.tsv").write_text(head + "a\tc\t1\na\tb\t0\n")
    (tmp_path / "test.tsv").write_text(head + "b\tc\t1\nc\tb\t0\n")
    taxonomy = build("abcd", [("a", "b", "h"), ("b", "c", "h"), ("d", "c", "h")], "x")
    settings = TaxonomySettings(path="x", lists=str(tmp_path), dev_pairs="dev.tsv", test_pairs="test.tsv")
    pairs, counts = split(taxonomy, settings)
    assert sorted(zip(pairs["train"].hyponyms, pairs["train"].hypernyms, strict=True)) == [(0, 1), (3, 2)]
    assert counts["dev"]["mislabelled"] == 100.0  # a is below b: counted, and kept
    assert pairs["dev"].replaced.tolist() == [0, 2]
    assert not caplog.text
    split(taxonomy, settings.model_copy(update={"test_pairs": "dev.tsv"}))
    assert "2 of 2 test pairs are dev pairs too" in caplog.text
    (tmp_path / "train.tsv").write_text(head + "a\tb\t0\n")
    with pytest.raises(CorpusError, match="one label only; expected true pairs"):
        split(taxonomy, settings.model_copy(update={"train_pairs": "train.tsv"}))
    (tmp_path / "test.tsv").write_text(head + "d\tb\t1\nb\ta\t0\n")
    with pytest.raises(CorpusError, match="pair 1 is labelled true, and the closure of x lacks it: d -> b"):
        split(taxonomy, settings)


def test_lists_of_pairs_in_two_layouts(tmp_path):
    (tmp_path / "own.tsv").write_text("label\thyponym\thypernym\n1\tdog\tanimal\n0\tanimal\tdog\n")
    (tmp_path / "n.tsv.vocab").write_text("0\tanimal\n1\tdog\n")
    (tmp_path / "n.tsv.test").write_text("0\t1\n")
    (tmp_path / "n.tsv.test_neg").write_text("1\t0\n")
    quoted = b'hyponym, hypernym,label\n"dog", animal, 1\nanimal ,"dog",0\n \n'
    (tmp_path / "own.csv.gz").write_bytes(gzip.compress(quoted))
    layouts = {"own.tsv": "table", "own.csv.gz": "table", "n.tsv.test": "ganea2018"}
    for name, layout in layouts.items():
        found = read_pairs(tmp_path / name, IDS)
        assert (found.hyponyms.tolist(), found.hypernyms.tolist()) == ([0, 1], [1, 0]), name
        assert (found.labels.tolist(), found.layout) == ([True, False], layout)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hyponym\thypernym\tlabel\ndog\tcat\t1\n", "line 2: no concept cat"),
        ("hyponym\thypernym\tlabel\ndog\tanimal\t2\n", "line 2: the label is '2'; expected 1 or 0"),
    ],
)
def test_a_wrong_list_is_one_message(tmp_path, text, message):
    (tmp_path / "list.tsv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_pairs(tmp_path / "list.tsv", IDS)


def test_a_vocabulary_is_read_by_its_numbers(tmp_path):
    vocabulary, true, false = (tmp_path / f"n.tsv.{name}" for name in ("vocab", "test", "test_neg"))
    good, repeated = "7\tdog\n0\tthing\n3\tanimal\n", "7\tdog\n3\tanimal\n7\tthing\n"
    vocabulary.write_text(good)
    true.write_text("3\t7\n")
    false.write_text("7\t0\n")
    found = read_pairs(true, IDS)
    assert found.hyponyms.tolist() == [IDS["dog"], IDS["thing"]]
    assert found.hypernyms.tolist() == [IDS["animal"], IDS["dog"]]
    for text, message in (
        (repeated, r"vocab, line 3: the number '7' stands twice, with the name 'dog' \(.*, line 1\)"),
        ("7\tdog\n3\tanimal\n", r"test_neg, line 1: '0' is not in the vocabulary; expected two numbers"),
    ):
        vocabulary.write_text(text)
        with pytest.raises(CorpusError, match=message):
            read_pairs(true, IDS)


SMALL = """\
  1 a licence
{0:08} 03 n 01 Entity 0 001 ~ {1:08} n 0000 | all there is
{1:08} 03 n 02 dog 0 domestic_dog 1 002 @ {0:08} n 0000 + 00000001 v 0000 | it barks
"""


def small_wordnet(folder):
    text = SMALL.format(0, 0)
    offsets = [len(line) for line in text.splitlines(keepends=True)]
    first, second = offsets[0], offsets[0] + offsets[1]
    (folder / "data.noun").write_text(SMALL.format(first, second))
    index = f"  1 a licence\ndog n 2 1 @ 2 0 00000009 {second:08}\nentity n 1 1 ~ 1 0 {first:08}\n"
    (folder / "index.noun").write_text(index)
    return second


def test_a_small_wordnet(tmp_path, caplog):
    second = small_wordnet(tmp_path)
    found = read_wordnet(tmp_path, BOTH)
    assert (found.names, found.words) == (["entity.n.01", "dog.n.02"], ["Entity", "dog, domestic dog"])
    assert found.glosses[1] == "it barks"
    data = (tmp_path / "data.noun").read_bytes()
    (tmp_path / "data.noun").write_bytes(data[:-20])
    with pytest.raises(CorpusError, match=f"line 3, offset {second}, is not a whole synset"):
        read_wordnet(tmp_path, BOTH)
    with pytest.raises(CorpusError, match=r"no relation 'hypernyms'; expected some of hypernym, instance_hypernym"):
        read_wordnet(tmp_path, ["hypernyms"])
    (tmp_path / "data.noun").write_bytes(data)
    (tmp_path / "index.noun").unlink()
    assert read_wordnet(tmp_path, BOTH).names[1] == f"{second:08}"
    assert "concepts are named by their offsets" in caplog.text


@pytest.fixture(scope="session")
def wordnet(real_data):
    return read_wordnet(real_data / "wordnet", BOTH)


def counts_of(taxonomy, real_data, **changed):
    return split(taxonomy, TaxonomySettings(lists=str(real_data / "hypernyms"), **changed))


def test_wordnet_has_its_counts_and_names(wordnet, real_data):
    assert len(wordnet.names) == 82115
    assert (wordnet.relations.count("hypernym"), wordnet.relations.count("instance_hypernym")) == (75850, 8577)
    assert len(closure(wordnet)[0]) == 743241
    assert len(closure(wordnet, paths=True)[0]) == 837888
    pairs, counts = counts_of(wordnet, real_data, dev_pairs="split-unique/dev.tsv", test_pairs="split-unique/test.tsv")
    assert (counts["roots"], counts["leaves"], counts["with_several_parents"]) == (1, 64958, 2213)
    assert (counts["train"], counts["protocol"], counts["test"]["ceiling"]) == (735241, "clean", 100.0)
    assert (pairs["test"].replaced > 0).sum() == 4000


@pytest.mark.full
def test_the_released_split_of_wordnet_is_one_draw_of_many(wordnet, real_data, repository):
    recipe = overlay.resolve(recipes.find("vendrov-released", repository), repository)
    drawn = split(wordnet, recipe.sections["taxonomy"])[1]["draws"]
    assert drawn["number"] == 40
    page = (repository / "docs/hypernyms.md").read_text()
    for name in ("in_training", "mislabelled", "mislabelled_hyponym", "ceiling", "closure"):
        one = drawn[name]
        row = f"| {one['mean']:.1f} ± {one['deviation']:.1f} | {one['lowest']:.1f} to {one['highest']:.1f} |"
        assert row in page, (name, row)


@pytest.mark.full
def test_published_splits(wordnet, real_data, tmp_path):
    """Ganea's reduction is the edges without the root's."""
    folder = "ganea2018/noun_closure.tsv."
    lists = {"train_pairs": f"{folder}train_0percent.gz", "dev_pairs": f"{folder}valid.gz"}
    pairs, counts = counts_of(wordnet, real_data, **lists, test_pairs=f"{folder}test.gz")
    assert (counts["test"]["true"], counts["test"]["false"], counts["protocol"]) == (28838, 288380, "ganea2018-0")
    root = wordnet.names.index("entity.n.01")
    edges = {(a, b) for a, b in zip(wordnet.hyponyms, wordnet.hypernyms, strict=True) if root not in (a, b)}
    train = set(zip(pairs["train"].hyponyms, pairs["train"].hypernyms, strict=True))
    assert len(train) == 84363
    assert train <= edges
    shutil.copytree(real_data / "wordnet31", tmp_path / "31")
    newer = read_edges(tmp_path / "31", BOTH)
    assert (len(newer.names), len(newer.hyponyms)) == (82192, 84505)
    assert len(closure(newer)[0]) == 743746
    assert len(closure(newer, paths=True)[0]) == 838073


@pytest.mark.full
def test_a_count_of_descendants_scores_as_on_the_page(real_data, repository):
    """A draw of He et al. (2024), section 4, with random false hypernyms; the count does not see the hyponym."""
    taxonomy = read_wordnet(real_data / "wordnet", BOTH[:1])
    (low, high), size, random = closure(taxonomy), len(taxonomy.names), np.random.default_rng(1)
    edges, true = PairSet(taxonomy.hyponyms, taxonomy.hypernyms, size).has(low, high), PairSet(low, high, size)
    orders = [random.permutation(np.flatnonzero(kind)) for kind in (~edges, edges)]
    far, near = ([order[k * (len(order) // 20) :][: len(order) // 20] for k in (0, 1)] for order in orders)
    page = (repository / "study/pages/hypernyms.md").read_text()
    for column, held in ((0, far), (2, [np.append(*both) for both in zip(far, near, strict=True)])):
        train = np.setdiff1d(np.flatnonzero(edges), np.concatenate(held))
        follows = closure(dataclasses.replace(taxonomy, hyponyms=low[train], hypernyms=high[train]))
        known, below, cases = PairSet(*follows, size), np.bincount(follows[1], minlength=size), []
        for rows in held:
            one, false = np.repeat(low[rows], 10), random.choice(np.unique(low), 10 * len(rows))
            kept = ~true.has(one, false) & (one != false)
            sides = np.append(low[rows], one[kept]), np.append(high[rows], false[kept])
            lacking, few = 1.0 - known.has(*sides), -below[sides[1]]
            energies = {"closure": lacking, "descendants": few, "closure, then descendants": size * lacking + few}
            cases.append((energies, np.arange(len(few)) < len(rows)))
        (dev, labels), (test, answers) = cases
        for name, energies in dev.items():
            f1 = score(test[name], answers, best_threshold(energies, labels, "f1")[0])["f1"]
            assert page.split(f"| {name} |")[1].split("|")[column].strip() == f"{f1:.1f}", (name, f1)
