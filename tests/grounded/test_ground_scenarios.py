"""Scenarios: their settings, what is trained on a small world, what is saved, and the sequential baseline."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from small_ground import SETTINGS, TEXTS, described, saved_start, scenario, textual

from sightword.encoder.derived import read_start
from sightword.encoder.parts import Part
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.grounded.training.scenario import Inputs, ground, sequential
from sightword.grounded.training.settings import Common, GroundSettings

ALL = {"t": {}, "cg-pg": {"cluster": 0.01, "perceptual": 0.02, "judged": "grounded"}}


def section(**changes):
    return GroundSettings.model_validate({"run": ["t"], "common": {}, "scenarios": ALL} | changes)


def test_a_scenario_is_the_common_parameters_with_its_changes():
    settings = section(common={"batch": 8, "cluster": 0.5})
    assert settings.scenario("t").model_dump() == Common(batch=8, cluster=0.5).model_dump()
    found = settings.scenario("cg-pg")
    assert (found.batch, found.cluster, found.perceptual, found.judged) == (8, 0.01, 0.02, "grounded")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": ["cg-pq"]}, r"no scenario is called 'cg-pq' \(did you mean 'cg-pg'\?\)"),
        ({"scenarios": {"t": {}, "cg--pg": {}}}, "'cg--pg' is no name of a scenario"),
        ({"scenarios": {"t": {"clutser": 1}}}, r"scenarios.t.clutser: no such key \(did you mean 'cluster'"),
        ({"scenarios": {"t": {"sequential": True, "cluster": 1}}}, "sequential trains nothing"),
        ({"scenarios": {"t": {"start": "char", "cluster": 1}}}, "text has a weight with start 'char'"),
        ({"scenarios": {"t": {"judged": "grounded"}}}, "needs space: mlp and cluster or perceptual"),
        ({"scenarios": {"t": {"cluster": 1, "pictures": "shuffled"}}}, "pictures shuffled changes nothing here"),
        ({"scenarios": {"t": {"clusters": "shuffled"}}}, "clusters shuffled changes nothing here"),
    ],
)
def test_wrong_sections_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        section(**changes)


CPU = torch.device("cpu")
NOT_ON_DEV = ("text", "cap2cap", "captions_as_text")
EVERYTHING = dict.fromkeys(("cluster", "perceptual", "projection", "ranking", *NOT_ON_DEV), 0.5)


def run(split=None, dev=None, part=None, settings=SETTINGS, seed=0, **changes):
    split = described() if split is None else split
    inputs = Inputs(textual(settings), split, dev or described(seed=1), part)
    return ground(scenario(**changes), seed, inputs, device=CPU)


def tensors(encoder):
    parts = {
        f"{n}.{name}": value
        for n, part in enumerate(encoder.parts)
        for name, value in part.captions.state_dict().items()
    }
    heads = {
        f"{space}.{name}": value for space, one in encoder.heads.items() for name, value in one.state_dict().items()
    }
    return parts | heads


def equal(one, other):
    return tensors(one).keys() == tensors(other).keys() and all(
        torch.equal(value, tensors(other)[name]) for name, value in tensors(one).items()
    )


@pytest.mark.parametrize(
    ("changes", "spaces"),
    [
        ({"cluster": 1, "cluster_loss": "infonce"}, ("sentence", "grounded")),
        ({"perceptual": 1, "space": "identity"}, ("sentence",)),
        ({"projection": 1, "judged": "visual"}, ("sentence", "visual")),
        ({"ranking": 1, "precision": "bf16"}, ("sentence",)),
        ({"cap2cap": 1}, ("sentence",)),
        ({"captions_as_text": 1}, ("sentence",)),
        ({"text": 1.0, "pictures": "none"}, ("sentence",)),
        ({**EVERYTHING, "judged": "grounded"}, ("sentence", "grounded", "visual")),
        ({"cluster": 1, "perceptual": 1, "clusters": "shuffled", "pictures": "shuffled"}, ("sentence", "grounded")),
    ],
)
def test_each_loss_trains_the_encoder(changes, spaces):
    found = run(**changes)
    assert found.encoder.spaces == spaces
    assert found.encoder.default == changes.get("judged", "sentence")
    before, after = textual().part.captions.state_dict(), found.encoder.parts[0].captions.state_dict()
    assert all((value != before[name]).any() for name, value in after.items() if "bias_hh" not in name)
    parts = {name for name in EVERYTHING if changes.get(name)}
    assert found.progress.curves["loss"].keys() == parts
    assert found.progress.curves["dev"].keys() == parts - set(NOT_ON_DEV)
    text, grounded = (found.progress.last("norms", name) for name in ("text", "grounded"))
    assert (text > 0) == bool(parts & {"text", "captions_as_text"})
    assert (grounded > 0) == bool(parts - {"text", "captions_as_text"})


def cosines(**changes):
    """The cosines of all captions in the grounded space after a run, whether they have one picture, and one colour."""
    vectors = run(**changes).encoder.encode(TEXTS, space="grounded", normalize_embeddings=True)
    picture, colour = np.arange(len(TEXTS)) // 2, np.arange(len(TEXTS)) // 8
    pairs = np.triu_indices(len(TEXTS), 1)
    return ((vectors @ vectors.T)[pairs], *((one[:, None] == one)[pairs] for one in (picture, colour)))


def test_the_cluster_loss_gathers_captions_of_a_picture():
    gaps = []
    for steps in (1, 80):
        found, picture, _ = cosines(cluster=1, steps=steps)
        gaps.append(found[picture].mean() - found[~picture].mean())
    assert gaps[0] < 0.2
    assert gaps[1] > 0.5


def test_the_perceptual_loss_gathers_captions_of_alike_pictures_unless_they_are_shuffled():
    real, shuffled = (
        np.corrcoef(*cosines(perceptual=1, steps=80, batch=8, pictures=pictures)[::2])[0, 1]
        for pictures in ("real", "shuffled")
    )
    assert real > 0.4
    assert abs(shuffled) < 0.2


def test_a_concatenation_has_both_vectors_side_by_side():
    found = run(cluster=1, concatenate=True, start="scratch").encoder
    own = run(cluster=1, start="scratch").encoder
    one, other = textual_encoder().encode(TEXTS), own.encode(TEXTS)
    np.testing.assert_array_equal(found.encode(TEXTS), np.concatenate([one, other], axis=1))
    np.testing.assert_allclose(found.encode(TEXTS, space="grounded"), own.encode(TEXTS, space="grounded"), atol=1e-6)
    vectors = found.encode(TEXTS[:2], normalize_embeddings=True)
    inner = one[0] @ one[1] + other[0] @ other[1]
    lengths = [np.sqrt(one[row] @ one[row] + other[row] @ other[row]) for row in (0, 1)]
    assert vectors[0] @ vectors[1] == pytest.approx(inner / np.prod(lengths), abs=1e-6)


def textual_encoder():
    return run().encoder


@pytest.mark.parametrize("shape", [{}, {"cell": "ngrams", "embedding": 12, "ngram_buckets": 50}])
def test_another_encoder_is_a_start(tmp_path, shape):
    saved_start(tmp_path / "char", **shape)
    start = read_start(tmp_path, "char")
    before = copy.deepcopy(start.captions.state_dict())
    found = run(cluster=1, start="char", part=start)
    assert found.encoder.width == 12
    assert any((value != before[name]).any() for name, value in found.encoder.parts[0].captions.state_dict().items())
    assert all(torch.equal(value, before[name]) for name, value in start.captions.state_dict().items())
    found.encoder.save(tmp_path / "grounded")
    assert equal(found.encoder, SentenceEncoder.load(tmp_path / "grounded"))
    assert isinstance(read_start(tmp_path, "grounded"), Part)


DRAWS = np.random.default_rng(0)
SEQUENTIAL = DRAWS.normal(1, 2, (300, 6))
PICTURE_OF = np.arange(300)


@pytest.mark.parametrize("width", [2, 9])
def test_regression_and_principal_axes_are_those_of_numpy(width):
    pictures, picture_of = DRAWS.normal(size=(100, width)), np.arange(300) // 3
    found = sequential(SEQUENTIAL, pictures, picture_of)
    inputs = np.column_stack([SEQUENTIAL, np.ones(300)])
    weights, *_ = np.linalg.lstsq(inputs, pictures[picture_of], rcond=None)
    np.testing.assert_allclose(found.picture(SEQUENTIAL), inputs @ weights, atol=1e-10)
    together = np.column_stack([SEQUENTIAL, inputs @ weights])
    _, _, axes = np.linalg.svd(together - together.mean(axis=0), full_matrices=False)
    expected = (together - together.mean(axis=0)) @ axes[:6].T
    scores = found.sentence(SEQUENTIAL)
    signs = np.sign((expected * scores).sum(axis=0))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-9)


def test_captions_that_decide_nothing_have_the_least_map():
    vectors = SEQUENTIAL.copy()
    vectors[:, 5] = vectors[:, 0]  # a direction that no caption has
    pictures = DRAWS.normal(size=(300, 3))
    found = sequential(vectors, pictures, PICTURE_OF)
    inputs = vectors - vectors.mean(axis=0)
    expected = np.linalg.pinv(inputs) @ (pictures - pictures.mean(axis=0))
    np.testing.assert_allclose(found.picture.matrix, expected.T, atol=1e-9)
    assert np.isfinite(found.sentence.matrix).all()
