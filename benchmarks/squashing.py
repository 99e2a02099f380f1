"""What proportions, network and crops are worth for recall, on photographs in their original size.

The 250 training and dev photographs of the list flickr8k-part, in five folds by the hash of their names: a small
encoder of n-grams learns from four folds, and ranks the 50 pictures of the fifth; no photograph of test is read. Each
way to make the features has the same folds, seeds and settings, and nothing is chosen. Differences from the first way
are those of the same pictures, with 95 % intervals over pictures. Features of all squashed pictures
(features_densenet169.npy) and the squashed copies (images_224) are used where they are at hand.

With --encoder an encoder of such features, trained without these 250 photographs, ranks all of them for each way of its
network: what it loses on features that are made in another way. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword import FeaturesSettings, ResizeSettings, SentenceEncoder, extract
from sightword.captions.vocabulary import Vocabulary
from sightword.corpus.reading import read_corpus
from sightword.corpus.settings import CorpusSettings
from sightword.evaluation.retrieval.ranks import rank
from sightword.features.tables.pairs import Pairs
from sightword.io.files import sha256_file
from sightword.model.embedding import embed_captions, embed_images
from sightword.statistics.bootstrap import draws, ends
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import train

FOLDS = 5
SAMPLES = 10_000
DENSENET, SAMPLE = "densenet169", "shufflenet_v2_x0_5"
WAYS: dict[str, dict[str, Any]] = {
    "keep": {},
    "squash": {"fit": "squash"},
    "squash, bilinear": {"fit": "squash", "interpolation": "bilinear"},
    "squashed copies": {"copies": True},
    "keep, one crop": {"crops": "one"},
    "squash, one crop": {"fit": "squash", "crops": "one"},
    "keep, sample's network": {"backbone": SAMPLE},
    "squash, sample's network": {"backbone": SAMPLE, "fit": "squash"},
}
"""The ways to make features, by what differs from DenseNet-169 and ten crops of a picture with its proportions."""
SHARED = "features_densenet169"
SETTINGS = TrainSettings(
    embedding=128, ngram_buckets=10_000, cell="ngrams", longest_ngram=4, second_caption=True, standardise="training",
    dropout_features=0.5, loss="infonce", reduction="mean", batch=100, epochs=10, schedule="cosine", cycle=10,
    rate_max=0.004, clip_images=None, clip_captions=None,
)  # fmt: skip
"""Those of the recipe flickr8k-ngrams, but smaller: a training run of 1,000 captions takes about a second."""

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]


def photographs(flickr8k: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names of the 250 photographs, sorted, and the captions of each."""
    settings = CorpusSettings(path=str(flickr8k), pictures=str(flickr8k / "images"), only="flickr8k-part")
    corpus = read_corpus(settings)
    names = sorted(image.image_id for image in corpus.images if image.split in ("train", "dev"))
    captions: dict[str, list[str]] = {name: [] for name in names}
    for caption in corpus.captions:
        if caption.image_id in captions:
            captions[caption.image_id].append(caption.text)
    return names, [captions[name] for name in names]


def features_of(way: dict[str, Any], names: list[str], flickr8k: Path, weights: Path, store: Path) -> Singles:
    """Return the features of a way, (N, D), which the store keeps."""
    options = {"backbone": DENSENET, **way}
    folder = flickr8k / ("images_224" if options.pop("copies", False) else "images")
    file = weights if options["backbone"] == DENSENET else Path("data/raw/features/sample_shufflenet.safetensors")
    sides = {"resize": "side", "fit": "fit", "interpolation": "interpolation"}
    resize = ResizeSettings.model_validate({sides[name]: options.pop(name) for name in [*options] if name in sides})
    known = {"inputs": str(file.parent), "weights": file.name, "weights_sha256": sha256_file(file)}
    settings = FeaturesSettings.model_validate(known | options)
    return extract([folder / name for name in names], settings, resize, store=store, progress=True)


def pairs_of(rows: NDArray[np.int64], features: Singles, texts: list[list[str]], vocabulary: Vocabulary) -> Pairs:
    """Return some of the pictures with their captions."""
    flat = [(place, number, text) for place, row in enumerate(rows) for number, text in enumerate(texts[row])]
    return Pairs(
        image_ids=[str(row) for row in rows],
        features=features[rows],
        texts=[text for _, _, text in flat],
        ids=[np.array(vocabulary.encode(text), np.int64) for _, _, text in flat],
        numbers=np.array([number for _, number, _ in flat], np.int64),
        image_of_caption=np.array([place for place, _, _ in flat], np.int64),
    )


def found(images: Singles, captions: Singles, owner: NDArray[np.int64]) -> Doubles:
    """Return for each picture the share of its captions that find it among ten, and whether it finds one, (N, 2)."""
    ranks = rank(captions, images, owner)
    shares = np.bincount(owner, ranks.caption_to_image <= 10) / np.bincount(owner)
    return np.stack([shares, ranks.image_to_caption <= 10], axis=1)


def fold_hits(features: Singles, texts: list[list[str]], folds: NDArray[np.int64], seed: int) -> Doubles:
    """Return :func:`found` of each picture by the encoder that was trained on the other folds."""
    hits = np.empty((len(texts), 2))
    for fold in range(FOLDS):
        rows, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        vocabulary = Vocabulary.build(text for row in others for text in texts[row])
        learn, judge = (pairs_of(some, features, texts, vocabulary) for some in (others, rows))
        run = train(
            SETTINGS.model_copy(update={"seed": seed}), learn, None, tokens=len(vocabulary), device=torch.device("cpu")
        )
        encoders = run.encoders.eval()
        hits[rows] = found(
            embed_images(encoders.images, judge.features), embed_captions(encoders.captions, judge.ids),
            judge.image_of_caption,
        )  # fmt: skip
    return hits


def summary(hits: Doubles, base: Doubles) -> dict[str, Any]:
    """Return the mean of hits (N, 2) in percent, and the difference from ``base`` with its interval over pictures."""
    difference = 100 * (hits - base)
    times = np.concatenate(list(draws(len(hits), SAMPLES, 0, "squashing"))) / len(hits)
    spread = [ends(times @ column) for column in difference.T]
    return {"r10": (100 * hits.mean(axis=0)).tolist(), "difference": difference.mean(axis=0).tolist(), "ci95": spread}


def cosines(features: Singles, shared: Singles) -> dict[str, float]:
    """Return the distribution of the cosine of each picture's features with the shared ones."""
    products = (features.astype(float) * shared).sum(axis=1)
    values = products / np.linalg.norm(features, axis=1) / np.linalg.norm(shared.astype(float), axis=1)
    quantiles = dict(zip(("min", "q05", "median", "q95"), np.quantile(values, [0, 0.05, 0.5, 0.95]), strict=True))
    return {name: round(float(value), 4) for name, value in {"mean": values.mean(), **quantiles}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with flickr8k/")
    parser.add_argument("--weights", type=Path, default=data / "weights/densenet169_imagenet.safetensors")
    parser.add_argument("--store", type=Path, default=Path("store"), help="keeps the features")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--encoder", type=Path, help="an encoder that was trained without these photographs")
    arguments = parser.parse_args()
    flickr8k = arguments.data / "flickr8k"
    names, texts = photographs(flickr8k)
    order = np.argsort([hashlib.sha256(name.encode()).hexdigest() for name in names])
    folds = np.empty(len(names), np.int64)
    folds[order] = np.arange(len(names)) % FOLDS
    ways = {name: way for name, way in WAYS.items() if "copies" not in way or (flickr8k / "images_224").is_dir()}
    made = {name: features_of(way, names, flickr8k, arguments.weights, arguments.store) for name, way in ways.items()}
    if (flickr8k / f"{SHARED}.npy").is_file():
        rows = {name: row for row, name in enumerate((flickr8k / f"{SHARED}.txt").read_text().split())}
        table = np.load(flickr8k / f"{SHARED}.npy", mmap_mode="r")
        made["shared"] = table[[rows[name] for name in names]].astype(np.float32)
    result: dict[str, Any] = {"pictures": len(names), "seeds": arguments.seeds, "ways": {}}
    hits = {
        name: np.mean([fold_hits(features, texts, folds, seed) for seed in range(arguments.seeds)], axis=0)
        for name, features in tqdm(made.items(), desc="ways", unit="way")
    }
    for name, features in made.items():
        result["ways"][name] = summary(hits[name], hits["keep"])
        if "shared" in made and features.shape == made["shared"].shape:
            result["ways"][name]["cosine"] = cosines(features, made["shared"])
    if arguments.encoder:
        encoder = SentenceEncoder.load(arguments.encoder)
        captions = encoder.encode([text for each in texts for text in each])
        owner = np.repeat(np.arange(len(texts)), [len(each) for each in texts])
        fits = {name: found(encoder.encode_images(features), captions, owner) for name, features in made.items()
                if features.shape[1] == encoder.features_width}  # fmt: skip
        base = fits["shared" if "shared" in fits else "keep"]
        result["encoder"] = {name: summary(one, base) for name, one in fits.items()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
