"""Weak matches: pictures that fit a sentence no better than they fit sentences about what no photograph shows.

A search always has a best picture. Its score alone tells little: the scale is the encoder's, and the best of many
pictures has a high score by chance. So the searcher scores the sentences below on the same pictures, and a query whose
best picture is no better than most of their best pictures found nothing. The list is fixed and chooses nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from sightword.captions.units import split
from sightword.captions.vocabulary import Vocabulary
from sightword.evaluation.retrieval.index import Index

Floats = npt.NDArray[np.float32]

WEAK = "Weak matches: perhaps no picture fits this sentence."
QUANTILE = 0.9
"""The part of the sentences below whose best score a match must exceed; chosen on dev, see ``docs/searching.md``."""

SENTENCES = (
    "The interest rate stayed the same for another year .",
    "A tax on imports would raise the price of steel .",
    "The court rejected the appeal without giving reasons .",
    "Inflation fell more slowly than most banks expected .",
    "The treaty was signed after eleven years of talks .",
    "Parliament will vote on the new budget in autumn .",
    "The company cut its forecast for the third quarter .",
    "Shares of the airline lost four percent of their value .",
    "Unemployment is at its lowest since records began .",
    "The minister denied that she had known of the report .",
    "Both sides agreed to extend the contract until March .",
    "The insurance does not cover damage caused by neglect .",
    "Every prime number above two is odd .",
    "The proof of the theorem uses induction on the degree .",
    "An unknown variable stands on the left of the equation .",
    "The sum of two even numbers is always even .",
    "Entropy cannot decrease in an isolated system .",
    "The reaction is slower at a low temperature .",
    "Proteins are long chains of amino acids .",
    "The vaccine lowers the risk of infection by half .",
    "This medicine must not be taken with alcohol .",
    "Memory loss is a common symptom of the disease .",
    "The gene was copied twice during evolution .",
    "Light needs eight minutes from the sun to the earth .",
    "The compiler reports an error in line forty .",
    "Your password has expired and must be changed .",
    "The server did not respond within the time limit .",
    "Install the update before you restart the program .",
    "The file is too large to be sent by mail .",
    "Close all connections to the database first .",
    "The function returns an empty list if nothing is found .",
    "Version three no longer supports the old format .",
    "The verb comes last in a subordinate clause .",
    "Latin nouns have five declensions .",
    "The word has changed its meaning since the middle ages .",
    "His first novel was translated from Russian .",
    "The poem has fourteen lines and a strict rhyme .",
    "The symphony was finished a year before his death .",
    "Nobody knows who wrote the anonymous letter .",
    "The empire collapsed after a century of decline .",
    "Serfdom was abolished in the nineteenth century .",
    "The constitution guarantees the freedom of speech .",
    "Philosophers disagree about the nature of truth .",
    "Justice is more than obedience to the law .",
    "He regrets that he never answered her question .",
    "I would have called if I had known the date .",
    "We are sorry to inform you that the post is filled .",
    "Please reply before the end of the month .",
    "The meeting has been moved from Tuesday to Thursday .",
    "My subscription ends in December .",
    "The invoice was paid twice by mistake .",
    "Our prices include value added tax .",
    "The warranty is valid for twenty-four months .",
    "The recipe is a secret that the family never told .",
    "Hope is often stronger than experience .",
    "The rumour turned out to be false .",
    "What does the abbreviation in the second chapter mean ?",
    "Why was the deadline not extended ?",
    "How many votes are needed for a majority ?",
    "Which of the two methods is more accurate ?",
    "Statistics show a decline in the birth rate .",
    "The hypothesis was not confirmed by later studies .",
    "The census takes place every ten years .",
    "An error of one percent is acceptable here .",
)
"""What no photograph shows: economy, law, science, computers, language, history, letters."""
_ROWS = 4096
"""Pictures that are scored together."""


def readable(vocabulary: Vocabulary) -> bool:
    """Return whether an encoder knows most tokens of :data:`SENTENCES`; one of another script knows none, and all its
    embeddings of them are alike.
    """
    tokens = [token for sentence in SENTENCES for token in split(vocabulary.normalise(sentence), vocabulary.unit)]
    return sum(map(set(vocabulary.tokens).__contains__, tokens)) > len(tokens) / 2


class WeakMatches:
    """The bound that the best score of a query must exceed; the bound follows the pictures that are added.

    Args:
        similarity: returns the similarity (M, N) of embeddings of sentences with embeddings of pictures.
    """

    def __init__(self, similarity: Callable[..., Any]) -> None:
        self._similarity, self._count = similarity, 0
        self._vectors: Floats | None = None
        self._best: Floats = np.full(len(SENTENCES), -np.inf, np.float32)

    def bound(self, pictures: Index, unrelated: Callable[[], Floats], among: Collection[int] | None = None) -> float:
        """Return the quantile :data:`QUANTILE` of the best scores of :data:`SENTENCES` among the pictures so far.

        Args:
            pictures: the pictures' embeddings.
            unrelated: returns the embeddings of the sentences, (n, D); called once.
            among: the rows that are searched, the same in each call; None: all.
        """
        if self._vectors is None:
            self._vectors = unrelated()
        while self._count < len(pictures):
            some = pictures.rows(self._count, min(self._count + _ROWS, len(pictures)))
            rows = range(self._count, self._count + len(some))
            self._count += len(some)
            chosen = some if among is None else some[[row in among for row in rows]]
            if len(chosen):
                self._best = np.maximum(self._best, self._similarity(self._vectors, chosen).max(axis=1))
        return float(np.quantile(self._best, QUANTILE)) if self._count else -np.inf
