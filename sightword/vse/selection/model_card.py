"""The model card of an encoder: a README with a YAML head for model hubs.

The card has what the stage select knows: no scores on the test split, and no name of the corpus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sightword.captions.table import CaptionTable
from sightword.encoder.combination import Combination
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.features.tables.origin import control, describe, random_weights
from sightword.features.tables.table import FeatureTable
from sightword.messages import plural
from sightword.model.ngrams import SHORTEST
from sightword.model.shape import NgramShape, Shape, TfidfShape
from sightword.settings import BESIDE
from sightword.statistics.inference import with_interval
from sightword.vse.selection.choice import Choice
from sightword.vse.selection.settings import SelectSettings

DIRECTIONS = {"caption_to_image": "caption to picture", "image_to_caption": "picture to caption"}
RECALLS = (1, 5, 10)
OF_NO_NAME = """\
- The corpus's name is not among what this card is made from. In the project, `sightword audit models/encoder`
  follows the encoder back to its files and their hashes.
"""
TEST_ELSEWHERE = "in the report and in\n`metrics/retrieval.json` of the run"


@dataclass(frozen=True)
class Amount:
    """The captions of one split whose pictures have features, and those of other pictures."""

    pictures: int
    captions: int
    tokens: list[int]
    """The number of tokens of each caption."""
    beside: int = 0
    """Captions of other pictures (``corpus.beside``)."""
    languages: tuple[str, ...] = ()
    """The codes of the languages of the captions of pictures; empty in a corpus of one language."""

    @classmethod
    def of(cls, captions: CaptionTable, features: FeatureTable, split: str) -> Amount:
        """Return the captions of a split, and those of other pictures in the table."""
        rejected = set(features.rejected)
        chosen = captions.split(split)
        rows = [row for row, image in enumerate(chosen.image_ids) if image not in rejected]
        pictures, tokens = len({chosen.image_ids[row] for row in rows}), [len(chosen.ids[row]) for row in rows]
        languages = sorted({*chosen.languages} - {""})
        return cls(pictures, len(rows), tokens, captions.splits.count(BESIDE), tuple(languages))


def model_card(choice: Choice, settings: SelectSettings, training: Amount) -> str:
    """Return the whole text; the same choice gives the same bytes.

    Args:
        choice: the encoder and its scores on dev.
        settings: the parameters of the choice.
        training: the captions of the training split.
    """
    encoder, vocabulary = choice.encoder, choice.encoder.vocabulary
    own, *others = [part for part in encoder.parts if isinstance(part, Combination)] or [encoder]  # by training run
    notes, unit, longest = encoder.notes.get("training", {}), vocabulary.unit, f"{max(training.tokens):,}"
    features, start, kept = encoder.notes.get("features", {}), notes.get("start"), control(notes)
    more = f", and on {training.beside:,} captions of other pictures" if training.beside else ""
    title, opening = "A sentence encoder that learned from pictures", _OPENING.format(encoder.width)
    pictures = f"{encoder.features_width} features of an image network, and a linear map"
    if not encoder.features_width:
        title, opening = "N-grams of captions, weighted by their frequency", _LEXICAL.format(encoder.width)
        pictures = "none"
    if kept:
        opening += f"\n\n> **{kept}**"
    elif start:
        opening += f" It started from the encoder `{start}`: all that this one learned from went into it too."
    learned = "the language of its captions"
    if len(training.languages) > 1:
        learned = f"the languages of its captions ({', '.join(training.languages)})"
    return f"""\
{_head(choice)}

# {title}

{opening}

- Captions: {_reader(own.leaves[0].shape, unit)}.
- Pictures: {pictures}.
- {plural(len(own.parts), "snapshot")} of one training with {_weights(own):,} weights\
{" each, summed" * (len(own.parts) > 1)}{", brought to length 1" * own.renormalise}.
{_beside(others, settings)}- Compared by {_SIMILARITIES[encoder.similarity_name]}.
{_RANDOM * random_weights(features)}
{use("encoder", encoder, packaged=False)}
{_scores(choice, settings) if encoder.features_width else ""}## Data

- Trained on {training.captions:,} captions of {training.pictures:,} pictures{more}. The median length is
  {median(training.tokens):g} {unit}s, the longest has {longest}.
- Features of the pictures: {describe(features) if encoder.features_width else "none"}.
{OF_NO_NAME}
## Limits

- It knows {len(vocabulary.tokens):,} {unit}s; others count as unknown. It has learned {learned} and no other.
- It knows what captions say of pictures. Negation, time, causes, opinions, numbers and names are hardly in it.
- Sentences much longer than {longest} {unit}s are outside of what it was trained on.
- Who is shown in the pictures, and how annotators put it, is in the embeddings, stereotypes included. It is
  made for research, not for decisions about people.

## Licences

The code is under the Apache License 2.0. The weights come from captions, pictures and an image network, whose terms go
with them: look up those of your corpus.

- Flickr8k: for non-commercial research and education; its pictures belong to Flickr's users.
- COCO: annotations under CC BY 4.0; the pictures under Flickr's terms of use.
- Image networks of torchvision: weights trained on ImageNet, whose terms are non-commercial research and education.
"""


def _scores(choice: Choice, settings: SelectSettings) -> str:
    """Return the section of the scores, with a remark on how the snapshots were chosen."""
    rows = [["", "R@1", "R@5", "R@10", "median rank", "queries"], ["---"] * 6]
    for direction, words in DIRECTIONS.items() if choice.ensemble else ():
        entry = choice.ensemble[direction]
        cells = [with_interval(entry[f"r{k}"], entry[f"r{k}_ci95"]) for k in RECALLS]
        rows.append([words, *cells, f"{entry['median_rank']:g}", str(entry["queries"])])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    epochs = ", ".join(f"{epoch} ({choice.recall[epoch]:.1f})" for epoch in choice.epochs if epoch in choice.recall)
    chosen = f"""\
 The snapshots were chosen on this split, by
`{settings.criterion}`, so its scores are a little too good; those on the test split are {TEST_ELSEWHERE}.
Chosen epochs, with the mean R@10 of each alone: {epochs}."""
    return f"""\
## Scores on dev

{table}

Recall in percent, with the 95 % interval (Wald's; near 0 and 100 Wilson's).{chosen * bool(epochs)}

"""


def use(name: str, encoder: SentenceEncoder, *, packaged: bool) -> str:
    """Return the section on use, of a folder of this name, or of an encoder of the package."""
    if packaged:
        where, how = "With Sightword installed", "As a model of sentence-transformers"
        imported = "from sightword.export.sentence_transformers import SightwordModule\n"
        model = "modules=[SightwordModule(encoder)]"
    else:
        where = "With Sightword installed, in the folder above this one"
        how = "As a model of sentence-transformers (the second argument lets it import Sightword's class)"
        imported, model = "", f"{json.dumps(name)}, trust_remote_code=True"
    seen, compared = (
        f"pictures = encoder.encode_images(features)  # (N, {encoder.features_width}) to (N, {encoder.width})\n",
        "captions, pictures)  # (2, N)",
    )
    if not encoder.features_width:
        seen, compared = "", "captions, captions)  # (2, 2)"
    return f"""\
## Use

{where}:

```python
from sightword import SentenceEncoder

encoder = SentenceEncoder.from_pretrained({json.dumps(name)})
captions = encoder.encode(["a dog runs in the snow", "two children on a beach"])  # (2, {encoder.width})
{seen}encoder.similarity({compared}
```

{how}:

```python
from sentence_transformers import SentenceTransformer
{imported}
model = SentenceTransformer({model})
```
"""


def result(dataset: str, title: str, split: str, directions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result of ``model-index``.

    Args:
        dataset: the short name of the corpus.
        title: the corpus and split, in words.
        split: the name of the split.
        directions: the scores of each direction, with ``r1``, ``r5`` and ``r10`` in percent.
    """
    metrics = [
        {
            "type": f"recall_at_{k}",
            "name": f"Recall@{k}, {words}, percent",
            "value": round(directions[direction][f"r{k}"], 4),
        }
        for direction, words in DIRECTIONS.items()
        for k in RECALLS
    ]
    return {
        "task": {"type": "image-text-retrieval", "name": "Image-text retrieval"},
        "dataset": {"type": dataset, "name": title, "split": split},
        "metrics": metrics,
    }


def _weights(encoder: Combination) -> int:
    """Return the number of weights of one network."""
    return sum(weights.numel() for weights in encoder.leaves[0].network.parameters())


def _reader(shape: Shape, unit: str) -> str:
    if isinstance(shape, NgramShape):
        lengths = f"{SHORTEST} to {shape.longest_ngram} {unit}s"
        if isinstance(shape, TfidfShape):
            return f"the sum of their n-grams of {lengths}, weighted by frequency and hashed to {shape.width:,} numbers"
        return f"the mean of the embeddings of their n-grams of {lengths}, hashed to {shape.ngram_buckets:,} embeddings"
    direction = f"{'bidirectional ' * shape.bidirectional}{shape.reader} with {shape.hidden} states a direction"
    return f"read {unit} by {unit} by a {direction}, {_POOLINGS[shape.pooling]}"


def _beside(others: Sequence[Combination], settings: SelectSettings) -> str:
    """Return a line for each encoder of another training run, and for a lexical part."""
    lines = []
    for name, other in zip(settings.beside, others, strict=False):  # a lexical part is the last of the others
        epochs, seed = other.notes.get("epochs", []), other.notes.get("training", {}).get("seed")
        lines.append(
            f"- Beside it `{name}`, of another training run (seed {seed}; epochs {', '.join(map(str, epochs))}; "
            f"{_weights(other):,} weights each): {_reader(other.leaves[0].shape, other.vocabulary.unit)}.\n"
        )
    if settings.lexical:
        lines.append(
            f"- Beside it a lexical part: {_reader(others[-1].leaves[0].shape, others[-1].vocabulary.unit)}. Its "
            f"share in a cosine is {settings.lexical_share:g}; `encode(..., lexical=False)` leaves it out.\n"
        )
    return "".join(lines)


def _head(choice: Choice) -> str:
    """Return the YAML head. Each value is JSON, which is YAML too, so that nothing in it can break out."""
    unit, shape = choice.encoder.vocabulary.unit, choice.encoder.leaves[0].shape
    cell = ("tfidf" if isinstance(shape, TfidfShape) else "ngrams") if isinstance(shape, NgramShape) else shape.cell
    title = "dev split of the training corpus"
    scored = [result("unnamed", title, "dev", choice.ensemble)] if choice.ensemble else []
    grounded = ("visually-grounded", "image-text-retrieval") if choice.ensemble else ()
    fields: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "license": "other",
        "tags": [
            *("sentence-transformers", "sentence-similarity", "feature-extraction", *grounded, f"{unit}-level", cell),
        ],
        **({"model-index": [{"name": "sightword", "results": scored}]} if scored else {}),
    }
    return yaml_head(fields)


def yaml_head(fields: Mapping[str, Any]) -> str:
    """Return the YAML head of these fields, one a line."""
    return "\n".join(["---", *(f"{key}: {json.dumps(value)}" for key, value in fields.items()), "---"])


_OPENING = """\
It turns a sentence into {} numbers, and the features of a picture into as many, so that a caption and its picture lie
close together."""
_LEXICAL = """\
It turns a sentence into {} numbers. Nothing was trained, and no picture was seen: n-grams that few captions have weigh
more. It is a control: an encoder that learned should be better."""
_RANDOM = """
> **For demonstration only.** The image network had random weights: nobody trained it to see. Its
> features are what chance filters make of a picture. The scores show that the pipeline runs, and say
> nothing about the method.
"""
_POOLINGS = {
    "attention": "with attention over the states",
    "max": "of which the largest value over time is taken",
    "mean": "of which the mean over time is taken",
    "last": "of which the last one is taken",
}
_SIMILARITIES = {
    "cosine": "the cosine",
    "dot": "the dot product, in which the length of a sum weighs: the more its members agree, the longer it is",
    "order": "the order penalty of Vendrov et al. (2016): a caption lies below its pictures in every dimension",
    "reversed_order": "the order penalty of Vendrov et al. (2016), turned round: a picture lies below its captions",
}
