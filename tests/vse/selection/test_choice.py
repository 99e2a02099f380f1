"""The best snapshots on dev become the encoder."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from sightword import score
from sightword.captions.vocabulary import Vocabulary
from sightword.errors import EncoderError, TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.io.files import atomic_folder
from sightword.model.encoders import Encoders
from sightword.model.saved import write_tensors
from sightword.vse.selection.choice import choose, ensemble, lexical_part, mean_r10, read_beside
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import Snapshots, file_name, read_snapshots, validate

SETTINGS = TrainSettings(embedding=4, hidden=3, attention=4, epochs=4, cycle=1)
TEXTS = [f"{first}{second}" for first in "abcdef" for second in "uvwxyz"]
CPU = torch.device("cpu")
NONE = {way: dict.fromkeys(("r1", "r5", "r10", "mean_rank"), 0.0) for way in ("caption_to_image", "image_to_caption")}


@pytest.fixture
def snapshots(tmp_path):
    """Four snapshots of a network that was never trained, so each has its own recall."""
    vocabulary = Vocabulary.build(TEXTS)
    with atomic_folder(tmp_path / "snapshots") as folder:
        for epoch in (1, 2, 3, 4):
            torch.manual_seed(epoch)
            write_tensors(folder / file_name(epoch), Encoders(len(vocabulary), 5, SETTINGS.shape).state_dict())
        recall, features = dict.fromkeys((1, 2, 3, 4), NONE), {"backbone": "none", "checksum": "f"}
        Snapshots(folder, recall, SETTINGS.model_dump(), features, 5, "c", vocabulary).write_index()
    return read_snapshots(tmp_path / "snapshots")


@pytest.fixture
def dev(snapshots):
    rows = [np.asarray(snapshots.vocabulary.encode(text)) for text in TEXTS]
    features = np.random.default_rng(0).normal(size=(36, 5)).astype(np.float32)
    return Pairs([f"{n}" for n in range(36)], features, TEXTS, rows, np.zeros(36, np.int64), np.arange(36))


def test_the_best_by_mean_recall_at_10_are_taken_the_best_first(snapshots, dev):
    choice = choose(snapshots, dev, SelectSettings(members=2), device=CPU)
    assert list(choice.recall) == [1, 2, 3, 4]
    assert len(set(choice.recall.values())) > 1
    ordered = sorted(choice.recall.values(), reverse=True)
    assert [choice.recall[epoch] for epoch in choice.epochs] == ordered[:2]
    assert choice.encoder.notes["epochs"] == choice.epochs
    best = choose(snapshots, dev, SelectSettings(members=1), device=CPU)
    assert mean_r10(best.ensemble) == pytest.approx(ordered[0])


def test_epochs_at_the_ends_of_cycles_are_compared(snapshots, dev):
    every_other = replace(snapshots, training={**snapshots.training, "cycle": 2})
    assert list(choose(every_other, dev, SelectSettings(members=1), device=CPU).recall) == [2, 4]


def test_recall_of_training_is_taken_where_it_is_given_and_is_that_of_the_loaded_encoders(snapshots, dev):
    measured = choose(snapshots, dev, SelectSettings(members=2), device=CPU)
    known = {epoch: validate(snapshots.load(epoch), dev, "cosine") for epoch in snapshots.epochs}
    read = choose(snapshots, dev, SelectSettings(members=2), device=CPU, recall=known)
    assert (read.recall, read.score, read.epochs) == (measured.recall, measured.score, measured.epochs)
    known[1] = {way: {**entry, "r10": 100.0} for way, entry in known[1].items()}
    asked = [({"checksum": "f"}, "c"), ({"checksum": "g"}, "c"), ({"checksum": "f"}, "d")]
    assert [snapshots.validated_on(*each) for each in asked] == [True, False, False]
    assert not replace(snapshots, features={}).validated_on({}, "c")
    assert choose(snapshots, dev, SelectSettings(members=2), device=CPU, recall=known).epochs[0] == 1


@pytest.mark.parametrize(
    ("criterion", "directions"),
    [("caption_to_image_rsum", ["caption_to_image"]), ("rsum", ["caption_to_image", "image_to_caption"])],
)
def test_another_criterion_chooses_by_sums_of_recalls(snapshots, dev, criterion, directions):
    choice = choose(snapshots, dev, SelectSettings(members=1, criterion=criterion), device=CPU)
    for epoch, found in choice.score.items():
        alone = ensemble(snapshots, [epoch], False, CPU)
        entry = score(alone.encode(dev.texts), alone.encode_images(dev.features), dev.image_of_caption)
        assert found == pytest.approx(sum(entry[way][f"r{k}"] for way in directions for k in (1, 5, 10)))
        assert choice.recall[epoch] == mean_r10(entry)
    assert len(set(choice.score.values())) > 1
    assert choice.epochs == [max(choice.score, key=lambda epoch: (choice.score[epoch], epoch))]


def test_untrained_encoders_are_never_chosen(snapshots, dev):
    full = {way: dict.fromkeys(("r1", "r5", "r10"), 100.0) for way in ("caption_to_image", "image_to_caption")}
    none = {way: dict.fromkeys(("r1", "r5", "r10"), 0.0) for way in full}
    recall = {0: full, **dict.fromkeys(snapshots.epochs, none)}
    kept = replace(snapshots, recall=recall)
    choice = choose(kept, dev, SelectSettings(members=1), device=CPU, recall=recall)
    assert choice.epochs == [4]
    assert 0 not in choice.score


def test_an_ensemble_that_is_not_renormalised_is_ranked_by_the_dot_product_of_the_sums(snapshots, dev):
    """As the released code has it; the oracle sums and multiplies in float64 and compares all with all."""
    settings = SelectSettings(members=3, renormalise=False)
    choice = choose(snapshots, dev, settings, device=CPU)
    assert choice.encoder.similarity_name == "dot"
    alone = [ensemble(snapshots, [epoch], False, CPU) for epoch in choice.epochs]
    images = sum(one.encode_images(dev.features).astype(np.float64) for one in alone)
    captions = sum(one.encode(dev.texts).astype(np.float64) for one in alone)
    lengths = [np.linalg.norm(side, axis=1, keepdims=True) for side in (images, captions)]
    assert min(length.max() / length.min() for length in lengths) > 1.05
    products = captions @ images.T
    own = np.diag(products)  # one caption a picture here
    ranks = {
        "caption_to_image": (products >= own[:, None]).sum(axis=1),
        "image_to_caption": (products >= own).sum(axis=0),
    }
    for direction, found in ranks.items():
        assert choice.ensemble[direction]["mean_rank"] == found.mean()
        for k in (1, 5, 10):
            assert choice.ensemble[direction][f"r{k}"] == pytest.approx(100 * (found <= k).mean())

    renormalised = choose(snapshots, dev, settings.model_copy(update={"renormalise": True}), device=CPU)
    assert renormalised.encoder.similarity_name == "cosine"
    assert renormalised.epochs == choice.epochs  # each alone has the same recalls either way
    assert renormalised.recall == choice.recall
    cosines = products / lengths[1] / lengths[0].T
    expected = (cosines >= np.diag(cosines)[:, None]).sum(axis=1)
    assert renormalised.ensemble["caption_to_image"]["mean_rank"] == expected.mean()
    for direction in ranks:
        assert renormalised.ensemble[direction]["mean_rank"] != choice.ensemble[direction]["mean_rank"]


def test_of_equals_the_later_one_is_taken(snapshots, dev, tmp_path):
    first = (snapshots.folder / file_name(1)).read_bytes()
    for epoch in (2, 3, 4):
        (snapshots.folder / file_name(epoch)).write_bytes(first)
    assert choose(snapshots, dev, SelectSettings(members=2), device=CPU).epochs == [4, 3]
    with pytest.raises(TrainingError, match=r"select.members = 5 snapshots are wanted, there are 4 to choose from"):
        choose(snapshots, dev, SelectSettings(members=5), device=CPU)


def test_encoders_beside_it_take_part_in_the_recall_of_the_whole_only(snapshots, dev):
    other = ensemble(snapshots, [4], False, CPU)
    choice = choose(snapshots, dev, SelectSettings(members=1), device=CPU, beside=[other])
    alone = choose(snapshots, dev, SelectSettings(members=1), device=CPU)
    assert (choice.epochs, choice.recall) == (alone.epochs, alone.recall)
    own = alone.encoder
    similarities = np.mean(
        [each.encode(TEXTS) @ each.encode_images(dev.features).T for each in (own, other)], axis=0, dtype=np.float64
    )
    ranks = 1 + (similarities > np.diag(similarities)[:, None]).sum(axis=1)
    assert choice.ensemble["caption_to_image"]["r5"] == pytest.approx(100 * np.mean(ranks <= 5))
    assert choice.ensemble["caption_to_image"] != alone.ensemble["caption_to_image"]


@pytest.mark.parametrize("members", [1, 2])
def test_a_lexical_part_has_its_share_and_the_recall_of_renormalised_members(snapshots, dev, members):
    lexical = lexical_part(64, dev.ids, snapshots.vocabulary, device=CPU)
    choice = choose(snapshots, dev, SelectSettings(members=members, lexical_share=0.3), device=CPU, lexical=lexical)
    alone = choose(snapshots, dev, SelectSettings(members=members, renormalise=True), device=CPU)
    assert (choice.epochs, choice.ensemble) == (alone.epochs, alone.ensemble)
    assert choice.encoder.shares == (0.7, 0.3)
    cosines = [one.similarity(vectors, vectors) for one in (choice.encoder, alone.encoder, lexical)
               for vectors in [one.encode(TEXTS)]]  # fmt: skip
    np.testing.assert_allclose(cosines[0], 0.7 * cosines[1] + 0.3 * cosines[2], atol=1e-6)


def test_an_encoder_to_stand_beside_was_trained_on_the_same_captions_and_features(snapshots, tmp_path):
    def read(name, **changed):
        return read_beside(tmp_path, [name], replace(snapshots, **changed), device=CPU)

    with pytest.raises(EncoderError, match=r"mine: is no folder of an encoder \(select.beside\); expected none yet"):
        read("mine")
    ensemble(snapshots, [4], False, CPU).save(tmp_path / "gru")
    with pytest.raises(EncoderError, match=r"mine: is no folder .*; expected gru. Copy models/encoder"):
        read("mine")
    (found,) = read("gru")
    assert found.notes["epochs"] == [4]
    with pytest.raises(EncoderError, match=r"gru: was trained on other captions, perhaps on pictures of dev or test"):
        read("gru", captions_sha256="d")
    with pytest.raises(EncoderError, match=r"gru: was trained on .* kind: backbone 'none'; expected 'vgg19'"):
        read("gru", features={"backbone": "vgg19"})
    with pytest.raises(EncoderError, match=r"gru: .*: number of features of a picture 5; expected 6"):
        read("gru", features_width=6)
    with pytest.raises(
        EncoderError, match=r"gru: cannot be joined with an encoder .* similarity order; expected train"
    ):
        read("gru", training={**snapshots.training, "similarity": "order"})


@pytest.mark.parametrize("names", [[""], ["."], [".."], ["../gru"], ["/gru"], ["a/b"], ["gru", "gru"]])
def test_the_encoders_beside_are_named_by_their_folders_once_each(names):
    with pytest.raises(ValidationError, match=r"is not the name of a folder in data/raw/beside|stands twice"):
        SelectSettings(beside=names)
    assert SelectSettings(beside=["gru", "lstm.2"]).beside == ["gru", "lstm.2"]
