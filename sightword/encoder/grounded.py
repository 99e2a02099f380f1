"""The encoder of grounded spaces (Bordes et al. 2019): one reading of a sentence, a vector in each space.

Folder: ``encoder.json`` (``kind: grounded``); for part N, from 1, ``vocabulary-N.json`` and ``part-N.safetensors``;
``heads.safetensors``, if a head has weights; and ``SHA256SUMS`` of these files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.compute.devices import choose
from sightword.compute.threads import spread
from sightword.encoder.arguments import MAX_LENGTH, as_place, as_texts, check_options, refuse_name, token_rows
from sightword.encoder.folder import GROUNDED, SCHEMA, WHOLE, check_sums, check_values, read_description, write_sums
from sightword.errors import CaptionsError, EncoderError
from sightword.io.files import Pathish, write_json
from sightword.messages import quote, short
from sightword.model.embedding import Floats, embed_rows
from sightword.model.encoders import CaptionEncoder
from sightword.model.saved import load_module, write_tensors
from sightword.model.shape import Shape
from sightword.model.similarity import unit_rows

SPACES = ("sentence", "grounded", "visual")
"""Names of spaces: s, the states of the networks that read the sentence; g(s), and f(s)."""
HEADS = "heads.safetensors"
_ROWS = 1024
_KEYS = ("spaces", "default", "parts", "notes")


@dataclass(frozen=True, eq=False)
class Part:
    """One network that reads sentences."""

    captions: CaptionEncoder
    """The network; ``scaled`` says whether its vectors have length 1."""
    vocabulary: Vocabulary
    shape: Shape


def head(widths: Sequence[int]) -> nn.Sequential:
    """Return affine maps from each width to the next, with a ReLU between two maps; fewer than two widths: nothing."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [*([nn.ReLU()] if layers else []), nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


@dataclass(frozen=True, eq=False, repr=False)
class GroundedEncoder:
    """Sentences in, vectors of one or several spaces out."""

    parts: list[Part]
    """The networks; a sentence's vectors by all parts are concatenated."""
    heads: dict[str, nn.Sequential]
    """For each space the map from the concatenated vector; an empty ``Sequential`` is the identity."""
    default: str
    """The space of :meth:`encode`."""
    notes: dict[str, Any] = field(default_factory=dict)

    def __new__(cls, *arguments: object, **_: object) -> Self:
        """Refuse the folder of an encoder, which :meth:`load` takes."""
        refuse_name(arguments, "GroundedEncoder.load")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not self.parts or self.default not in self.heads:
            raise EncoderError(f"an encoder of {len(self.parts)} parts has no space {quote(self.default)}")
        for module in (*(part.captions for part in self.parts), *self.heads.values()):
            module.eval()

    def __repr__(self) -> str:
        """Describe the encoder in one line, without the weights."""
        parts = " + ".join(f"{part.shape.reader} over {NOUN[part.vocabulary.unit]}s" for part in self.parts)
        spaces = ", ".join(f"{space} {self.width_of(space)}" for space in self.spaces)
        return f"<GroundedEncoder: {parts}; {spaces}; encodes to {self.default}; {self.device}>"

    @property
    def spaces(self) -> tuple[str, ...]:
        """The names of the spaces."""
        return tuple(self.heads)

    @property
    def width(self) -> int:
        """Number of dimensions of the default space."""
        return self.width_of(self.default)

    @property
    def dimension(self) -> int:
        """The same as :attr:`width`."""
        return self.width

    def get_sentence_embedding_dimension(self) -> int:
        """Return :attr:`width`, under the name of sentence-transformers."""
        return self.width

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.parts[0].captions.embedding.weight.device

    def width_of(self, space: str) -> int:
        """Return the number of dimensions of a space; EncoderError if there is no such space."""
        maps = [layer for layer in self._head(space) if isinstance(layer, nn.Linear)]
        return maps[-1].out_features if maps else sum(part.shape.width for part in self.parts)

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        space: str | None = None,
        batch_size: int = 256,
        show_progress_bar: bool | None = False,
        normalize_embeddings: bool = False,
        max_length: int = MAX_LENGTH,
        device: torch.device | str | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Floats:
        """Return the vectors of sentences in one space.

        Args:
            sentences: N texts, or one text; the log warns of texts without any known token.
            space: the name of the space; None for :attr:`default`.
            batch_size: number of sentences encoded together; changes the last bits only.
            show_progress_bar: show a progress bar on a terminal.
            normalize_embeddings: divide each vector by its length.
            max_length: largest number of tokens of a sentence, at most 200,000; a longer sentence is refused.
            device: the encoder's own device, or None; :meth:`load` chooses the device.
            prompt: None; no encoder here is trained with prompts.
            prompt_name: None.

        Returns:
            float32 (N, width of the space), in the order of the sentences; (width,) for one text.

        Raises:
            EncoderError: there is no such space, or an argument or a sentence is wrong, as
                :meth:`sightword.encoder.sentence_encoder.SentenceEncoder.encode` says.
        """
        prompts = {"prompt": prompt, "prompt_name": prompt_name}
        check_options(batch_size, max_length, self.device, device, prompts)
        chosen = self.default if space is None else space
        progress, unit = bool(show_progress_bar), normalize_embeddings
        return self._encode(sentences, [chosen], batch_size, max_length, unit=unit, progress=progress)[chosen]

    def encode_spaces(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int = 256,
        show_progress_bar: bool | None = False,
        normalize_embeddings: bool = False,
        max_length: int = MAX_LENGTH,
    ) -> dict[str, Floats]:
        """Return the vectors of sentences in each space, each sentence read once; see :meth:`encode`."""
        check_options(batch_size, max_length, self.device)
        progress, unit = bool(show_progress_bar), normalize_embeddings
        return self._encode(sentences, self.spaces, batch_size, max_length, unit=unit, progress=progress)

    def known(self, sentence: str) -> float:
        """Return the share of a sentence's tokens that the first part knows, from 0 to 1; 0 for an empty sentence.

        Raises:
            EncoderError: the sentence is not a text.
        """
        ids = self.parts[0].vocabulary.encode(as_texts([sentence])[0])
        return sum(number != UNKNOWN for number in ids) / len(ids) if ids else 0.0

    def save(self, folder: Pathish) -> None:
        """Write the files of the encoder; the same encoder gives the same bytes.

        Raises:
            EncoderError: the folder is not a path.
        """
        place = as_place(folder)
        place.mkdir(parents=True, exist_ok=True)
        names = []
        for number, part in enumerate(self.parts, start=1):
            names += [f"part-{number}.safetensors", f"vocabulary-{number}.json"]
            write_tensors(place / names[-2], part.captions.state_dict())
            part.vocabulary.save(place / names[-1])
        if weights := self._modules().state_dict():
            names.append(HEADS)
            write_tensors(place / HEADS, weights)
        names.append("encoder.json")
        parts = [{"model": asdict(part.shape), "scaled": part.captions.scaled} for part in self.parts]
        about = {"schema": SCHEMA, "kind": GROUNDED, "default": self.default, "parts": parts, "notes": self.notes}
        write_json(
            place / "encoder.json", {**about, "spaces": {name: _widths(one) for name, one in self.heads.items()}}
        )
        write_sums(place, names)

    @classmethod
    def load(cls, folder: Pathish, *, device: torch.device | str | None = None) -> GroundedEncoder:
        """Read an encoder that :meth:`save` wrote.

        Args:
            folder: such as ``models/grounded/cg-pg-0``.
            device: ``cpu`` (the default), ``cuda``, ``cuda:N``, or ``auto``: a GPU, if there is one.

        Raises:
            EncoderError: the folder is not a path, or holds no encoder of grounded spaces, a damaged one, or one of
                another version.
            SetupError: the device does not exist.
        """
        chosen, place = choose(str(device or "cpu")), as_place(folder)
        about, sums = read_description(place)
        where = place / "encoder.json"
        if about.get("kind") != GROUNDED:
            todo = "Load the folder by sightword.SentenceEncoder."
            raise EncoderError("is an encoder without grounded spaces", where=place, todo=todo)
        try:
            spaces, default, parts, notes = (about[key] for key in _KEYS)
            if not isinstance(parts, list) or not parts or not isinstance(notes, dict):
                raise ValueError("parts or notes")
            shapes = [(Shape.from_json(part["model"]), part["scaled"]) for part in parts]
            heads = _heads(spaces, sum(shape.width for shape, _ in shapes))
            if default not in heads or not all(isinstance(scaled, bool) for _, scaled in shapes):
                raise ValueError(f"the default space is {quote(default)}")
            found = []
            for number, (shape, scaled) in enumerate(shapes, start=1):
                names = [f"part-{number}.safetensors", f"vocabulary-{number}.json"]
                check_sums(place, names, sums)
                vocabulary = Vocabulary.load(place / names[1])
                with torch.device("meta"):  # weights without memory
                    empty = CaptionEncoder(len(vocabulary), shape)
                captions = load_module(place / names[0], empty)
                check_values(place / names[0], captions)
                captions.scaled = scaled
                found.append(Part(captions.to(chosen), vocabulary, shape))
        except (KeyError, TypeError) as error:
            raise EncoderError(f"is damaged (it lacks {error.args[0]})", where=where, todo=WHOLE) from None
        except ValueError as error:
            raise EncoderError(f"is damaged ({error})", where=where, todo=WHOLE) from None
        except CaptionsError as error:
            raise EncoderError(error.what, where=error.where, expected=error.expected, todo=WHOLE) from None
        modules = nn.ModuleDict(heads)
        if modules.state_dict():
            check_sums(place, [HEADS], sums)
            check_values(place / HEADS, load_module(place / HEADS, modules))
        return cls(found, {name: one.to(chosen) for name, one in heads.items()}, default, notes)

    def _modules(self) -> nn.ModuleDict:
        return nn.ModuleDict(self.heads)

    def _head(self, space: str) -> nn.Sequential:
        if space not in self.heads:
            raise EncoderError(f"has no space {quote(space)}", expected=" or ".join(self.heads))
        return self.heads[space]

    def _encode(
        self,
        sentences: str | Iterable[str],
        spaces: Sequence[str],
        batch_size: int,
        max_length: int,
        *,
        unit: bool,
        progress: bool,
    ) -> dict[str, Floats]:
        """Return the vectors of each space. Sentences of equal tokens are encoded once, and have equal bits."""
        chosen = {space: self._head(space) for space in spaces}
        texts = as_texts(sentences)
        vocabularies = dict.fromkeys(part.vocabulary for part in self.parts)
        read = {vocabulary: token_rows(texts, vocabulary, int(max_length)) for vocabulary in vocabularies}
        rows = [read[part.vocabulary] for part in self.parts]
        place_of: dict[tuple[bytes, ...], int] = {}
        places = [
            place_of.setdefault(tuple(row.tobytes() for row in each), len(place_of)) for each in zip(*rows, strict=True)
        ]
        first = dict(zip(reversed(places), reversed(range(len(places))), strict=True))
        own = [first[place] for place in range(len(place_of))]
        vectors = [
            embed_rows(
                part.captions, part.shape.width, [ids[row] for row in own], batch=int(batch_size), progress=progress
            )
            for part, ids in zip(self.parts, rows, strict=True)
        ]
        together = np.concatenate(vectors, axis=1) if len(vectors) > 1 else vectors[0]
        found = {}
        for space, module in chosen.items():
            values = mapped(module, together, self.device)
            if unit:
                values = unit_rows(values)
            found[space] = values[places[0]] if isinstance(sentences, str) else values[places]
        return found


def mapped(module: nn.Sequential, vectors: Floats, device: torch.device) -> Floats:
    """Return the vectors (N, D) mapped by a head, float32 (N, width), in equal bits on any number of threads."""
    if not len(module):
        return vectors
    parts: dict[int, npt.NDArray[np.float32]] = {}

    def work(start: int) -> None:
        with torch.inference_mode():
            parts[start] = module(torch.from_numpy(vectors[start : start + _ROWS]).to(device)).cpu().numpy()

    starts = range(0, max(len(vectors), 1), _ROWS)
    if device.type == "cpu":
        spread(work, starts)
    else:
        for start in starts:
            work(start)
    return np.concatenate([parts[start] for start in starts])


def _widths(module: nn.Sequential) -> list[int]:
    """Return the argument of :func:`head` that gives this shape."""
    maps = [layer for layer in module if isinstance(layer, nn.Linear)]
    return [maps[0].in_features, *(one.out_features for one in maps)] if maps else []


def _heads(spaces: object, width: int) -> dict[str, nn.Sequential]:
    """Return the described heads, without memory; ValueError if the description is wrong."""
    if not isinstance(spaces, Mapping) or not spaces:
        raise ValueError("spaces is no JSON object with a space")
    for name, widths in spaces.items():
        numbers = isinstance(widths, list) and all(type(one) is int and one > 0 for one in widths)
        if name not in SPACES or not numbers or len(widths) == 1 or (widths and widths[0] != width):
            raise ValueError(
                f"spaces.{short(name)} is {quote(widths)}; expected widths of maps from {width} numbers, or none"
            )
    with torch.device("meta"):
        return {name: head(widths) for name, widths in spaces.items()}
