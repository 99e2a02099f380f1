"""The lazy optimiser against torch's dense one, the energies' gradients, the threshold, and training runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from exact_embedding import exact_embedding
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import TrainingError
from sightword.evaluation.binary import best_threshold
from sightword.hypernyms.data.settings import TaxonomySettings
from sightword.hypernyms.data.split import split
from sightword.hypernyms.data.taxonomy import read_scenes, read_wordnet
from sightword.hypernyms.training import cones
from sightword.hypernyms.training import task as training
from sightword.hypernyms.training.concepts import Concepts
from sightword.hypernyms.training.energies import ENERGIES, Cone
from sightword.hypernyms.training.lazy_adam import Adam, LazyAdam
from sightword.hypernyms.training.settings import EmbedSettings

ROWS, WIDTH, STEPS = 400, 6, 200


def sparse_gradients(step):
    """Gradients of some rows; row 0 is idle for 150 steps, the last rows nearly always."""
    random = np.random.default_rng(step)
    chosen = random.choice(ROWS // (1 if step % 50 == 0 else 4), 40, replace=False)
    chosen = np.union1d(chosen[chosen > 0], [0] if step in (3, 154) else []).astype(np.int64)
    return chosen, random.standard_normal((len(chosen), WIDTH)) * 10.0 ** random.integers(-3, 1, (len(chosen), 1))


def both(epsilon, nonnegative):
    """The weights after 200 steps by torch's dense Adam and by ours."""
    start = np.random.default_rng(5).standard_normal((ROWS, WIDTH))
    ours = LazyAdam(start, 0.01, STEPS, epsilon=epsilon, nonnegative=nonnegative)
    dense = torch.from_numpy(start.clip(0) if nonnegative else start.copy()).requires_grad_()
    optimiser = torch.optim.Adam([dense], lr=0.01, eps=epsilon)
    for step in range(STEPS):
        ids, values = sparse_gradients(step)
        assert np.abs(ours.rows(ids) - dense.detach().numpy()[ids]).max() < 1e-2
        dense.grad = torch.zeros_like(dense)
        dense.grad[ids] = torch.from_numpy(values)
        optimiser.step()
        if nonnegative:
            dense.data.clamp_(min=0)
        ours.step(ids, values, ours.rows(ids))
    return dense.detach().numpy(), ours.rows(slice(None))


@pytest.mark.parametrize("nonnegative", [False, True])
def test_lazy_adam_is_dense_adam(nonnegative):
    dense, ours = both(1e-30, nonnegative)
    assert np.abs(dense - ours).max() < 1e-12
    assert (ours == 0).any() == nonnegative


def test_lazy_adam_follows_epsilon():
    """The idle move is exact to first order in epsilon / sqrt(v)."""
    dense, ours = both(1e-8, False)
    without, _ = both(1e-30, False)
    assert np.abs(dense - ours).max() < 5e-5
    assert np.abs(dense - without).max() > 8 * np.abs(dense - ours).max()


def test_plain_adam_is_torchs():
    start = np.random.default_rng(5).standard_normal((3, 3))
    ours, dense = Adam(start, 0.01, 1e-8), torch.from_numpy(start.copy()).requires_grad_()
    optimiser = torch.optim.Adam([dense], lr=0.01)
    for step in range(50):
        gradient = np.random.default_rng(step).standard_normal((3, 3))
        dense.grad = torch.from_numpy(gradient)
        optimiser.step()
        ours.step(gradient, step + 1)
    assert np.abs(ours.values - dense.detach().numpy()).max() < 1e-13


@pytest.fixture(params=ENERGIES)
def energy(request):
    return ENERGIES[request.param](4, 1.0, 0.01)


def ends(energy, count=12):
    random = np.random.default_rng(3)
    vectors = energy.start(2 * count, 1.0, random).astype(np.float64)
    weights = {name: value.astype(np.float64) for name, value in energy.weights(random).items()}
    return vectors[:count], vectors[count:], weights


def test_the_gradient_of_each_energy(energy):
    low, high, weights = ends(energy)
    tensors = [torch.from_numpy(side).requires_grad_() for side in (low, high)]
    names = list(weights)
    shared = [torch.from_numpy(weights[name]).requires_grad_() for name in names]

    def value(first, second, *rest):
        return energy.energy(first, second, dict(zip(names, rest, strict=True)))

    assert torch.autograd.gradcheck(value, [*tensors, *shared])
    assert (energy.energy(*tensors, dict(zip(names, shared, strict=True))).detach().numpy()
            == energy.scores(low, high, weights)).all()  # fmt: skip


def test_the_gradient_of_each_loss_by_differences(energy):
    low, high, weights = ends(energy)
    found = energy.gradients(low, high, weights)
    for side, gradient in ((low, found.low), (high, found.high)):
        full = np.zeros_like(side)
        full[found.rows] = gradient
        for place in ((0, 0), (3, 1), (7, 2), (11, 3)):
            before = side[place]
            losses = []
            for change in (1e-6, -1e-6):
                side[place] = before + change
                losses.append(energy.gradients(low, high, weights).loss)
            side[place] = before
            assert full[place] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-5)


def test_the_energies_are_those_of_their_papers():
    low, high = np.array([[1.0, 0.2, 3.0]]), np.array([[0.5, 0.7, 5.0]])
    assert ENERGIES["order"](3).scores(low, high, {}) == pytest.approx([0.5**2 + 2**2])
    cosine = (low @ high.T).item() / np.linalg.norm(low) / np.linalg.norm(high)
    assert ENERGIES["symmetric"](3).scores(low, high, {}) == pytest.approx([(1 - cosine) / 2])
    matrix = np.arange(9.0).reshape(3, 3)
    assert ENERGIES["bilinear"](3).scores(low, high, {"matrix": matrix}) == pytest.approx(
        [-(low @ matrix @ high.T)[0, 0]]
    )
    first, second = (torch.distributions.Normal(torch.tensor(m), torch.tensor(s)) for m, s in ((0.3, 0.5), (1.0, 2.0)))
    divergence = torch.distributions.kl_divergence(first, second).item()
    vectors = [np.array([[m, 2 * np.log(s)]]) for m, s in ((0.3, 0.5), (1.0, 2.0))]
    assert ENERGIES["gaussian"](1).scores(*vectors, {}) == pytest.approx([divergence], rel=1e-6)


def test_cone_holds_points_within():
    cone = ENERGIES["cone"](2)
    up, far, aside = np.array([[0.3, 0.0]]), np.array([[0.9, 0.0]]), np.array([[0.0, 0.9]])
    assert cone.scores(far, up, {}).item() == 0
    assert cone.scores(aside, up, {}).item() > 0.3
    assert cone.scores(up, far, {}).item() > 2


@pytest.mark.parametrize(("aside", "moves"), [(1.5e-4, False), (3e-4, True)])
def test_a_cone_moves_a_pair_until_the_cosine_of_its_angle_is_within_1e_7_of_1(aside, moves):
    """Seen from (0.4, 0), the angle of (0.9, aside) has the cosine 1 - 7.8e-8, and 1 - 3.1e-7."""

    class Angle(Cone):
        K = 0.0  # without an aperture the energy is the angle

    low, high = np.array([[0.9, aside], [0.9, 0.5]]), np.array([[0.4, 0.0], [0.4, 0.0]])
    sides = [torch.from_numpy(side).requires_grad_() for side in (low, high)]
    Angle(2).energy(*sides, {})[0].backward()
    found = Angle(2).gradients(low, high, {})
    assert bool(sides[0].grad[0].any()) == bool(found.low[0].any()) == moves
    np.testing.assert_allclose(2 * found.low[0], sides[0].grad[0], rtol=1e-6)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=20), st.sampled_from(("accuracy", "f1"))
)
def test_the_threshold_is_the_best_of_all_cuts(pairs, criterion):
    energies = np.array([value for value, _ in pairs], np.float32)
    labels = np.array([label for _, label in pairs])
    if criterion == "f1" and not labels.any():
        return
    threshold, score = best_threshold(energies, labels, criterion)

    def at(cut):
        accepted = energies <= cut
        if criterion == "accuracy":
            return 100 * (accepted == labels).mean()
        return 200 * (accepted & labels).sum() / max(1, accepted.sum() + labels.sum())

    assert score == pytest.approx(max(at(cut) for cut in [-1, *energies]))
    assert at(threshold) == pytest.approx(score)


@pytest.fixture(scope="module")
def prepared(repository):
    taxonomy = read_scenes(repository / "data/raw/sample")
    pairs, _ = split(taxonomy, TaxonomySettings(format="sample", path="x", dev=500, test=500))
    return taxonomy, pairs


SMALL = EmbedSettings(dimension=10, epochs=2, batch=100, validate_every=50, rate=0.03)


def small_run(prepared, settings=SMALL, **options):
    taxonomy, pairs = prepared
    return training.train(settings, pairs["train"], pairs["dev"], len(taxonomy.names), **options)


def test_a_run_learns_and_gives_the_same_bytes_whatever_the_threads(prepared):
    before = torch.get_num_threads()
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(small_run(prepared))
    torch.set_num_threads(before)
    assert runs[0].vectors.tobytes() == runs[1].vectors.tobytes()
    assert runs[0].progress == runs[1].progress
    assert runs[0].progress.best > 70
    assert (runs[0].vectors >= 0).all()
    assert len(runs[0].progress.curves["dev"]["accuracy"]) == 2 + 2 * 673 // 50  # the start and the end too


@pytest.mark.parametrize("name", [name for name in ENERGIES if name != "order"])
def test_each_energy_learns(prepared, name, monkeypatch):
    monkeypatch.setattr(cones, "EPOCHS", 1)
    monkeypatch.setattr(cones, "BURN_IN", 1)
    settings = SMALL.model_copy(update={"energy": name, "batch": 400})
    found = small_run(prepared, settings)
    assert np.isfinite(found.vectors).all()
    assert found.progress.best > 51
    assert found.progress.last("loss", "loss") < found.progress.curves["loss"]["loss"][0][1]


def test_the_loss_of_the_exact_embedding_is_zero(prepared):
    taxonomy, pairs = prepared
    vectors = exact_embedding(taxonomy)
    energy, part = ENERGIES["order"](vectors.shape[1]), pairs["test"]
    low, high = vectors[part.hyponyms], vectors[part.hypernyms]
    assert part.labels[:500].all()
    found = energy.gradients(low, high, {})
    assert (found.loss, len(found.rows)) == (0.0, 0)
    assert best_threshold(energy.scores(low, high, {}), part.labels) == (0.5, 100.0)


def test_loss_not_finite_or_batch_too_large_is_one_message(prepared):
    taxonomy, pairs = prepared
    few = taxonomy, {**pairs, "train": pairs["train"].where(np.arange(3000))}
    huge, message = SMALL.model_copy(update={"init": 1e30}), "the loss is not a finite number between batch 0 and 50"
    with pytest.raises(TrainingError, match=message), np.errstate(all="ignore"):
        small_run(few, huge)
    with pytest.raises(TrainingError, match=r"train.batch = 100000 takes 50000 true pairs, and 33605"):
        small_run(prepared, SMALL.model_copy(update={"batch": 100_000}))


def test_the_threshold_never_sees_test(prepared):
    taxonomy, pairs = prepared
    once = small_run(prepared)
    order = np.random.default_rng(0).permutation(len(pairs["test"].labels))
    again = small_run((taxonomy, {**pairs, "test": pairs["test"].where(order)}))
    assert once.progress.notes["threshold"] == again.progress.notes["threshold"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "corrupted", "least", "most"), [("unique", "known", 97.3, 98.5), ("released", "as_drawn", 90.9, 92.1)]
)
def test_wordnet_scores_as_a_plain_script(real_data, name, corrupted, least, most):
    """A plain script reached 97.6 on the clean split, and 91.5 by the released protocol."""
    taxonomy = read_wordnet(real_data / "wordnet", ("hypernym", "instance_hypernym"))
    lists = {f"{part}_pairs": f"split-{name}/{part}.tsv" for part in ("dev", "test")}
    rows = {"closure": "paths", "negatives": "as_drawn"} if name == "released" else {}
    pairs, _ = split(taxonomy, TaxonomySettings(lists=str(real_data / "hypernyms"), **lists, **rows))
    settings = EmbedSettings(epochs=20, corrupt=corrupted)
    found = training.train(settings, pairs["train"], pairs["dev"], len(taxonomy.names))
    test = pairs["test"]
    energies = ENERGIES["order"](50).scores(found.vectors[test.hyponyms], found.vectors[test.hypernyms], {})
    accuracy = 100 * ((energies <= found.progress.notes["threshold"]) == test.labels).mean()
    assert least <= accuracy <= most


def test_the_margin_grows_over_the_first_half(prepared):
    settings = SMALL.model_copy(update={"margin": 5.0, "margin_start": 1.0, "epochs": 8})
    taxonomy, pairs = prepared
    run = training.ConceptsTask(settings, pairs["train"], pairs["dev"], len(taxonomy.names))
    assert [run._margin(epoch) for epoch in range(8)] == [1, 2, 3, 4, 5, 5, 5, 5]
    plain = training.ConceptsTask(SMALL, pairs["train"], pairs["dev"], len(taxonomy.names))
    assert [plain._margin(epoch) for epoch in range(2)] == [1, 1]


@pytest.mark.parametrize("name", sorted(ENERGIES))
def test_saved_concepts_of_each_energy_are_read_again(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    energy = ENERGIES[name](4)
    settings = {"energy": name, "dimension": 4, "margin": 1.0, "slack": 0.0}
    vectors, weights = energy.start(3, 0.3, random), energy.weights(random)
    kept = Concepts(["a.n.01", "b.n.01", "c.n.01"], ["a", "b", "c"], vectors, weights, 0.5, settings)
    (tmp_path / "concepts").mkdir()
    kept.save(tmp_path / "concepts")
    pairs = [("a.n.01", "b.n.01"), ("c.n.01", "a.n.01")]
    assert np.array_equal(Concepts.load(tmp_path / "concepts").energy(pairs), kept.energy(pairs))
