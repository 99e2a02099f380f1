"""Each thing that Sightword writes and reads back as trusted: how a small one is written, and what a reader sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from encoder_kinds import KINDS, TEXTS
from small_ground import SETTINGS, VOCABULARY

from sightword.captions.table import CaptionTable, read_captions, read_texts, sealed_pictures, write_captions
from sightword.captions.vocabulary import FOLDER as CAPTIONS
from sightword.captions.vocabulary import Vocabulary
from sightword.corpus.reading import clean
from sightword.corpus.records import Caption, Image, write_tables
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.entailment.data import pairs as entailment
from sightword.entailment.training.energies import DECISION, read_decision
from sightword.errors import TrainingError
from sightword.evaluation.retrieval.protocols import corpus_order, drawn_splits
from sightword.evaluation.semantics.results import SCHEMA, read_pairs
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.grounded import comparing as results
from sightword.grounded.judging.measuring import FORMAT as JUDGED
from sightword.grounded.skipthought import network as skipthought
from sightword.grounded.skipthought.network import build
from sightword.hypernyms.data.pairs import ConceptPairs, read_prepared, write_prepared
from sightword.hypernyms.data.taxonomy import Taxonomy
from sightword.hypernyms.training.concepts import Concepts
from sightword.images import resized, shards
from sightword.images.encoding import hash_pixels
from sightword.io.files import atomic_folder, read_table, write_table
from sightword.model.encoders import Encoders
from sightword.text.storage import Text, write_text
from sightword.training.checkpoint import Checkpoint, Progress
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import Snapshots, copy_snapshots, file_name, keep, read_snapshots

WORDS = ["a dog runs", "two dogs run", "a cat sleeps", "snow falls"]
TRAINING = TrainSettings(embedding=4, hidden=3, attention=4, epochs=4, cycle=2)
NAMES = [f"p{number}" for number in range(4)]


def concepts():
    vectors = np.random.default_rng(0).random((3, 2), np.float32)
    settings = {"energy": "order", "dimension": 2, "margin": 1.0, "slack": 0.0}
    return Concepts(["dog", "cat", "animal"], ["dog, hound", "cat", "animal"], vectors, {}, 0.5, settings)


def save_concepts(folder):
    folder.mkdir(exist_ok=True)
    concepts().save(folder)


def save_network(folder):
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    skipthought.save(folder, build(SETTINGS, len(VOCABULARY)), VOCABULARY, result={"steps": 3, "loss": 0.5})


def network(epoch):
    torch.manual_seed(epoch)
    return Encoders(len(Vocabulary.build(WORDS)), 5, TRAINING.shape)


def recall(value):
    measures = {"r1": value, "r5": value + 1.5, "r10": value + 2.5, "mean_rank": 2.0}
    return {"caption_to_image": measures, "image_to_caption": measures}


def save_snapshots(folder):
    with atomic_folder(folder.parent / "half-done") as source:
        for epoch in (2, 4):
            keep(source, epoch, network(epoch))
        with atomic_folder(folder) as place:
            epochs = {epoch: recall(30.0 + epoch) for epoch in copy_snapshots(source, place, 4)}
            attributes = {"backbone": "none", "checksum": "f"}
            Snapshots(place, epochs, TRAINING.model_dump(), attributes, 5, "c", Vocabulary.build(WORDS)).write_index()


def read_whole_snapshots(folder):
    found = read_snapshots(folder)
    return found, [found.load(epoch).state_dict() for epoch in found.epochs]


def keep_snapshots(folder):
    folder.mkdir()
    for epoch in (2, 4):
        keep(folder, epoch, network(epoch))


def copied_snapshots(folder):
    with atomic_folder(folder.parent / "copied") as place:
        return [(place / file_name(epoch)).read_bytes() for epoch in copy_snapshots(folder, place, 4)]


def save_checkpoint(folder):
    folder.mkdir()
    curves = {"loss": {"loss": [(1, 2.5), (3, 1.5)]}, "dev": {"accuracy": [(3, 60.0)]}}
    progress = Progress(3, curves, 60.0, 3, {"threshold": 0.7})
    Checkpoint(folder).save(progress, {"modules.weight": torch.arange(6.0), "random": torch.get_rng_state()})


def read_checkpoint(folder):
    names = sorted(path.name for path in folder.iterdir())
    found = Checkpoint(folder).load()
    if found is None:  # it was set aside
        raise TrainingError(f"{names}: is damaged")
    return found


def captions(*, ids=True):
    rows = [np.asarray(Vocabulary.build(WORDS).encode(text), np.int32) for text in WORDS] if ids else []
    return CaptionTable(NAMES, [0] * 4, ["train", "train", "dev", "test"], WORDS, rows)


def save_captions(folder):
    folder.mkdir()
    write_captions(folder / "captions.parquet", captions())
    CAPTIONS.write(folder, Vocabulary.build(WORDS).to_json(), ["captions.parquet"])


def read_captions_folder(folder):
    CAPTIONS.read(folder)
    return read_captions(folder / "captions.parquet"), Vocabulary.load(folder / "vocabulary.json")


def save_corpus(folder):
    images = [Image(name, name, "train") for name in NAMES]
    texts = [Caption(*one) for one in zip(NAMES, "0000", WORDS, strict=True)]
    write_tables(folder, clean(images, texts, None, require_pictures=False), "pictures")


def read_corpus(folder):
    images = folder / "images.parquet"
    return (
        *(read_texts(folder / "captions.parquet"), sealed_pictures(folder / "captions.parquet")),
        *(corpus_order(images, NAMES), drawn_splits(images), resized.corpus_sources(images)),
        read_table(folder / "dropped.parquet", ["kind", "item", "reason", "detail"]),
        read_table(folder / "drawn.parquet", ["image_id", "attribute"]),
    )


def save_resized(folder):
    folder.mkdir()
    pixels = bytes(range(12))
    rows = [shards.ResizedPicture(name, "0" * 64, hash_pixels(pixels, 2, 2), 2, 2, "raw", pixels) for name in NAMES]
    shards.write_shard(shards.shard_path(folder, 0), rows, {"resize": 2, "exif": True})
    table = {"image_id": ["q"], "reason": ["damaged"], "detail": ["cut"]}
    write_table(folder / "rejects.parquet", pa.table(table))


def read_resized(folder):
    pictures = [shards.read_group(group) for group in dict.fromkeys(one.group for one in shards.list_pictures(folder))]
    return shards.read_transform(folder), pictures, resized.read_rejects(folder)


def save_features(folder):
    values = np.random.default_rng(0).random((4, 3), np.float32)
    origin = Origin("none", "", "none", "", "{}", "fp32", "extracted")
    write_features(folder / "features.h5", NAMES, [""] * 4, 3, [(np.arange(4), values)], origin)


def save_text(folder):
    folder.mkdir()
    nothing = np.array([0, 0, 1])
    write_text(folder, VOCABULARY, [np.array([2, 3, 4, 2, 2])], [1, 0, 4], nothing, nothing, max_tokens=5)
    write_captions(folder / "captions.parquet", captions())


def read_text(folder):
    return Text.open(folder), read_captions(folder / "captions.parquet")


def save_entailment(folder):
    KINDS["sentences only"]().save(folder / "encoder")
    decision = {"energy": "order", "threshold": 0.25, "criterion": "accuracy", "dev": 70.0}
    DECISION.write(folder, decision, ["encoder/SHA256SUMS"])


def read_entailment(folder):
    return read_decision(folder), SentenceEncoder.load(folder / "encoder").encode(TEXTS)


def save_sentence_pairs(folder):
    folder.mkdir()
    rows = [(WORDS[0], WORDS[1], "entailment", "own"), (WORDS[2], WORDS[3], "neutral", "own")]
    part = entailment.SentencePairs.of(rows)
    counts = {"train": {"pairs": 2, "labels": {"entailment": 1, "neutral": 1}, "sources": {"own": 2}}}
    entailment.write_pairs(folder, dict.fromkeys(("train", "dev", "test"), part), counts)


def read_sentence_pairs(folder):
    return entailment.FOLDER.read(folder)[0], entailment.read_split(folder, "dev")


def save_taxonomy(folder):
    folder.mkdir()
    edges = np.array([0, 1], np.int32), np.array([2, 2], np.int32)
    names = ["dog", "cat", "animal"]
    taxonomy = Taxonomy(names, names, ["barks", "", "lives"], *edges, ["hypernym"] * 2)
    right, side = np.ones(2, bool), np.zeros(2, np.int8)
    part = ConceptPairs(*edges, right, right, side)
    write_prepared(folder, taxonomy, dict.fromkeys(("train", "dev", "test"), part), {"concepts": 3, "ceiling": 99.5})


def save_judged(folder):
    place = folder / "t-0"
    place.mkdir(parents=True)
    for name, columns in results.TABLES.items():
        write_table(place / f"{name}.parquet", pa.table({column: [0.5, 0.25] for column in columns}))
    spaces = {"sentence": {"structure": {"dev": {"mnno": 0.5}}}}
    about = {"scenario": "t", "seed": 0, "judged": "sentence", "spaces": spaces}
    JUDGED.write(place, about, [f"{name}.parquet" for name in results.TABLES])


def save_scored_pairs(folder):
    rows = {"task": ["T"] * 2, "subtask": ["s"] * 2, "pair": [1, 2], "first": WORDS[:2], "second": WORDS[2:]}
    rows |= {"gold": [1.0, 2.0], "score": [0.1, 0.2], "first_seen": [True, False], "second_seen": [None, None]}
    write_table(folder / "pairs.parquet", pa.table(rows, SCHEMA))


THINGS = {
    **{
        f"encoder: {name}": (lambda folder, make=KINDS[name]: make().save(folder), SentenceEncoder.load, "encoder.json")
        for name in ("sum", "join of sums", "several vocabularies", "spaces", "sentences only")
    },
    "concepts": (save_concepts, Concepts.load, "concepts.json"),
    "ordered text network": (save_network, skipthought.load, "skipthought.json"),
    "snapshots": (save_snapshots, read_whole_snapshots, "snapshots.json"),
    "entailment": (save_entailment, read_entailment, "decision.json"),
    "captions": (save_captions, read_captions_folder, "vocabulary.json"),
    "sentence pairs": (save_sentence_pairs, read_sentence_pairs, "pairs.json"),
    "taxonomy": (save_taxonomy, read_prepared, "taxonomy.json"),
    "judged": (save_judged, lambda folder: results.read_runs(folder, ["t"], [0]), "t-0/evaluate.json"),
    "checkpoint": (save_checkpoint, read_checkpoint, None),
    "kept snapshots": (keep_snapshots, copied_snapshots, None),
    "corpus": (save_corpus, read_corpus, None),
    "resized pictures": (save_resized, read_resized, None),
    "features": (save_features, lambda folder: read_features(folder / "features.h5"), None),
    "ordered text": (save_text, read_text, None),
    "scored pairs": (save_scored_pairs, lambda folder: read_pairs(folder / "pairs.parquet"), None),
}
"""By name: what writes a thing into a folder, what reads it, and the description, where there is one."""


def plain(value):
    """Return what a reader saw as values that can be compared; files and modules by their content."""
    if isinstance(value, SentenceEncoder):
        return plain((value.encode(TEXTS), value.similarity_name, value.notes, value.default))
    if isinstance(value, torch.nn.Module):
        return plain((value.state_dict(), value.settings))
    if isinstance(value, np.ndarray | torch.Tensor):
        values = np.asarray(value)
        return values.dtype.str, values.shape, values.tobytes()
    if isinstance(value, pd.DataFrame | pa.Table):
        return value.to_dict("list") if isinstance(value, pd.DataFrame) else value.to_pydict()
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.name not in ("folder", "path")]
        return [plain(getattr(value, name)) for name in fields]
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value
