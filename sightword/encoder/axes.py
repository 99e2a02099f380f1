"""Keeps the principal axes of an encoder's vectors: shorter vectors, and smaller tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from sightword.encoder.parts import Part
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.model.encoders import CaptionEncoder, ImageEncoder
from sightword.model.shape import NgramShape, TfidfShape


def keep_axes(encoder: SentenceEncoder, axes: int, sentences: Sequence[str]) -> SentenceEncoder:
    """Return an encoder whose trained vectors have ``axes`` numbers, along the principal axes of sentences' vectors.

    Cosines lose least in the mean over the sentences (principal components, Pearson 1901, without centring: cosines are
    of the vectors themselves). A bag of n-grams stays one, with a table of shorter rows, since the projection of a mean
    is the mean of projections. A part of weighted n-grams stays as it is.

    Args:
        encoder: an encoder with one trained network, of the kind ``ngrams``, and of the cosine.
        axes: the numbers to keep.
        sentences: such as the training captions.

    Raises:
        EncoderError: the encoder has other networks, or no more numbers than ``axes``.
    """
    trained = [part for part in encoder.leaves if not isinstance(part.shape, TfidfShape)]
    if len(trained) != 1 or type(trained[0].shape) is not NgramShape or encoder.similarity_name != "cosine":
        what = f"{encoder.reads}, {encoder.similarity_name}: axes can be kept of one network of n-grams and the cosine"
        raise EncoderError(what, todo="Keep all axes, or train with train.cell: ngrams and select.members: 1.")
    part = trained[0]
    if axes >= part.shape.width:
        raise EncoderError(f"has {part.shape.width} trained numbers a vector", expected=f"more than the {axes} to keep")
    vectors = SentenceEncoder([part]).encode(list(sentences)).astype(np.float64)
    spectrum, directions = np.linalg.eigh(vectors.T @ vectors)
    kept = directions[:, np.argsort(-spectrum, kind="stable")[:axes]]  # (width, axes)
    kept *= np.where(kept[np.abs(kept).argmax(axis=0), np.arange(axes)] < 0, -1.0, 1.0)  # one sign on any machine
    projection = torch.from_numpy(kept)

    def projected(one: Part) -> Part:
        if one is not part:
            return one
        shape = replace(part.shape, embedding=axes)
        captions = CaptionEncoder(len(part.vocabulary), shape)
        images = ImageEncoder(part.features_width, shape) if part.images else None
        with torch.no_grad():
            captions.embedding.weight.copy_(part.captions.embedding.weight.double() @ projection)
            if images and part.images:
                images.load_state_dict({**part.images.state_dict(), **images.linear.state_dict(prefix="linear.")})
                images.linear.weight.copy_(projection.T @ part.images.linear.weight.double())
                images.linear.bias.copy_(projection.T @ part.images.linear.bias.double())
        return Part(captions, part.vocabulary, shape, images)

    return encoder.with_parts(projected)
