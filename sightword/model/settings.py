"""The parameters of the network."""

from __future__ import annotations

from pydantic import Field

from sightword.model.shape import (
    CellName,
    NgramShape,
    PoolingName,
    RecurrentShape,
    Shape,
    SimilarityName,
    StandardiseName,
    TfidfShape,
)
from sightword.settings import Settings


class ModelSettings(Settings):
    """The caption encoder of Merkx & Frank (2019), section 3.1.2, and the linear map of the pictures.

    :attr:`shape` has what a saved encoder keeps of them.
    """

    embedding: int = Field(20, gt=0)
    """Width of the embedding of a token (Merkx & Frank: 20 for a character; order-embeddings and VSE++: 300 for a
    word), or of an n-gram and so of a caption; with ``tfidf`` the numbers to which n-grams are hashed."""
    cell: CellName = "gru"
    """Recurrent cell; or ``ngrams``: the embedding of a caption is the mean of the embeddings of its hashed n-grams of
    tokens (Wieting et al. 2016); the keys from ``hidden`` to ``mask_padding`` are then unused. ``tfidf``: the n-grams
    are weighted by their frequency in the training captions (Spärck Jones 1972) and hashed (Weinberger et al. 2009); of
    this section only ``embedding``, ``longest_ngram`` and ``ngram_buckets`` are used."""
    hidden: int = Field(1024, gt=0)
    """States of each direction (Merkx & Frank: 1024); two directions double the width of the embedding."""
    bidirectional: bool = True
    """Read captions in both directions (Merkx & Frank), or forwards only (order-embeddings and VSE++)."""
    pooling: PoolingName = "attention"
    """The pooling of the states over time to one vector; the published model has attention."""
    attention: int = Field(128, gt=0)
    """Hidden units of the attention (Merkx & Frank: 128); unused by the other poolings."""
    mask_padding: bool = True
    """Leave padding out of the attention. With ``false``, as in the released code, a caption's embedding depends on the
    longest caption of its batch."""
    standardise: StandardiseName = "none"
    """``training``: subtract the mean of each feature over the training pictures and divide by the standard deviation;
    both are saved with the weights."""
    similarity: SimilarityName = "cosine"
    """The similarity of captions and pictures, in training and later: ``cosine``; ``order``, the penalty for a caption
    that is not below its picture in every dimension; or ``reversed_order``. The last two take the absolute values of
    the normalised embeddings."""
    longest_ngram: int = Field(5, ge=2)
    """Tokens of the longest n-grams; the shortest ones have two."""
    ngram_buckets: int = Field(65_536, gt=0)
    """Number of embeddings, or with ``tfidf`` of weights, that all n-grams share by their hashes."""

    @property
    def shape(self) -> Shape:
        """The shape of the network, without the parameters that the reader does not use."""
        if self.cell == "ngrams" or self.cell == "tfidf":
            kind = TfidfShape if self.cell == "tfidf" else NgramShape
            return kind(self.embedding, self.longest_ngram, self.ngram_buckets, self.similarity)
        return RecurrentShape(
            embedding=self.embedding,
            hidden=self.hidden,
            cell=self.cell,
            bidirectional=self.bidirectional,
            pooling=self.pooling,
            attention=self.attention if self.pooling == "attention" else 0,
            mask_padding=self.mask_padding,
            similarity=self.similarity,
        )
