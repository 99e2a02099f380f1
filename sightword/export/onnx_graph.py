"""The two encoders as ONNX graphs, with the same arithmetic in standard operators.

The graphs are built from the weights, operator by operator: tracing the network would fix the length of the traced
sentence, while ONNX's own GRU and LSTM accept rows of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from sightword.encoder.combination import Combination
from sightword.encoder.parts import Part
from sightword.model.attention import Attention
from sightword.model.encoders import CaptionEncoder, ImageEncoder
from sightword.model.recurrent import Layer
from sightword.model.shape import RecurrentShape, Shape
from sightword.model.similarity import SHORTEST

OPSET, IR_VERSION = 17, 8
"""Versions of 2022, which all later runtimes read."""
_LOWEST = np.array(-np.inf, np.float32)
_GATES = {"gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""ONNX's order of the gates, in PyTorch's: update, reset, new; and input, output, forget, cell."""
_OPERATORS = {"gru": "GRU", "lstm": "LSTM"}


class Graph:
    """Builds a graph; each method adds operators and returns the name of the output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: npt.ArrayLike, kind: npt.DTypeLike = np.float32) -> str:
        """Add a constant."""
        name = f"constant_{len(self.constants)}"
        array = np.ascontiguousarray(values, kind).reshape(np.shape(values))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator and return its first output."""
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def add_many(self, operator: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add an operator with several outputs."""
        names = [f"{operator.lower()}_{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, names[0], **attributes))
        return names

    def linear(self, values: str, layer: nn.Linear) -> str:
        """Map (.., in) to (.., out)."""
        product = self.add("MatMul", values, self.constant(_array(layer.weight).T))
        return self.add("Add", product, self.constant(_array(layer.bias)))

    def unit(self, vectors: str, similarity: str, *, scaled: bool = True) -> str:
        """Add the operators of :func:`sightword.model.similarity.unit`."""
        if not scaled:
            return vectors if similarity == "cosine" else self.add("Abs", vectors)
        length = self.add("ReduceL2", vectors, axes=[1], keepdims=1)
        short = self.add("Less", length, self.constant(SHORTEST))
        kept = self.add("Where", short, self.constant(0.0), vectors)
        unit = self.add("Div", kept, self.add("Max", length, self.constant(SHORTEST)))
        return unit if similarity == "cosine" else self.add("Abs", unit)

    def combined(self, encoder: Combination, embed: Callable[[Part], str]) -> str:
        """Add the combination of the networks' vectors, each of which ``embed`` adds."""
        parts = [embed(part) if isinstance(part, Part) else self.combined(part, embed) for part in encoder.parts]
        if encoder.combine == "sum":
            total = self.add("Sum", *parts)
            return self.shortened(total) if encoder.renormalise else total
        if encoder.renormalise:
            pairs = zip(parts, encoder.lengths, strict=True)
            parts = [self.add("Mul", self.shortened(part), self.constant(length)) for part, length in pairs]
        return self.add("Concat", *parts, axis=1)

    def shortened(self, vectors: str) -> str:
        """Divide vectors by their length."""
        length = self.add("ReduceL2", vectors, axes=[1], keepdims=1)
        return self.add("Div", vectors, self.add("Max", length, self.constant(SHORTEST)))

    def head(self, vectors: str, module: nn.Sequential) -> str:
        """Add the map into a space."""
        for layer in module:
            vectors = self.linear(vectors, layer) if isinstance(layer, nn.Linear) else self.add("Relu", vectors)
        return vectors

    def finish(
        self, name: str, inputs: Mapping[str, tuple[int, Sequence[str | int]]], vectors: str, width: int
    ) -> onnx.ModelProto:
        """Return the checked model; its output is named ``embeddings``."""
        self.nodes.append(helper.make_node("Identity", [vectors], ["embeddings"], "embeddings"))
        given = [helper.make_tensor_value_info(key, kind, shape) for key, (kind, shape) in inputs.items()]
        rows = next(iter(inputs.values()))[1][0]
        made = [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, [rows, width])]
        graph = helper.make_graph(self.nodes, name, given, made, self.constants)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="sightword")
        onnx.checker.check_model(model, full_check=True)
        return model


def captions_graph(encoder: Combination) -> onnx.ModelProto:
    """Build the graph from ``ids`` int64 (B, T), padded with 0, and ``lengths`` int64 (B,) to ``embeddings``."""
    graph = Graph()
    output = graph.combined(encoder, lambda part: _caption_side(graph, part.captions, part.shape))
    output = graph.head(output, encoder.head(encoder.default))
    ids, lengths = (TensorProto.INT64, ["batch", "tokens"]), (TensorProto.INT64, ["batch"])
    return graph.finish("captions", {"ids": ids, "lengths": lengths}, output, encoder.width)


def images_graph(encoder: Combination) -> onnx.ModelProto:
    """Build the graph from raw ``features`` float32 (N, D) to ``embeddings`` float32 (N, width)."""
    graph = Graph()
    size: list[str | int] = ["pictures", encoder.features_width]
    output = (
        graph.shortened("features")
        if encoder.heads
        else graph.combined(encoder, lambda part: _image_side(graph, part.images))
    )
    return graph.finish("images", {"features": (TensorProto.FLOAT, size)}, output, encoder.width)


def _image_side(graph: Graph, side: ImageEncoder | None) -> str:
    assert side is not None
    centred = graph.add("Sub", "features", graph.constant(_array(side.mean)))
    scaled = graph.add("Div", centred, graph.constant(_array(side.deviation)))
    return graph.unit(graph.linear(scaled, side.linear), side.similarity)


def _caption_side(graph: Graph, side: CaptionEncoder, shape: Shape) -> str:
    assert isinstance(shape, RecurrentShape)
    embedded = graph.add("Gather", graph.constant(_array(side.embedding.weight)), "ids")  # (B, T, width)
    onward = graph.add("Transpose", embedded, perm=[1, 0, 2])
    layers = side.recurrent.layers
    states, last = graph.add_many(
        _OPERATORS[shape.cell],
        2,
        onward,
        *_recurrent_weights(graph, layers, shape.cell),
        graph.add("Cast", "lengths", to=TensorProto.INT32),
        direction="bidirectional" if len(layers) == 2 else "forward",
        hidden_size=shape.hidden,
        **({"linear_before_reset": 1} if shape.cell == "gru" else {}),
    )  # (T, directions, B, hidden) and (directions, B, hidden)
    if shape.pooling == "last":
        rows = graph.add("Transpose", last, perm=[1, 0, 2])
        vectors = graph.add("Reshape", rows, graph.constant([0, -1], np.int64))
        return graph.unit(vectors, shape.similarity, scaled=side.scaled)
    rows = graph.add("Transpose", states, perm=[2, 0, 1, 3])
    flat = graph.add("Reshape", rows, graph.constant([0, 0, -1], np.int64))  # (B, T, width)
    inside = _inside(graph)
    return graph.unit(_pooled(graph, flat, inside, side.pooling, shape), shape.similarity, scaled=side.scaled)


def _pooled(graph: Graph, states: str, inside: str, pooling: nn.Module, shape: RecurrentShape) -> str:
    """Pool (B, T, width) to (B, width)."""
    if shape.pooling == "max":
        return graph.add("ReduceMax", graph.add("Where", inside, states, graph.constant(_LOWEST)), axes=[1], keepdims=0)
    steps = graph.constant([1], np.int64)
    states = graph.add("Where", inside, states, graph.constant(0.0))
    if isinstance(pooling, Attention):
        hidden = graph.add("Tanh", graph.linear(states, pooling.hidden))
        logits = graph.linear(hidden, pooling.out)
        if shape.mask_padding:
            logits = graph.add("Where", inside, logits, graph.constant(_LOWEST))
        weighted = graph.add("Mul", graph.add("Softmax", logits, axis=1), states)
        return graph.add("ReduceSum", weighted, steps, keepdims=0)
    count = graph.add("Unsqueeze", graph.add("Cast", "lengths", to=TensorProto.FLOAT), steps)
    return graph.add("Div", graph.add("ReduceSum", states, steps, keepdims=0), count)


def _inside(graph: Graph) -> str:
    """Return a mask of the tokens, bool (B, T, 1)."""
    steps = graph.add("Gather", graph.add("Shape", "ids"), graph.constant(1, np.int64))
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    places = graph.add("Unsqueeze", graph.add("Range", zero, steps, one), graph.constant([0, 2], np.int64))
    return graph.add("Less", places, graph.add("Unsqueeze", "lengths", graph.constant([1, 2], np.int64)))


def _recurrent_weights(graph: Graph, layers: list[Layer], cell: str) -> list[str]:
    """Add input weights, recurrent weights and biases of each direction, with the gates in ONNX's order."""

    def reordered(weights: torch.Tensor) -> npt.NDArray[np.float32]:
        gates = np.split(_array(weights), len(_GATES[cell]))
        return np.concatenate([gates[place] for place in _GATES[cell]])

    of_layers = [map(reordered, layer.all_weights[0]) for layer in layers]
    of_inputs, of_states, *biases = map(np.stack, zip(*of_layers, strict=True))
    return [graph.constant(of_inputs), graph.constant(of_states), graph.constant(np.concatenate(biases, axis=1))]


def _array(tensor: torch.Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.detach().cpu().numpy()
    return array
