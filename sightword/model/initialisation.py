"""The initial weights of a training run."""

from __future__ import annotations

import torch
from torch import nn

from sightword.model.attention import Attention
from sightword.model.encoders import PAD, Encoders
from sightword.model.settings import InitialisationName

LIMIT = 0.1
"""Bound of the uniform weights."""


@torch.no_grad()
def initialise(encoders: Encoders, name: InitialisationName) -> None:
    """Draw the initial weights of new encoders in place, from torch's generator, as the released code of a paper does.

    The linear map of the pictures starts by Xavier's uniform rule, the embedding of padding is 0, and other weights
    keep torch's start, except: in ``char_gru`` (Merkx & Frank 2019) the hidden weights of the attention are orthogonal;
    in ``vsepp`` (Faghri et al. 2018) embeddings are uniform in +-:data:`LIMIT` and the biases of the map 0; in
    ``order_embeddings`` (Vendrov et al. 2016) moreover the input weights of the recurrent layer are uniform in
    +-:data:`LIMIT`, the recurrent weights of each gate orthogonal, and the biases 0. The embeddings of n-grams keep
    their start.
    """
    linear, captions = encoders.images.linear, encoders.captions
    nn.init.xavier_uniform_(linear.weight)
    if name == "char_gru":
        if isinstance(captions.pooling, Attention):
            nn.init.orthogonal_(captions.pooling.hidden.weight)
        return
    nn.init.zeros_(linear.bias)
    if not isinstance(captions.embedding, nn.Embedding):
        return
    nn.init.uniform_(captions.embedding.weight, -LIMIT, LIMIT)
    captions.embedding.weight[PAD] = 0.0
    if name == "vsepp":
        return
    for layer in captions.recurrent.layers:
        inputs, recurrent, *biases = layer.all_weights[0]
        nn.init.uniform_(inputs, -LIMIT, LIMIT)
        for gate in recurrent.chunk(len(recurrent) // layer.hidden_size):  # views: the weights themselves are drawn
            nn.init.orthogonal_(gate)
        for bias in biases:
            nn.init.zeros_(bias)
