"""The parameters of the network."""

from __future__ import annotations

from pydantic import Field

from sightword.model.shape import CellName, PoolingName, Shape, SimilarityName, StandardiseName
from sightword.settings import Settings

__all__ = ["ModelSettings", "SimilarityName"]


class ModelSettings(Settings):
    """The caption encoder of Merkx & Frank (2019), section 3.2, and the linear map of the pictures."""

    embedding: int = Field(20, gt=0)
    """Width of a token's embedding (Merkx & Frank: 20 for a character; order-embeddings and VSE++: 300 for a word)."""
    cell: CellName = "gru"
    """Recurrent cell; the paper's Figure 2 compares both."""
    hidden: int = Field(1024, gt=0)
    """States of each direction (Merkx & Frank: 1024); with two directions the embedding has twice as many numbers."""
    bidirectional: bool = True
    """Read captions in both directions (Merkx & Frank), or forwards only (order-embeddings and VSE++)."""
    pooling: PoolingName = "attention"
    """How the states over time become one vector; the published model attends."""
    attention: int = Field(128, gt=0)
    """Hidden units of the attention (Merkx & Frank: 128); unused by the other poolings."""
    mask_padding: bool = True
    """Leave padding out of the attention. The released code does not (false), which lets a caption's
    embedding depend on the longest caption of its batch."""
    standardise: StandardiseName = "none"
    """``training``: subtract each picture feature's mean over the training pictures and divide by its
    standard deviation; the two are saved with the weights."""
    similarity: SimilarityName = "cosine"
    """How captions and pictures are compared, in training and later: ``cosine``; ``order``, the penalty of
    order-embeddings for a caption that is not below its picture in every dimension; or ``reversed_order``, the
    penalty the other way round. The last two take the absolute values of the normalised embeddings."""

    @property
    def width(self) -> int:
        """Numbers in an embedding, and in a state of the recurrent layer."""
        return self.shape.width

    @property
    def shape(self) -> Shape:
        """The values alone, as the networks take them and a saved encoder keeps them."""
        return Shape(**{name: getattr(self, name) for name in ModelSettings.model_fields})
