"""The networks that learn from ordered text: SkipThought, and neighbours told apart; their GRU and their folder.

The folder has ``encoder/`` with one space, ``sentence``; ``decoders.safetensors`` with the other weights; and
``skipthought.json`` with settings and result. The GRU computes states at the real positions only, from any initial
states, and multiplies a word that comes several times in a batch with the input weights once.

The output layer and its loss keep no logit: the logits of a block of lines become their own gradient while they are in
the cache, and are multiplied with the states and the weights at once. A backward pass only scales these gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import move
from sightword.encoder.parts import Part
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.io.files import Pathish
from sightword.io.saved import SUMS, Format, as_folder, entry
from sightword.model.cells import GruPass, Weights
from sightword.model.encoders import PAD, CaptionEncoder, pad
from sightword.model.packing import Packing
from sightword.model.products import varying_product
from sightword.model.recurrent import states_by_torch
from sightword.model.saved import load_module, write_tensors
from sightword.model.shape import RecurrentShape
from sightword.text.storage import Text

Rows = Sequence[NDArray[np.int64]]

LIMIT = 0.1
"""Bound of the uniform initial weights."""
NEIGHBOURS = ("previous", "next")
"""The sentences that are decoded."""
OFFSET = {"previous": -1, "next": 1}
TEMPERATURE = 0.1
"""The divisor of the cosines of ``infonce``."""
ENCODER = "encoder"
DECODERS = "decoders.safetensors"
FORMAT = Format(
    "skipthought.json", 1, "Run `dvc checkout models/skipthought` or `dvc repro grounded/dvc.yaml:skipthought`."
)
BYTES, ELSEWHERE = 32_000_000, 1_000_000_000
"""Bytes of the logits of a block of lines on a CPU, and elsewhere."""
COLUMNS = 1024
"""Words whose weights are multiplied together on a CPU; elsewhere all are."""
CACHE = 500_000
"""Bytes of the logits of the lines whose softmax is computed together on a CPU: half a core's own cache."""


def shape_of(settings: SkipthoughtSettings) -> RecurrentShape:
    """Return the shape of the encoder: a GRU in one direction, and its last state."""
    return RecurrentShape(settings.embedding, settings.hidden, scaled=False)


def build(settings: SkipthoughtSettings, tokens: int, decode: Sequence[str] = NEIGHBOURS) -> SkipThought | Neighbours:
    """Return a new network with initial weights drawn from torch's generator, for so many ids, padding included.

    Word vectors, input weights and the output layer are uniform in +-:data:`LIMIT`, the recurrent weights of each gate
    orthogonal, and biases 0 (released code).
    """
    network = _network(settings, tokens, decode)
    with torch.no_grad():
        for name, weights in network.named_parameters():
            if "bias" in name:
                weights.zero_()
            elif "weight_hh" in name:
                for gate in weights.chunk(3):  # views: the weights themselves are drawn
                    nn.init.orthogonal_(gate)
            else:
                weights.uniform_(-LIMIT, LIMIT)
        network.captions.embedding.weight[PAD] = 0.0
    return network


def _network(
    settings: SkipthoughtSettings, tokens: int, decode: Sequence[str] = NEIGHBOURS
) -> SkipThought | Neighbours:
    pairs = settings.objective == "infonce"
    return Neighbours(settings, tokens) if pairs else SkipThought(settings, tokens, decode)


class _Reader(nn.Module):
    """An encoder of sentences, and the settings of its training run."""

    def __init__(self, settings: SkipthoughtSettings, tokens: int) -> None:
        super().__init__()
        self.settings = settings
        self.captions = CaptionEncoder(tokens, shape_of(settings))

    @property
    def dtype(self) -> torch.dtype:
        """The type that recurrent and output layers compute in."""
        return torch.bfloat16 if self.settings.precision == "bf16" else self.captions.embedding.weight.dtype

    def words(self, batches: Sequence[Rows]) -> tuple[torch.Tensor, list[Words]]:
        """Return the vectors of all words of some batches of sentences, (K, width), and the places of the words."""
        padded = [pad(rows) for rows in batches]
        packings = [Packing.of(lengths) for _, lengths in padded]
        lines = [packing.pack(ids).numpy() for (ids, _), packing in zip(padded, packings, strict=True)]
        known = np.unique(np.concatenate([np.array([PAD]), *lines]))
        table = self.captions.embedding(move(torch.from_numpy(known), self.captions.embedding.weight.device))
        return table, [
            Words(ids, np.searchsorted(known, ids), packing) for ids, packing in zip(lines, packings, strict=True)
        ]

    def read(
        self, layer: nn.Module, table: torch.Tensor, words: Words, start: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the states of a GRU after each of the N words of some sentences, from a table (K, width): (N, H).

        With initial states (B, H) the GRU reads a zero vector, then all words but the last: it predicts the words.
        """
        assert isinstance(layer, nn.GRU)
        distinct = np.unique(words.places if start is None else words.places_before(), return_inverse=True)
        own, places = (move(torch.from_numpy(each), table.device) for each in distinct)
        return gru_states(layer, table.index_select(0, own), places, words.packing, start, self.dtype)

    def vectors(self, table: torch.Tensor, words: Words) -> torch.Tensor:
        """Return the vectors of some sentences, (B, H): what ``captions.embed`` returns, to rounding."""
        return last_states(self.read(self.captions.recurrent.onward, table, words), words.packing)


@dataclass(frozen=True)
class Words:
    """The N words of B sentences, in the order of a packing."""

    ids: NDArray[np.int64]  # (N,) ids
    places: NDArray[np.int64]  # (N,) places in a table of vectors whose first vector is zero
    packing: Packing

    def places_before(self) -> NDArray[np.int64]:
        """Return the place of the word before each word, 0 before the first: (N,)."""
        sizes = self.packing.sizes
        starts = np.cumsum([0, *sizes])
        before = [self.places[start : start + size] for start, size in zip(starts, sizes[1:], strict=False)]
        return np.concatenate([np.zeros(sizes[0], np.int64), *before])


class SkipThought(_Reader):
    """An encoder whose vectors predict the words of the neighbours (Kiros et al. 2015; Bordes et al. 2019).

    A decoder is a GRU whose initial state is the sentence's vector itself, and whose inputs are the words before, with
    a zero vector first. The decoders share the table of words with the encoder, and have one output layer.
    """

    def __init__(self, settings: SkipthoughtSettings, tokens: int, decode: Sequence[str] = NEIGHBOURS) -> None:
        super().__init__(settings, tokens)
        layers = {name: nn.GRU(settings.embedding, settings.hidden) for name in NEIGHBOURS}
        self.decoders = nn.ModuleDict({name: layers[name] for name in layers if name in decode})
        self.output = nn.Linear(settings.hidden, tokens)

    def loss(self, text: Text, middles: NDArray[np.int64]) -> torch.Tensor:
        """Return the loss of B triples by their (B,) middle sentences: a scalar.

        The sum over the words of both decoders is divided by B times the most tokens of a sentence (as released).
        """
        return self._loss(text, middles, len(middles) * text.max_tokens)[0]

    def total(self, text: Text, middles: NDArray[np.int64]) -> tuple[torch.Tensor, int]:
        """Return the sum of the losses of all predicted words of B triples, and the number of the words."""
        return self._loss(text, middles, 1)

    def _loss(self, text: Text, middles: NDArray[np.int64], divisor: int) -> tuple[torch.Tensor, int]:
        table, (own, *targets) = self.words(
            [text.rows(middles), *(text.rows(middles + OFFSET[name]) for name in self.decoders)]
        )
        vectors, output = self.vectors(table, own), self.output
        states = [
            self.read(layer, table, words, vectors)
            for layer, words in zip(self.decoders.values(), targets, strict=True)
        ]
        ids = np.concatenate([words.ids for words in targets])
        scale = np.concatenate([np.full(len(words.ids), 1 / divisor) for words in targets])
        loss = output_loss(
            torch.cat(states),
            output.weight,
            output.bias,
            move(torch.from_numpy(ids), table.device),
            move(torch.from_numpy(scale).to(output.weight.dtype), table.device),
        )
        return loss, len(ids)


class Neighbours(_Reader):
    """An encoder that tells a sentence's next sentence from the others of a batch (after Logeswaran & Lee 2018).

    Unlike there, one network reads both sentences, and vectors are compared by the cosine.
    """

    def loss(self, text: Text, firsts: NDArray[np.int64]) -> torch.Tensor:
        """Return the mean cross-entropy of B pairs by their (B,) first sentences, over both directions: a scalar.

        Duplicates of the target or of the anchor are no negatives.
        """
        return self.total(text, firsts)[0] / (2 * len(firsts))

    def total(self, text: Text, firsts: NDArray[np.int64]) -> tuple[torch.Tensor, int]:
        """Return the sum of the cross-entropies of B pairs in both directions, and their number, 2 B."""
        rows = text.rows(np.concatenate([firsts, firsts + 1]))
        table, (words,) = self.words([rows])
        both = F.normalize(self.vectors(table, words).to(table.dtype), dim=1)
        one, other = both[: len(firsts)], both[len(firsts) :]
        logits = one @ other.t() / TEMPERATURE
        right = torch.arange(len(firsts), device=logits.device)
        forth, back = (move(torch.from_numpy(each), logits.device) for each in _left_out(rows))
        loss = F.cross_entropy(logits.masked_fill(forth, float("-inf")), right, reduction="sum")
        loss = loss + F.cross_entropy(logits.t().masked_fill(back, float("-inf")), right, reduction="sum")
        return loss, 2 * len(firsts)


def _left_out(rows: Rows) -> Iterator[NDArray[np.bool_]]:
    """Yield which of B second sentences are not wrong ones for each of B first, and the reverse: twice bool (B, B).

    The first B rows are the first sentences. The right sentence, on the diagonal, is never left out.
    """
    _, numbers = np.unique([row.tobytes() for row in rows], return_inverse=True)
    first, second = numbers[: len(rows) // 2], numbers[len(rows) // 2 :]
    for own, others in ((first, second), (second, first)):
        equal = (others == others[:, None]) | (others == own[:, None])
        np.fill_diagonal(equal, val=False)
        yield equal


def gru_states(
    layer: nn.GRU, words: torch.Tensor, places: torch.Tensor, packing: Packing,
    start: torch.Tensor | None, dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """Return the states at the N real positions of B sentences, (N, H), by a layer in one direction.

    ``words`` are the vectors of K words, (K, width); ``places`` int64 (N,) say which word a position of the packing
    has; ``start`` are initial states (B, H), in the order of the sentences; all is computed in ``dtype``.
    """
    first = None if start is None else start.index_select(0, move(packing.order, start.device)).to(dtype)
    if words.device.type != "cpu":
        return states_by_torch([layer], words.index_select(0, places).to(dtype), packing.sizes, first)
    weights = [weight.to(dtype) for weight in layer.parameters()]
    blocks, keep = packing.blocks, torch.is_grad_enabled()
    states: torch.Tensor = _Reading.apply(words.to(dtype), places, first, blocks, keep, *weights)  # type: ignore[no-untyped-call]  # torch gives it no type
    return states


def last_states(states: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return the last state of each sentence, (B, H), in the order of the sentences, from states (N, H)."""
    starts = torch.tensor([block.start for block in packing.blocks])
    lengths = packing.steps - packing.padding  # from the longest sentence to the shortest
    lines = torch.empty_like(packing.order)
    lines[packing.order] = starts[lengths - 1] + torch.arange(packing.rows)
    return states.index_select(0, move(lines, states.device))


class _Pass(GruPass):
    """Multiplies each of K different words (K, width) once; ``places`` (N,) says which word a line has."""

    def __init__(
        self, weights: Weights, blocks: Sequence[slice], start: torch.Tensor | None, places: torch.Tensor
    ) -> None:
        super().__init__(weights, blocks, start)
        self.places = places

    def gates(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs' part of the gates: (N, 3H)."""
        table = varying_product(inputs, self.weights.input).add_(self.weights.input_bias)
        return table.index_select(0, self.places)

    def gradients(
        self, inputs: torch.Tensor, before: torch.Tensor, by_inputs: torch.Tensor, by_states: torch.Tensor
    ) -> tuple[torch.Tensor, Weights]:
        """Return the gradients of the words (K, width) and the weights."""
        hidden = self.hidden
        wide = torch.promote_types(by_inputs.dtype, torch.float32)
        sums = torch.zeros(len(inputs), 3 * hidden, dtype=wide).index_add_(0, self.places, by_inputs.to(wide))
        by_words = sums.roll(-hidden, 1).to(inputs.dtype)  # reset, update, new
        return varying_product(by_words, self.weights.input.t()), Weights(
            varying_product(by_words.t(), inputs.t(), inner=True),
            varying_product(by_states.t(), before.t(), inner=True),
            by_words.sum(0),
            by_states.sum(0),
        )


class _Reading(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, words: torch.Tensor, places: torch.Tensor, start: torch.Tensor | None, blocks: Sequence[slice],
        keep: bool, *weights: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        ctx.reading = _Pass(Weights(*weights), blocks, start, places)
        states: torch.Tensor = ctx.reading.forward(words, keep=keep)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        words, weights = ctx.reading.backward(outer)
        start = None if ctx.reading.start is None else ctx.reading.start_gradient
        return words, None, start, None, None, *weights


def output_loss(
    states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor, scale: torch.Tensor, *,
    rows: int | None = None, columns: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return the sum over N lines of ``scale`` (N,) times the cross-entropy of a linear layer's logits: a scalar.

    States are (N, H), the layer's weight (V, H) and bias (V,), the targets int64 (N,). Products are computed in the
    type of the states, sums and the softmax in float32 at least. By default the lines of a block (``rows``) and the
    words in a slice of the weights (``columns``) fit the device.
    """
    cpu = states.device.type == "cpu"
    if rows is None:
        rows = max(1, (BYTES if cpu else ELSEWHERE) // (len(weight) * states.element_size()))
    if columns is None:
        columns = COLUMNS if cpu else len(weight)
    keep = torch.is_grad_enabled()
    loss: torch.Tensor = _OutputLoss.apply(states, weight, bias, targets, scale, rows, columns, keep)  # type: ignore[no-untyped-call]  # torch gives it no type
    return loss


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor,
        scale: torch.Tensor, rows: int, columns: int, keep: bool,
    ) -> torch.Tensor:  # fmt: skip
        dtype, wide = states.dtype, weight.dtype
        slices = [slice(start, min(start + columns, len(weight))) for start in range(0, len(weight), columns)]
        losses = torch.empty(len(states), dtype=wide, device=states.device)
        if keep:
            d_states = torch.empty_like(states)
            d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        logits = states.new_empty(min(rows, len(states)), len(weight))
        for start in range(0, len(states), rows):
            lines = slice(start, start + rows)
            block = states[lines]
            own = logits[: len(block)]
            for part in slices:
                torch.add(varying_product(block, weight[part].to(dtype)), bias[part], out=own[:, part])
            losses[lines] = _to_gradients(own, targets[lines], scale[lines], d_bias if keep else None)
            if not keep:
                continue
            back = torch.zeros(block.shape, dtype=wide, device=block.device)
            for part in slices:
                back += varying_product(own[:, part], weight[part].to(dtype).t())
                d_weight[part] += varying_product(own[:, part].t(), block.t(), inner=True)
            d_states[lines] = back
        if keep:
            ctx.save_for_backward(d_states, d_weight, d_bias)
        return losses.sum(dtype=torch.float64).to(wide)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradients = ctx.saved_tensors
        if outer.device.type != "cpu" or outer != 1:  # to ask would wait for a GPU
            gradients = [values * outer for values in gradients]
        return *gradients, None, None, None, None, None


def _to_gradients(
    logits: torch.Tensor, targets: torch.Tensor, scale: torch.Tensor, total: torch.Tensor | None
) -> torch.Tensor:
    """Return the losses of some lines (R,), and replace their logits (R, V) by the gradient of the sum of the losses.

    On a CPU the lines are taken a few at a time, so that all steps find them in the cache. The gradients' sum is added
    to ``total`` (V,); without it the logits become useless.
    """
    wide = scale.dtype
    losses = torch.empty(len(logits), dtype=wide, device=logits.device)
    cpu = logits.device.type == "cpu"
    rows = max(1, CACHE // (logits.shape[1] * losses.element_size())) if cpu else len(logits)
    for start in range(0, len(logits), rows):
        lines = slice(start, start + rows)
        values = logits[lines].to(wide)  # of the same type: a view
        target, factor = targets[lines, None], scale[lines, None]
        values.sub_(values.amax(1, keepdim=True))
        right = values.gather(1, target)
        sums = values.exp_().sum(1, keepdim=True)
        losses[lines] = (factor * (sums.log() - right))[:, 0]
        if total is not None:
            values.mul_(factor / sums).scatter_add_(1, target, -factor)
            total += values.sum(0)
            if values.dtype != logits.dtype:
                logits[lines] = values
    return losses


def save(
    folder: Pathish, network: SkipThought | Neighbours, vocabulary: Vocabulary, *, result: dict[str, Any] | None = None
) -> None:
    """Write the files of a network into an existing folder, with numbers of the training run as ``result``."""
    place, settings = Path(folder), network.settings
    notes = {"trained_on": "ordered text", "training": settings.model_dump()}
    part = Part(network.captions, vocabulary, shape_of(settings))
    heads = {"sentence": nn.Sequential()}
    SentenceEncoder([part], "join", notes=notes, heads=heads, default="sentence").save(place / ENCODER)
    names = [f"{ENCODER}/{SUMS}"]
    decoders = {name: values for name, values in network.state_dict().items() if not name.startswith("captions.")}
    if decoders:
        names.append(DECODERS)
        write_tensors(place / DECODERS, decoders)
    FORMAT.write(place, {"settings": settings.model_dump(), "result": result or {}}, names)


def load(folder: Pathish) -> SkipThought | Neighbours:
    """Read a network that :func:`save` wrote, to encode or to train on; EncoderError if it is not whole."""
    place = as_folder(folder)
    about, names = FORMAT.read(place)
    where = place / FORMAT.description
    with FORMAT.checked(where):
        settings = SkipthoughtSettings.model_validate(entry(about, "settings", dict))
    FORMAT.require(names, f"{ENCODER}/{SUMS}", where=place)
    part = SentenceEncoder.load(place / ENCODER).leaves[0]
    if part.shape != shape_of(settings):
        what = f"belongs to another network than {FORMAT.description}"
        raise EncoderError(what, where=place / ENCODER, todo=FORMAT.todo)
    with torch.device("meta"):  # weights without memory
        network = _network(settings, len(part.vocabulary))
    network.captions = part.captions
    if isinstance(network, SkipThought):
        FORMAT.require(names, DECODERS, where=place)
        decoders = nn.ModuleDict({"decoders": network.decoders, "output": network.output})
        load_module(place / DECODERS, decoders, finite=True)
    return network.eval()
