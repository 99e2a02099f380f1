"""An untrained encoder of each kind."""

from __future__ import annotations

import numpy as np
import torch
from small_encoder import MODEL, made
from small_ground import encoder as with_spaces

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import Part, parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import CaptionEncoder, Encoders
from sightword.model.settings import ModelSettings
from sightword.model.shape import RecurrentShape
from sightword.vse.training.snapshots import count, shape_of

TEXTS = ["a dog runs", "", "two big dogs run in the snow .", "\N{SNOWMAN}", "a dog runs"]
VOCABULARY = Vocabulary.build(TEXTS[:3])
GRU = {"hidden": 6, "attention": 4}
BAG = {"cell": "ngrams", "embedding": 5, "longest_ngram": 3, "ngram_buckets": 64}
WEIGHTED = BAG | {"cell": "tfidf", "embedding": 9}


def summed(shape, *, members=1, seed=0, vocabulary=VOCABULARY, features=7, **options):
    torch.manual_seed(seed)
    model = ModelSettings(**shape).shape
    networks = [Encoders(len(vocabulary), features, model) for _ in range(members)]
    return SentenceEncoder(parts_of(networks, vocabulary, model), **options)


def joined(*encoders, **options):
    return SentenceEncoder(encoders, "join", renormalise=True, **options)


def three():
    """A bag of n-grams, joined with an ensemble of two GRUs and an LSTM."""
    return joined(summed(BAG), summed(GRU, members=2, seed=1), summed({**GRU, "cell": "lstm"}, seed=2))


def weighted():
    """Counted n-grams, without a side of pictures."""
    settings = ModelSettings(**WEIGHTED)
    rows = [np.asarray(VOCABULARY.encode(text)) for text in TEXTS[:3]]
    shape = shape_of(settings, VOCABULARY)
    return SentenceEncoder(parts_of([count(shape, rows, VOCABULARY)], VOCABULARY, shape))


def of_sentences(vocabulary=VOCABULARY, **shape):
    """An encoder without pictures."""
    torch.manual_seed(3)
    own = RecurrentShape(**{"embedding": 4, "hidden": 5} | shape)
    return SentenceEncoder([Part(CaptionEncoder(len(vocabulary), own), vocabulary, own)])


def several_vocabularies():
    words = Vocabulary.build(TEXTS[:3], unit="word")
    parts = [*of_sentences(scaled=False).parts, *of_sentences(words, cell="lstm").parts]
    return SentenceEncoder(parts, "join")


KINDS = {
    "one part": lambda: made(members=1),
    "sum": made,
    "sum of length 1": lambda: made(renormalise=True),
    "order": lambda: made(MODEL.model_copy(update={"similarity": "order", "pooling": "last"})),
    "n-grams": lambda: summed(BAG),
    "tf-idf": weighted,
    "n-grams beside tf-idf": lambda: joined(summed(BAG), weighted(), shares=(0.6, 0.4)),
    "join of sums": three,
    "sentences only": of_sentences,
    "several vocabularies": several_vocabularies,
    "spaces": with_spaces,
}
