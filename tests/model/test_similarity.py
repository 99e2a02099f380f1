"""Cosine and order similarity against plain loops and the naive broadcast; composition in an exact order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sightword.errors import EncoderError
from sightword.model import similarity
from sightword.model.losses import hardest, hinge, infonce
from sightword.model.similarity import abstract, compose, order_errors, scores, unit, unit_rows

NAMES = ["cosine", "order", "reversed_order"]


def broadcast(lower, upper):
    return (lower[:, None, :] - upper[None, :, :]).clamp(min=0).square().sum(dim=2)


def by_loops(caption, image, name):
    """The score of one pair, number by number."""
    if name == "cosine":
        return sum(c * i for c, i in zip(caption, image, strict=True))
    pairs = zip(caption, image, strict=True) if name == "order" else zip(image, caption, strict=True)
    return -sum(max(0.0, low - high) ** 2 for low, high in pairs)


def rows(count, width=5, seed=0):
    return torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_has_the_score_of_a_loop_over_its_numbers(name):
    captions, images = unit(rows(4), name), unit(rows(3, seed=1), name)
    found = scores(captions, images, name)
    assert found.shape == (4, 3)
    for i, caption in enumerate(captions.tolist()):
        for j, image in enumerate(images.tolist()):
            assert found[i, j].item() == pytest.approx(by_loops(caption, image, name), abs=1e-12)


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 9), st.integers(1, 200), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_tiles_of_any_size_give_values_and_gradients_of_the_broadcast(b, n, d, tile, seed):
    lower, upper = rows(b, d, seed).requires_grad_(), rows(n, d, seed + 1).requires_grad_()
    weight = rows(b, n, seed + 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_CPU_TILE", tile)
        found = order_errors(lower, upper)
        ours = torch.autograd.grad((found * weight).sum(), (lower, upper))
    expected = broadcast(lower, upper)
    theirs = torch.autograd.grad((expected * weight).sum(), (lower, upper))
    assert torch.allclose(found, expected, atol=1e-12)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_no_tensor_of_all_differences_is_kept_for_the_gradients():
    lower, upper = torch.rand(40, 64, requires_grad=True), torch.rand(30, 64, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda t: t):
        order_errors(lower, upper).sum()
    assert max(kept) <= 40 * 64


def objectives(same):
    heat = torch.tensor(0.3, dtype=torch.float64)
    return {
        "hinge": lambda s: hinge(s, same, margin=0.05, reduction="sum"),
        "hardest": lambda s: hardest(s, same, margin=0.05, reduction="sum"),
        "infonce": lambda s: infonce(s, same, temperature=heat, reduction="mean"),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["hinge", "hardest", "infonce"])
def test_gradients_of_objective_with_repeated_picture_equal_differences(name, loss):
    ids = torch.tensor([0, 1, 0, 3])
    objective = objectives(ids[:, None] == ids[None, :])[loss]
    captions, images = rows(4).requires_grad_(), rows(4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda c, i: objective(scores(unit(c, name), unit(i, name), name)), (captions, images)
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["hinge", "hardest", "infonce"])
def test_gradients_of_zeros_and_ties_are_finite(name, loss):
    """A caption and a picture that are all zeros, two equal captions, and a caption equal to its picture."""
    captions, images = rows(5).float(), rows(5, seed=1).float()
    captions[0], images[1] = 0, 0
    captions[3] = captions[2]
    images[4] = captions[4]
    captions.requires_grad_()
    images.requires_grad_()
    objective = objectives(torch.eye(5, dtype=torch.bool))[loss]
    total = objective(scores(unit(captions, name), unit(images, name), name))
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(captions.grad).all()
    assert torch.isfinite(images.grad).all()
    assert (captions.grad[0] == 0).all()  # no direction that could be turned
    assert (images.grad[1] == 0).all()
    assert captions.grad[1:].abs().max() < 100


def test_a_vector_of_zeros_stays_one_and_what_is_no_number_stays_none():
    found = unit(torch.tensor([[0.0, 0.0], [3.0, -4.0], [float("nan"), 1.0], [3e30, 4e30]]), "order")
    assert found[0].tolist() == [0, 0]
    assert found[1].tolist() == pytest.approx([0.6, 0.8])
    assert found[2:].isnan().all()  # a length beyond float32 would give zeros
    assert unit_rows(np.float32([[3e30, -4e30], [3, -4], [0, 0]])).ravel() == pytest.approx([0.6, -0.8] * 2 + [0] * 2)
    assert unit(torch.tensor([[3.0, -4.0]]), "cosine")[0].tolist() == pytest.approx([0.6, -0.8])


def test_the_error_of_a_pair_does_not_depend_on_its_tile(monkeypatch):
    random = np.random.default_rng(3)
    captions, images = (torch.from_numpy(random.standard_normal((70, 69))) for _ in range(2))
    tables = []
    for tile in ((64, 512), (13, 5)):
        monkeypatch.setattr(similarity, "_TABLE_TILE", tile)
        tables.append(torch.full((70, 70), torch.nan, dtype=torch.float64))
        similarity.errors(captions, images, tables[-1])
    torch.testing.assert_close(tables[0], torch.relu(captions[:, None] - images).square().sum(-1))
    assert torch.equal(*tables)


sets = arrays.arrays(np.float32, (3, 8), elements=st.sampled_from([0.0, 1.0]))


@given(sets)
def test_composition_of_sets_is_their_union_and_abstraction_their_intersection(given_sets):
    """A caption says a set of words; more words stand below."""
    union, shared = given_sets.any(axis=0), given_sets.all(axis=0)
    assert compose(given_sets, "order").tolist() == union.tolist()
    assert abstract(given_sets, "order").tolist() == shared.tolist()
    absent = 1 - given_sets  # the coordinates of a reversed order: what a caption does not say
    assert compose(absent, "reversed_order").tolist() == (1 - union).tolist()
    assert abstract(absent, "reversed_order").tolist() == (1 - shared).tolist()


@pytest.mark.parametrize("name", ["cosine", "dot"])
def test_products_compose_by_the_sum_of_vectors_of_length_1(name):
    vectors = np.array([[3.0, 4.0], [0.0, 2.0]], np.float32)
    assert compose(vectors, name) == pytest.approx(np.array([0.6, 1.8]))
    assert compose(np.zeros((2, 3), np.float32), name).tolist() == [0, 0, 0]
    with pytest.raises(EncoderError, match=r"have no abstraction; expected order-embeddings.*train.similarity: order"):
        abstract(vectors, name)
