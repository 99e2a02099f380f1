"""Training learns, repeats itself exactly, and stops with a clear message; rates, clipping and curves."""

from __future__ import annotations

import csv
import logging
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_pictures import VOCABULARY, spelled

from pipeline.params import overlay, recipes
from sightword import score
from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.model.similarity import unit
from sightword.training.checkpoint import Progress
from sightword.vse.training import snapshots
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import DIRECTIONS, validate
from sightword.vse.training.task import (
    CaptionTask,
    Data,
    clip,
    cosine_rate,
    cyclic_rate,
    learning_rate,
    train,
    write_curves,
)

SETTINGS = TrainSettings(
    embedding=6, hidden=12, attention=8, batch=8, epochs=8, cycle=4, rate_max=0.02, clip_images=None,
    clip_captions=None, reduction="sum",
)  # fmt: skip
CPU = torch.device("cpu")
SCOPES = ("side", "all", "tensor")


@pytest.fixture(scope="module")
def pairs():
    return spelled()


def run(pairs, **change):
    kept = {}

    def keep(epoch, encoders):
        kept[epoch] = {name: value.clone() for name, value in encoders.state_dict().items()}

    return kept, train(SETTINGS.model_copy(update=change), Data(pairs, pairs, VOCABULARY), device=CPU, keep=keep)


def test_run_learns_and_keeps_a_snapshot_each_cycle(pairs):
    kept, done = run(pairs)
    assert list(kept) == [4, 8]
    losses = [loss for _, loss in done.progress.curves["loss"]["loss"]]
    assert losses[-1] < losses[0] / 4
    assert done.recall[8]["caption_to_image"]["r1"] > 60
    steps, rates = 8 * 2 * 3, done.progress.curves["learning_rate"]["learning_rate"]
    assert [step for step, _ in rates] == list(range(1, steps + 1))
    assert [rate for _, rate in rates] == pytest.approx(
        [cyclic_rate(step, steps // 2, 1e-6, 0.02) for step in range(steps)]
    )


def test_every_kept_epoch_has_its_recall_and_epoch_0_is_untrained(pairs):
    short = {"epochs": 4, "snapshots": "epoch"}
    kept, done = run(pairs, **short)
    assert list(kept) == list(done.recall) == [0, 1, 2, 3, 4]
    start = CaptionTask(SETTINGS.model_copy(update=short), Data(pairs, None, VOCABULARY), CPU).encoders
    assert all(torch.equal(value, kept[0][name]) for name, value in start.state_dict().items())
    assert done.recall[0] == validate(start, pairs, "cosine")
    assert done.recall[0]["caption_to_image"]["r10"] < done.recall[4]["caption_to_image"]["r10"]


def test_same_parameters_give_the_same_weights_another_seed_others(pairs):
    one, two, other = (run(pairs, epochs=4, seed=seed)[0][4] for seed in (0, 0, 1))
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    assert not torch.equal(one["images.linear.weight"], other["images.linear.weight"])


@pytest.mark.parametrize(
    "change",
    [
        {"cell": "lstm", "pooling": "max"},
        {"precision": "bf16", "standardise": "training"},
        {"similarity": "order", "margin": 0.05, "initialisation": "order_embeddings"},
        {"similarity": "reversed_order", "margin": 0.05, "loss": "hardest"},
        {"captions_per_epoch": "one", "epochs": 8},
    ],
)
def test_each_variant_trains(pairs, change):
    _, done = run(pairs, **{"epochs": 4, **change})
    losses = [loss for _, loss in done.progress.curves["loss"]["loss"]]
    assert losses[-1] < losses[0] / 2


def test_recall_in_bfloat16_is_that_of_the_kept_weights_in_float32(pairs):
    change = {"precision": "bf16", "rate_max": 0.002}
    kept, done = run(pairs, **change)
    for epoch in (4, 8):
        encoders = Encoders(len(VOCABULARY), pairs.features.shape[1], SETTINGS.shape)
        encoders.load_state_dict(kept[epoch])
        assert done.recall[epoch] == validate(encoders, pairs, "cosine")
    assert done.recall[8]["caption_to_image"]["r1"] < 100


def test_copies_of_a_picture_are_no_mismatches():
    features, rows = np.array([[0, 2], [3, 4], [-0.0, 2], [-0.0, 0]], np.float32), np.arange(4)
    copies = Pairs([""] * 4, features, [""] * 4, [np.ones(1, np.int64)] * 4, rows * 0, rows)
    assert CaptionTask(SETTINGS, Data(copies, None, VOCABULARY), CPU).same_picture.tolist() == [0, 1, 0, 3]


# The learning rate of each batch


def test_cyclic_rate_starts_and_ends_low_and_peaks_in_the_middle():
    rates = [cyclic_rate(step, 100, 1e-6, 1e-3) for step in range(301)]
    assert rates[0:301:100] == pytest.approx([1e-6] * 4)
    assert rates[50:300:100] == pytest.approx([1e-3] * 3)
    assert rates[:51] == sorted(rates[:51])
    assert rates[50:101] == sorted(rates[50:101], reverse=True)
    assert rates[25] == pytest.approx((1e-3 + 1e-6) / 2)
    settings = TrainSettings(cycle=2, rate_min=1e-6, rate_max=1e-3)  # cycles are counted in batches over the whole run
    assert [learning_rate(settings, step, 50) for step in range(301)] == rates


def test_steps_are_a_tenth_after_so_many_epochs():
    settings = TrainSettings(schedule="step", rate_max=2e-4, step_factor=0.1, epochs=32)
    rates = [learning_rate(settings, step, 7) for step in range(32 * 7)]
    assert rates == pytest.approx([2e-4] * 15 * 7 + [2e-5] * 15 * 7 + [2e-6] * 2 * 7)
    constant = settings.model_copy(update={"step_factor": 1.0})
    assert {learning_rate(constant, step, 7) for step in range(32 * 7)} == {2e-4}


def test_cosine_rises_in_proportion_and_falls_to_the_end():
    settings = TrainSettings(schedule="cosine", rate_min=1e-5, rate_max=1e-3, epochs=4)
    rates = [learning_rate(settings, step, 25) for step in range(100)]
    assert rates[:10] == pytest.approx([1e-3 * (step + 1) / 10 for step in range(10)])
    assert rates[10:] == pytest.approx([1e-5 + 0.99e-3 * 0.5 * (1 + math.cos(math.pi * s / 90)) for s in range(90)])
    assert cosine_rate(0, 10, 0.0, 1e-5, 1e-3) == 1e-3


def test_range_test_rises_by_equal_factors():
    settings = TrainSettings(schedule="range", rate_min=1e-6, rate_max=1e-1, epochs=3, cycle=3)
    rates = [learning_rate(settings, step, 17) for step in range(3 * 17)]
    assert [math.log10(rate) for rate in rates] == pytest.approx([-6 + 5 * step / 50 for step in range(51)])


# Gradients are clipped as each published system does it: against plain loops in float64


def small(**values: object) -> TrainSettings:
    return TrainSettings(**{"embedding": 3, "hidden": 4, "attention": 3, **values})


def with_gradients(device: str = "cpu") -> Encoders:
    random = torch.Generator().manual_seed(0)
    encoders = Encoders(7, 5, small().shape)
    for place, weight in enumerate(encoders.parameters()):
        weight.grad = torch.randn(weight.shape, generator=random) * 3.0 ** (place % 5 - 2)
    return encoders.to(device)


def gradients(encoders: Encoders) -> dict[str, np.ndarray]:
    return {name: weight.grad.double().numpy().copy() for name, weight in encoders.named_parameters()}


def length(gradients: dict[str, np.ndarray]) -> float:
    return math.sqrt(sum(float(number) ** 2 for gradient in gradients.values() for number in gradient.flat))


def shortened(gradients: dict[str, np.ndarray], limit: float | None) -> dict[str, np.ndarray]:
    """All of them, so that together they are no longer than the limit."""
    if limit is None or length(gradients) <= limit:
        return gradients
    return {name: gradient / length(gradients) * limit for name, gradient in gradients.items()}


def by_hand(gradients: dict[str, np.ndarray], scope: str, limits: dict[str, float | None]) -> dict[str, np.ndarray]:
    if scope == "all":
        return shortened(gradients, limits["images"])
    found = {}
    for side, limit in limits.items():
        of_side = {name: gradient for name, gradient in gradients.items() if name.startswith(f"{side}.")}
        parts = [of_side] if scope == "side" else [{name: gradient} for name, gradient in of_side.items()]
        for part in parts:
            found |= shortened(part, limit)
    return found


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("images", "captions"), [(0.5, 0.5), (0.02, 4.0), (None, 2.0), (None, None)])
def test_clipped_gradients_are_those_by_hand(scope, images, captions):
    if scope == "all":
        captions = images
    encoders = with_gradients()
    before = gradients(encoders)
    norms = clip(encoders, small(clip_scope=scope, clip_images=images, clip_captions=captions))
    wanted = by_hand(before, scope, {"images": images, "captions": captions})
    for name, gradient in gradients(encoders).items():
        np.testing.assert_allclose(gradient, wanted[name], rtol=2e-5, err_msg=name)
        assert images is not None or captions is not None or np.array_equal(gradient, before[name])
    sides = [{name: gradient for name, gradient in before.items() if name.startswith(side)} for side in ("im", "cap")]
    np.testing.assert_allclose(norms.numpy(), [length(side) for side in sides], rtol=1e-6)  # before clipping


def test_scope_all_has_one_limit():
    with pytest.raises(ValueError, match=r"one limit for both sides, but clip_images is 1\.0 and clip_captions 2\.0"):
        small(clip_scope="all", clip_images=1.0, clip_captions=2.0)
    assert small(clip_scope="all", clip_images=None, clip_captions=None).clip_scope == "all"


def test_each_recipe_clips_as_its_system_does(repository):
    every = [(one.name, overlay.resolve(one, repository)) for one in recipes.list_recipes(repository)]
    scopes = {name: whole.values["train"]["clip_scope"] for name, whole in every if not whole.pipeline.folder}
    assert scopes.pop("coco-vsepp") == scopes.pop("flickr8k-vsepp") == "all"
    assert scopes.pop("coco-order") == scopes.pop("flickr8k-order") == "tensor"
    assert set(scopes.values()) == {"side"}


# Curves, as DVC plots them


def test_curves_are_three_tables_and_begin_with_recall_alone(tmp_path):
    """The untrained encoders, and two epochs of seven batches, three points each, of 3, 2 and 2 batches."""
    points = [3, 5, 7, 10, 12, 14]
    recalls = {
        f"{direction}/r{k}": [(7 * epoch, float(10 * epoch + k + 50 * side)) for epoch in range(3)]
        for side, direction in enumerate(DIRECTIONS)
        for k in (1, 5, 10)
    }
    curves = {
        "loss": {"loss": list(zip(points, [6.0, 4.0, 2.0, 3.0, 1.0, 0.5], strict=True))},
        "learning_rate": {"learning_rate": [(step, step / 1000) for step in points]},
        "recall": recalls,
    }

    def table(name):
        with (tmp_path / name).open(newline="") as file:
            return list(csv.DictReader(file, delimiter="\t"))

    write_curves(tmp_path, Progress(14, curves))
    assert table("loss.tsv")[3] == {"step": "10", "loss": "3"}
    assert table("learning_rate.tsv")[-1] == {"step": "14", "learning_rate": "0.014"}
    first, *_, last = table("recall.tsv")
    assert (first["epoch"], first["caption_to_image_r10"]) == ("0", "10")
    assert (last["epoch"], last["caption_to_image_r10"], last["image_to_caption_r5"]) == ("2", "30", "75")
    write_curves(tmp_path, Progress(0, {"recall": {name: points[:1] for name, points in recalls.items()}}))
    assert [row["epoch"] for row in table("recall.tsv")] == ["0"]
    assert (tmp_path / "loss.tsv").read_text() == "step\tloss\n"


# Recall on dev in training is that of the retrieval protocol, and that of the saved encoder


class Given:
    """Stands for a network: features and token ids are the embeddings themselves."""

    device, images, captions = torch.device("cpu"), None, None


def split(images, captions, owner):
    return Pairs(
        image_ids=[str(row) for row in range(len(images))],
        features=images,
        texts=[""] * len(captions),
        ids=captions,
        numbers=np.zeros(len(captions), np.int64),
        image_of_caption=owner,
    )


def found_by(monkeypatch, images, captions, owner, similarity):
    monkeypatch.setattr(snapshots, "embed_images", lambda _, rows: rows)
    monkeypatch.setattr(snapshots, "embed_captions", lambda _, rows: rows)
    return validate(Given(), split(images, captions, owner), similarity)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(["cosine", "order", "reversed_order"]), st.integers(1, 40), st.integers(1, 6))
def test_recalls_and_mean_ranks_are_those_of_the_protocol(data, similarity, pictures, width):
    """Few values, so that many rows are equal; any number of captions a picture, in any order; any size of block."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    owner = random.permutation(np.r_[np.arange(pictures), random.integers(0, pictures, data.draw(st.integers(0, 60)))])

    def rows(count):
        values = torch.from_numpy(random.integers(-1, 3, (count, width)).astype(np.float32))
        return unit(values, similarity).numpy()

    images, captions = rows(pictures), rows(len(owner))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "_NUMBERS", data.draw(st.integers(1, 2000)))
        patch.setattr(logging.getLogger("sightword.evaluation.retrieval"), "disabled", True)
        found = found_by(patch, images, captions, owner, similarity)
    expected = score(captions, images, owner, similarity)
    for direction in DIRECTIONS:
        assert found[direction] == {name: expected[direction][name] for name in ("r1", "r5", "r10", "mean_rank")}


def test_embeddings_that_are_not_finite_stop_training(monkeypatch):
    images = np.eye(5, dtype=np.float32)
    images[3, 2] = np.nan
    with pytest.raises(TrainingError, match=r"embeddings of dev are not finite\. Lower train\.rate_max"):
        found_by(monkeypatch, images, np.eye(5, dtype=np.float32), np.arange(5), "cosine")


@pytest.mark.parametrize("change", [{}, {"mask_padding": False}, {"precision": "bf16"}, {"similarity": "order"}])
def test_a_network_has_the_recalls_of_its_saved_encoder(change):
    """Equal captions of other pictures tie, wherever they stand among captions of other lengths."""
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.parts import parts_of
    from sightword.encoder.sentence_encoder import SentenceEncoder

    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abc"), random.integers(1, 9))) for _ in range(400)]
    assert len(set(texts)) < 380
    vocabulary = Vocabulary.build(texts)
    chosen = TrainSettings(embedding=4, hidden=5, attention=4, **change)
    torch.manual_seed(0)
    network = Encoders(len(vocabulary), 6, chosen.shape).train()
    features = random.normal(size=(200, 6)).astype(np.float32)
    dev = Pairs(
        image_ids=[f"{row:03d}" for row in range(200)],
        features=features,
        texts=texts,
        ids=[np.asarray(vocabulary.encode(text), np.int64) for text in texts],
        numbers=np.tile([0, 1], 200),
        image_of_caption=np.repeat(np.arange(200), 2),
    )
    found = validate(network, dev, chosen.similarity)
    assert network.training  # as it was
    encoder = SentenceEncoder(parts_of([network], vocabulary, chosen.shape))
    expected = score(encoder.encode(texts), encoder.encode_images(features), dev.image_of_caption, chosen.similarity)
    for direction in DIRECTIONS:
        assert found[direction] == {name: expected[direction][name] for name in found[direction]}
