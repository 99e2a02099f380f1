"""Composition and abstraction of captions and pictures by order-embeddings (Vendrov et al. 2016, Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sightword.report.gallery import Captions, QueryKey, Tile, by_hash, thumbnails
from sightword.report.inputs import RunFiles

if TYPE_CHECKING:
    import numpy as np

    from sightword.encoder.sentence_encoder import SentenceEncoder

SHOWN = 5
"""The number of nearest pictures."""
KINDS = ((True, False), (True, True), (False, False))
"""Whether the first and the second operand are captions: the kinds take turns."""
SHORTEST = 10
"""One of this many captions may be an operand, a short one: long captions have little in common."""


class Example(NamedTuple):
    """Two captions or pictures with the nearest pictures of their composition and of their abstraction."""

    operands: list[Tile]
    """A caption has the position 0, a picture 1."""
    composed: list[Tile]
    abstracted: list[Tile]


class Regularities(NamedTuple):
    """The section on composition and abstraction."""

    composing: str
    """The elementwise operation that composes."""
    abstracting: str
    examples: list[Example]


def read(files: RunFiles, captions: Captions, *, number: int, thumbnail: int) -> Regularities | None:
    """Choose ``number`` examples and find their pictures; None for no examples, or for an encoder without an order.

    The operands and the pictures are those of the scored split. The encoder runs on a CPU, so that every machine finds
    the same.

    Raises:
        EncoderError: the encoder is damaged.
        FileFormatError: the features or the resized pictures cannot be read.
    """
    if not number:
        return None
    import numpy as np

    from sightword.encoder.composition import ORDERS, abstract, compose
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.evaluation.retrieval.index import Index
    from sightword.features.tables.table import read_features

    encoder = SentenceEncoder.load(files.encoder, device="cpu")
    similarity = encoder.similarity_name
    if similarity not in ORDERS:
        return None
    table = read_features(files.features)
    image_ids = [image_id for image_id in table.image_ids if image_id in captions.first]
    chosen = choose(captions, image_ids, number)
    if not chosen:
        return None
    images = encoder.encode_images(table.features[table.rows(image_ids)])
    index = Index(len(images), encoder.width, similarity, "pictures")
    index.add(images)
    row_of = {image_id: row for row, image_id in enumerate(image_ids)}
    vectors = [_vectors(encoder, keys, captions, images, row_of) for keys in chosen]
    queries = [combine(pair, similarity) for pair in vectors for combine in (compose, abstract)]
    rows = iter(index.search(np.stack(queries), SHOWN + max(map(len, chosen))).rows.tolist())
    found = []
    for keys in chosen:
        own = [image_id for image_id, caption in keys if caption < 0]
        both = ([image_ids[row] for row in next(rows)] for _ in (compose, abstract))
        found.append((keys, [[answer for answer in answers if answer not in own][:SHOWN] for answers in both]))
    asked = {image_id for keys in chosen for image_id, caption in keys if caption < 0}
    sizes = dict.fromkeys(asked.union(*(answers for _, both in found for answers in both)), thumbnail)
    small = thumbnails(files.resized, sizes)

    def tile(image_id: str, position: int) -> Tile:
        return captions.picture(image_id, small, position, right=False)

    examples = [
        Example(
            [tile(key[0], 1) if key[1] < 0 else Tile(key[0], captions.text(key), 0, right=False) for key in keys],
            *([tile(answer, place) for place, answer in enumerate(answers, start=1)] for answers in nearest),
        )
        for keys, nearest in found
    ]
    names = ("maximum", "minimum") if similarity == "order" else ("minimum", "maximum")
    return Regularities(*names, examples)


def choose(captions: Captions, image_ids: list[str], number: int) -> list[list[QueryKey]]:
    """Return ``number`` pairs of a caption and a picture, of two captions, and of two pictures, in turns.

    A caption's number is -1 for a picture. All operands are of different pictures, so that there may be fewer pairs.
    """
    here = set(image_ids)
    texts = [key for key in captions.texts if key[0] in here]
    texts.sort(key=lambda key: (len(captions.texts[key].split()), by_hash(key)))
    texts = sorted(texts[: max(2 * number, len(texts) // SHORTEST)], key=by_hash)
    sources = {True: iter(texts), False: iter(sorted(((image_id, -1) for image_id in image_ids), key=by_hash))}
    used: set[str] = set()
    pairs: list[list[QueryKey]] = []
    for turn in range(number):
        pair: list[QueryKey] = []
        for is_caption in KINDS[turn % len(KINDS)]:
            key = next((key for key in sources[is_caption] if key[0] not in used), None)
            if key is None:
                return pairs
            used.add(key[0])
            pair.append(key)
        pairs.append(pair)
    return pairs


def _vectors(
    encoder: SentenceEncoder,
    keys: list[QueryKey],
    captions: Captions,
    images: np.ndarray,
    row_of: Mapping[str, int],
) -> np.ndarray:
    """Return the embeddings (n, D) of captions and pictures."""
    import numpy as np

    return np.stack([images[row_of[key[0]]] if key[1] < 0 else encoder.encode(captions.text(key)) for key in keys])
