"""Optimisers against torch and plain loops, the energies' gradients, the threshold, and training runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from saved_things import concepts

from sightword.errors import EncoderError
from sightword.evaluation.binary import best_threshold
from sightword.hypernyms.data.pairs import split
from sightword.hypernyms.data.taxonomy import read_scenes, read_wordnet
from sightword.hypernyms.settings import EmbedSettings, TaxonomySettings
from sightword.hypernyms.training import optimisers
from sightword.hypernyms.training import task as training
from sightword.hypernyms.training.concepts import Concepts
from sightword.hypernyms.training.energies import ENERGIES, Cone
from sightword.hypernyms.training.optimisers import EDGE, Adam, BallAdagrad, LazyAdam, nearness, project, sums

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


def points(count, width=3, length=0.7, seed=0):
    values = np.random.default_rng(seed).standard_normal((count, width))
    return project(
        values * length / np.linalg.norm(values, axis=1, keepdims=True) * np.linspace(0.3, 1, count)[:, None]
    )


def distance(first, second):
    """The distance in the ball, as the length of -first + second by Moebius addition (Ungar)."""
    xx, yy, xy = (first * first).sum(-1), (second * second).sum(-1), -(first * second).sum(-1)
    above = (1 + 2 * xy + yy)[..., None] * -first + (1 - xx)[..., None] * second
    return 2 * torch.atanh((above / (1 + 2 * xy + xx * yy)[..., None]).norm(dim=-1))


def test_the_gradients_of_poincare_embeddings():
    high, others = points(4), points(24, seed=1).reshape(4, 6, 3)
    first, second = (torch.from_numpy(side).requires_grad_() for side in (high, others))
    distances = distance(first[:, None].expand(4, 6, 3), second)
    loss = (distances[:, 0] + torch.logsumexp(-distances[:, 1:], dim=1)).sum()
    loss.backward()
    found = nearness(high, others)
    assert found[0] == pytest.approx(loss.item())
    np.testing.assert_allclose(found[1], first.grad.numpy(), atol=1e-10)
    np.testing.assert_allclose(found[2], second.grad.numpy(), atol=1e-10)
    assert all(np.isfinite(part).all() for part in nearness(high, np.stack([high, high], axis=1))[1:])


def test_the_steps_are_riemannian_adagrad():
    """Each point by itself, with the metric of the ball as a matrix, and the energy's gradient by torch."""
    cone, start = Cone(3), points(6)
    table = BallAdagrad(start, 0.1, cone.inner)
    plain, squares = [row.copy() for row in project(start, cone.inner)], np.zeros(6)
    for step in range(20):
        low, high = np.random.default_rng(step).choice(6, 2, replace=False)
        pair = [torch.from_numpy(plain[row].copy()).requires_grad_() for row in (low, high)]
        gradients = torch.autograd.grad(1 - cone.energy(pair[0][None], pair[1][None], {}).sum(), pair)
        ids, total, _ = sums(np.array([low, high]), np.stack([one.numpy() for one in gradients]))
        for row, gradient in zip(ids, total, strict=True):
            metric = np.eye(3) * (2 / (1 - plain[row] @ plain[row])) ** 2
            steepest = np.linalg.solve(metric, gradient)
            squares[row] += steepest @ metric @ steepest
            if squares[row] > 0:
                plain[row] = plain[row] - 0.1 * steepest / np.sqrt(squares[row])
            length = np.linalg.norm(plain[row])
            plain[row] *= min(max(length, cone.inner + EDGE), 1 - EDGE) / length
        table.step(ids, total, table.rows(ids))
    np.testing.assert_allclose(table.rows(slice(None)), plain, atol=1e-12)
    assert np.abs(table.rows(slice(None)) - start).max() > 0.05


@given(st.integers(0, 99), st.floats(0.01, 1e6), st.sampled_from((np.float32, np.float64)))
def test_points_stay_in_the_ball(seed, size, kind):
    random = np.random.default_rng(seed)
    table = BallAdagrad((size * random.standard_normal((5, 4))).astype(kind), 10.0, Cone.inner)
    for _ in range(3):
        ids = np.array([0, 2, 3])
        table.step(ids, (size * random.standard_normal((3, 4))).astype(kind), table.rows(ids))
        lengths = np.linalg.norm(table.rows(slice(None)).astype(np.float64), axis=1)
        assert ((lengths > Cone.inner) & (lengths < 1)).all()


def test_poincare_embeddings_are_those_of_the_released_loop(monkeypatch):
    """Burn-in with a tenth of the rate and popular false hyponyms, then even ones; batches of ten, by autograd."""
    low = np.arange(1, 26, dtype=np.int32)
    high = ((low - 1) // 5).astype(np.int32)
    for name, value in {"EPOCHS": 3, "BURN_IN": 2, "RATE": 0.3}.items():
        monkeypatch.setattr(optimisers, name, value)
    found = optimisers.poincare((low, high), None, 26, 2, np.random.default_rng(4))

    random = np.random.default_rng(4)
    plain = torch.from_numpy(random.uniform(-1e-4, 1e-4, (26, 2)))
    hyponyms = [1 + sum(one == concept for one in high) for concept in range(26)]
    for epoch in range(5):
        weights = [count**0.75 for count in hyponyms] if epoch < 2 else [1.0] * 26
        order = random.permutation(25)
        numbers = random.random(25 * 9) * sum(weights)
        false = [next(i for i in range(26) if sum(weights[: i + 1]) >= number) for number in numbers]
        for start in range(0, 25, 10):
            leaf = plain.clone().requires_grad_()
            loss = torch.tensor(0.0, dtype=torch.float64)
            for place in range(start, min(start + 10, 25)):
                others = [int(low[order[place]]), *false[9 * place : 9 * place + 9]]
                apart = torch.stack([distance(leaf[high[order[place]]], leaf[w]) for w in others])
                loss = loss + apart[0] + torch.logsumexp(-apart, dim=0)
            (gradient,) = torch.autograd.grad(loss, leaf)
            factor = (1 - plain.square().sum(dim=1, keepdim=True)).square() / 4
            plain = plain - (0.03 if epoch < 2 else 0.3) * factor * gradient
            plain = plain * (1 - EDGE) / plain.norm(dim=1, keepdim=True).clamp(min=1 - EDGE)
    np.testing.assert_allclose(found, plain.numpy(), atol=1e-6)


@pytest.fixture(params=ENERGIES)
def energy(request):
    return ENERGIES[request.param](4, 1.0, 0.01)


def ends(energy, count=12):
    random = np.random.default_rng(3)
    vectors = energy.start(2 * count, 1.0, random).astype(np.float64)
    weights = {name: value.astype(np.float64) for name, value in energy.weights(random).items()}
    return vectors[:count], vectors[count:], weights


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
def test_each_energy_learns_and_is_saved(prepared, name, monkeypatch, tmp_path):
    monkeypatch.setattr(optimisers, "EPOCHS", 1)
    monkeypatch.setattr(optimisers, "BURN_IN", 1)
    settings = SMALL.model_copy(update={"energy": name, "batch": 400})
    found = small_run(prepared, settings)
    assert np.isfinite(found.vectors).all()
    assert found.progress.best > 51
    assert found.progress.last("loss", "loss") < found.progress.curves["loss"]["loss"][0][1]
    settings = {key: getattr(settings, key) for key in ("energy", "dimension", "margin", "slack")}
    concepts = Concepts(prepared[0].names, prepared[0].words, found.vectors, found.weights, 0.5, settings)
    concepts.save(tmp_path)
    pairs = [(prepared[0].names[0], name) for name in prepared[0].names[1:9]]
    assert np.array_equal(Concepts.load(tmp_path).energy(pairs), concepts.energy(pairs))


def test_odd_arguments_of_concepts_are_one_message():
    kept = concepts()
    pair = kept.names[0], kept.names[1]
    expected = kept.energy([pair])
    for pairs in ([list(pair)], iter([pair]), np.array([pair]), (pair,)):
        np.testing.assert_array_equal(kept.energy(pairs), expected)
    assert kept.energy([]).shape == (0,)
    for wrong in (None, 5, [("a",)], pair, [(*pair, "a")], [(1, 2)], [None], "ab"):
        with pytest.raises(EncoderError, match=r"the pairs are|the name is|no concept"):
            kept.energy(wrong)
    for top in (0, True, 1.0, "3", None):
        with pytest.raises(EncoderError, match=r"top is .*; expected a whole number above 0"):
            kept.hypernyms(pair[0], top)
    assert kept.hypernyms(pair[0], np.int64(1)) == kept.hypernyms(pair[0], 1)


@pytest.mark.full
@pytest.mark.parametrize(("name", "corrupted", "plain"), [("unique", "known", 96.1), ("released", "as_drawn", 90.1)])
def test_wordnet_scores_as_a_plain_script(real_data, name, corrupted, plain):
    """After five epochs, as a plain script with torch's dense Adam; two seeds of each differ by at most 0.2."""
    taxonomy = read_wordnet(real_data / "wordnet", ("hypernym", "instance_hypernym"))
    lists = {f"{part}_pairs": f"split-{name}/{part}.tsv" for part in ("dev", "test")}
    rows = {"closure": "paths", "negatives": "as_drawn"} if name == "released" else {}
    pairs, _ = split(taxonomy, TaxonomySettings(lists=str(real_data / "hypernyms"), **lists, **rows))
    settings = EmbedSettings(epochs=5, corrupt=corrupted)
    found = training.train(settings, pairs["train"], pairs["dev"], len(taxonomy.names))
    test = pairs["test"]
    energies = ENERGIES["order"](50).scores(found.vectors[test.hyponyms], found.vectors[test.hypernyms], {})
    accuracy = 100 * ((energies <= found.progress.notes["threshold"]) == test.labels).mean()
    assert accuracy == pytest.approx(plain, abs=0.6)


def test_the_margin_grows_over_the_first_half(prepared):
    settings = SMALL.model_copy(update={"margin": 5.0, "margin_start": 1.0, "epochs": 8})
    taxonomy, pairs = prepared
    run = training.ConceptsTask(settings, pairs["train"], pairs["dev"], len(taxonomy.names))
    assert [run._margin(epoch) for epoch in range(8)] == [1, 2, 3, 4, 5, 5, 5, 5]
    plain = training.ConceptsTask(SMALL, pairs["train"], pairs["dev"], len(taxonomy.names))
    assert [plain._margin(epoch) for epoch in range(2)] == [1, 1]
    run.settings = settings.model_copy(update={"epochs": 1})
    assert run._margin(0) == 5
