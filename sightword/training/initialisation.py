"""The initial weights of a training run."""

from __future__ import annotations

import torch
from torch import nn

from sightword.model.attention import Attention
from sightword.model.encoders import PAD, Encoders
from sightword.training.settings import InitialisationName

LIMIT = 0.1
"""Bound of the uniform embeddings, and of the input weights of order-embeddings."""


@torch.no_grad()
def initialise(encoders: Encoders, name: InitialisationName) -> None:
    """Draw the initial weights of new encoders in place, from torch's generator.

    The linear map of the pictures starts by Xavier's uniform rule. Weights that are not named below keep torch's own
    start, and the embedding of padding is zero.

    Args:
        encoders: new encoders, with torch's own start.
        name: the paper whose released code is followed. ``char_gru`` (Merkx & Frank 2019): the weights of the
            attention's hidden layer are orthogonal. ``vsepp`` (Faghri et al. 2018): the embeddings of tokens are
            uniform in +-:data:`LIMIT`, the biases of the map 0. ``order_embeddings`` (Vendrov et al. 2016): as
            ``vsepp``; in the recurrent layer the input weights are uniform in +-:data:`LIMIT` too, the recurrent
            weights of each gate orthogonal, and the biases 0.
    """
    linear, captions = encoders.images.linear, encoders.captions
    nn.init.xavier_uniform_(linear.weight)
    if name == "char_gru":
        if isinstance(captions.pooling, Attention):
            nn.init.orthogonal_(captions.pooling.hidden.weight)
        return
    nn.init.zeros_(linear.bias)
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
