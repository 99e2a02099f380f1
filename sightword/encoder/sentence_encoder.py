"""The trained encoder as a library: sentences or picture features in, embeddings out.

Needs PyTorch, NumPy and safetensors only.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args, overload

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.devices import choose
from sightword.encoder.folder import Saved, read_folder, write_folder
from sightword.encoder.pretrained import find_encoder
from sightword.errors import EncoderError
from sightword.files import Pathish
from sightword.messages import warn_share
from sightword.model.embedding import Floats, Precision, embed_captions, embed_images
from sightword.model.encoders import Encoders
from sightword.model.shape import ComparisonName, Shape
from sightword.model.similarity import SHORTEST, scores, unit

log = logging.getLogger(__name__)

LONGEST = 200_000
"""Largest ``max_length``. With 2,048 numbers a state, 100,000 tokens take 3 GB and two minutes."""
MAX_LENGTH = 5_000
"""Default ``max_length``, which takes seconds. Captions have fewer than 500 tokens."""

Vectors = TypeVar("Vectors", Floats, torch.Tensor)


class _Options(TypedDict, total=False):
    """The other options of :meth:`SentenceEncoder.encode`, for its two return types."""

    batch_size: int
    show_progress_bar: bool | None
    normalize_embeddings: bool
    max_length: int
    precision: Precision
    convert_to_numpy: bool


@dataclass(frozen=True, eq=False, repr=False)
class SentenceEncoder:
    """An ensemble of trained encoders; its embedding is the sum of its members' unit vectors.

    The ensemble is that of Merkx & Frank (2019), section 3.4; their released code does not normalise the sum, which
    ``renormalise`` decides, and ranks by the dot product. Several threads may use one encoder.
    """

    members: list[Encoders]
    vocabulary: Vocabulary
    model: Shape
    renormalise: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
    """The training parameters, the features, and the epochs of the members."""
    compared_by: ComparisonName | None = None
    """The similarity of captions and pictures. None: the similarity of the training; but the dot product for several
    members that were trained for the cosine, if their sum is not scaled to length 1."""

    def __post_init__(self) -> None:
        for member in self.members:
            member.eval()

    def __repr__(self) -> str:
        """Describe the encoder in one line, without the weights."""
        return (
            f"<SentenceEncoder: {len(self.members)} x {self.model.reader} over {NOUN[self.vocabulary.unit]}s, "
            f"{self.features_width} features, {self.width} numbers an embedding, {self.similarity_name}, {self.device}>"
        )

    @property
    def similarity_name(self) -> ComparisonName:
        """The similarity of captions and pictures: ``cosine``, ``dot``, ``order`` or ``reversed_order``."""
        if self.compared_by is not None:
            return self.compared_by
        lengths_weigh = len(self.members) > 1 and not self.renormalise
        return "dot" if self.model.similarity == "cosine" and lengths_weigh else self.model.similarity

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        return self.model.width

    @property
    def features_width(self) -> int:
        """Number of features of a picture."""
        return self.members[0].features_width

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.members[0].device

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_tensor: Literal[False] = ..., **options: Unpack[_Options]
    ) -> Floats: ...

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_tensor: Literal[True], **options: Unpack[_Options]
    ) -> torch.Tensor: ...

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int = 256,
        show_progress_bar: bool | None = False,
        normalize_embeddings: bool = False,
        max_length: int = MAX_LENGTH,
        precision: Precision = "fp32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> Floats | torch.Tensor:
        """Embed sentences, with the arguments of sentence-transformers' ``encode``.

        Args:
            sentences: N texts, or one text; the log warns of texts without any known character or word. Equal texts are
                encoded once.
            batch_size: number of sentences encoded together, fewer if they are very long; changes the last bits only,
                except for an encoder that was trained with ``mask_padding: false``.
            show_progress_bar: show a progress bar on a terminal.
            normalize_embeddings: divide each vector by its length.
            max_length: largest number of tokens of a sentence, at most 200,000; a longer sentence is refused before any
                is encoded, and never cut.
            precision: ``bf16`` computes in bfloat16, faster on a CPU or GPU with units for bfloat16. The cosine of a
                vector and the one of ``fp32`` is above 0.9999 in trained GRUs; the log warns on a CPU
                without such units.
            convert_to_numpy: must be True unless ``convert_to_tensor`` is; a list of tensors is not supported.
            convert_to_tensor: return a tensor on the encoder's device instead of an array.

        Returns:
            float32 (N, width), in the order of the sentences; (width,) for one text.

        Raises:
            EncoderError: a sentence is not a text or has more than ``max_length`` tokens, ``batch_size`` is below 1,
                ``max_length`` is not from 1 to 200,000, ``precision`` is unknown, or both conversions are False.
        """
        if not (convert_to_numpy or convert_to_tensor):
            raise EncoderError("convert_to_numpy is False", expected="convert_to_tensor=True beside it")
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise EncoderError(f"batch_size is {batch_size!r}", expected="at least 1")
        if not isinstance(max_length, int | np.integer) or not 1 <= max_length <= LONGEST:
            raise EncoderError(f"max_length is {max_length!r}", expected=f"1 to {LONGEST:,}")
        if precision not in get_args(Precision):
            raise EncoderError(f"precision is {precision!r}", expected=" or ".join(get_args(Precision)))
        rows = token_rows(as_texts(sentences), self.vocabulary, int(max_length))
        batch, progress = int(batch_size), bool(show_progress_bar)
        parts = [
            embed_captions(member, rows, batch=batch, precision=precision, progress=progress) for member in self.members
        ]
        vectors = self._sum(parts, normalise=normalize_embeddings, one=isinstance(sentences, str))
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    def encode_images(self, features: npt.ArrayLike | torch.Tensor, *, normalize_embeddings: bool = False) -> Floats:
        """Embed pictures by their raw features, which the encoder standardises if the training did.

        Args:
            features: (N, features_width) numbers, as the stage features writes them; or (features_width,) for one
                picture.
            normalize_embeddings: divide each vector by its length.

        Returns:
            float32 (N, width), in the order of the features; (width,) for one picture.

        Raises:
            EncoderError: the features have another shape, are not numbers, or not finite.
        """
        values = _numbers(features, "features")
        if values.ndim not in (1, 2) or values.shape[-1] != self.features_width:
            raise EncoderError(
                f"features have the shape {values.shape}",
                expected=f"(pictures, {self.features_width})",
                todo="Take features of the network that the encoder was trained with.",
            )
        parts = [embed_images(member, np.atleast_2d(values)) for member in self.members]
        vectors = self._sum(parts, normalise=normalize_embeddings, one=values.ndim == 1)
        bad = np.flatnonzero(~np.isfinite(np.atleast_2d(vectors)).all(axis=1))
        if len(bad):
            raise EncoderError(f"the features of picture {bad[0]} are not finite, or too large for float32")
        return vectors

    def similarity(self, captions: Vectors, images: Vectors) -> Vectors:
        """Return the similarity of captions and pictures; higher is more similar.

        :attr:`similarity_name` names the similarity: the cosine, the dot product, or minus the penalty of
        :func:`sightword.model.similarity.order_errors`, which is at most 0 and not symmetric.

        Args:
            captions: (M, width), from :meth:`encode`, or (width,) for one caption.
            images: (N, width), from :meth:`encode_images`; or other captions.

        Returns:
            float32 (M, N), an array or a tensor like ``captions``.

        Raises:
            EncoderError: captions or images have another shape, or are not numbers.
        """
        upper, lower = self._side(captions, "captions"), self._side(images, "images")
        with torch.no_grad():
            if self.similarity_name == "cosine":
                upper, lower = unit(upper, "cosine"), unit(lower, "cosine")
            found = scores(upper, lower.to(upper.device), self.similarity_name)
        return found if isinstance(captions, torch.Tensor) else found.numpy()

    def known(self, sentence: str) -> float:
        """Return the share of a sentence's tokens that the encoder knows, from 0 to 1; 0 for an empty sentence.

        Raises:
            EncoderError: the sentence is not a text.
        """
        if not isinstance(sentence, str):
            raise EncoderError(f"the sentence is {type(sentence).__name__}, not a text")
        ids = self.vocabulary.encode(sentence)
        return sum(number != UNKNOWN for number in ids) / len(ids) if ids else 0.0

    def save(self, folder: Pathish, *, half: bool = False) -> None:
        """Write the encoder to ``folder``; :mod:`sightword.encoder.folder` lists the files.

        Args:
            folder: the folder, which is made.
            half: write the weights in half precision (float16), which halves the folder; they are loaded as float32.

        Raises:
            EncoderError: the folder is not a path, or a weight is beyond half precision.
        """
        saved = Saved(self.members, self.vocabulary, self.model, self.renormalise, self.similarity_name, self.notes)
        write_folder(as_place(folder), saved, half=half)

    @classmethod
    def from_pretrained(
        cls, name: Pathish, *, sha256: str | None = None, device: torch.device | str = "cpu"
    ) -> SentenceEncoder:
        """Load an encoder by its name, which comes with Sightword, from a folder, or from an address.

        Args:
            name: ``flickr8k``; the folder of an encoder; or the address (``https://``, ``http://``, ``file://``) of a
                zip, tar or tar.gz archive of such a folder. A name of Sightword comes before a folder of this name:
                write ``./flickr8k`` for the folder.
            sha256: of the archive at an address, which must be given, here or behind the address
                (``#sha256=...``). The archive is downloaded once; ``SIGHTWORD_STORE`` keeps the encoder.
            device: as for :meth:`load`.

        Raises:
            EncoderError: there is no such encoder, the hash is missing, or the folder is not whole.
            DownloadError: the archive cannot be downloaded, or has another hash.
            SetupError: the device, or a package for downloads, does not exist.
        """
        return cls.load(find_encoder(name if isinstance(name, str) else as_place(name), sha256), device=device)

    @classmethod
    def load(cls, folder: Pathish, *, device: torch.device | str = "cpu") -> SentenceEncoder:
        """Read an encoder that :meth:`save` or the stage select wrote.

        Args:
            folder: such as ``models/encoder``.
            device: ``cpu``, ``cuda``, ``cuda:N``, or ``auto``: a GPU, if there is one.

        Raises:
            EncoderError: the folder is not a path, or holds no encoder, a damaged one, or one of another version.
            SetupError: the device does not exist.
        """
        chosen = choose(str(device))
        saved = read_folder(as_place(folder))
        members = [member.to(chosen) for member in saved.members]
        return cls(members, saved.vocabulary, saved.model, saved.renormalise, saved.notes, saved.similarity)

    def _sum(self, parts: list[Floats], *, normalise: bool, one: bool) -> Floats:
        """Return the sum of the members' embeddings, without the first dimension for one text or picture."""
        total: Floats = np.add.reduce(parts, axis=0, dtype=np.float32)
        for _ in range(self.renormalise + normalise):
            total = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), SHORTEST)
        return total[0] if one else total

    def _side(self, vectors: Floats | torch.Tensor, name: str) -> torch.Tensor:
        """Check the vectors of a comparison; return float32 (.., width)."""
        tensor = vectors
        if not isinstance(tensor, torch.Tensor):  # torch refuses negative strides, and warns about read-only arrays
            tensor = torch.from_numpy(np.require(_numbers(vectors, name), requirements=["C", "W"]))
        if tensor.ndim not in (1, 2) or tensor.shape[-1] != self.width:
            raise EncoderError(f"{name} have the shape {tuple(tensor.shape)}", expected=f"(.., {self.width})")
        return tensor.to(torch.float32).reshape(-1, self.width)


def token_rows(texts: Sequence[str], vocabulary: Vocabulary, most: int) -> list[npt.NDArray[np.int64]]:
    """Return the token ids of each text, and log texts without a known token.

    Raises:
        EncoderError: a text has more than ``most`` tokens.
    """
    ids_of: dict[str, npt.NDArray[np.int64]] = {}
    strange = []
    for place, text in enumerate(texts):
        if text not in ids_of:
            ids_of[text] = ids = np.asarray(vocabulary.encode(text), np.int64)
            if len(ids) > most:
                more = f", or give max_length, which may be {LONGEST:,} and takes long" if most < LONGEST else ""
                raise EncoderError(
                    f"sentence {place} has {len(ids):,} tokens", expected=f"at most {most:,}", todo=f"Cut it{more}."
                )
            if (ids == UNKNOWN).all():
                strange.append(place)
    first = ascii(texts[strange[0]][:40]) if strange else ""
    what = f"%d of %d sentences have no {NOUN[vocabulary.unit]} that the encoder knows (the first: %s)"
    warn_share(log, f"{what}: their embeddings mean nothing", len(strange), len(ids_of), first)
    return [ids_of[text] for text in texts]


def as_place(folder: object) -> Path:
    """Check a path that a user gave."""
    if isinstance(folder, str | os.PathLike):
        with contextlib.suppress(UnicodeEncodeError):
            if b"\0" not in os.fsencode(folder):
                return Path(folder)
    found = ascii(folder) if isinstance(folder, str) else type(folder).__name__
    raise EncoderError(f"the folder is {found}", expected="the path of a folder")


def as_texts(sentences: object) -> list[str]:
    """Return one text, or many, as a list of texts."""
    if isinstance(sentences, str):
        return [sentences]
    table = hasattr(sentences, "columns")  # of pandas, polars or Arrow, which iterates over columns
    unordered = table or isinstance(sentences, bytes | bytearray | memoryview | Mapping | Set)
    if unordered or not isinstance(sentences, Iterable) or getattr(sentences, "ndim", 1) != 1:
        todo = 'Give one column, such as table["caption"].' if table else None
        raise EncoderError(
            f"sentences are {type(sentences).__name__}", expected="a text, or a list of texts", todo=todo
        )
    texts = list(sentences)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise EncoderError(f"sentence {place} is {type(text).__name__}, not a text")
    return texts


def _numbers(values: object, name: str) -> Floats:
    """Convert numbers of any type to float32; values beyond float32 become infinite."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().float().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise EncoderError(f"{name} are not rows of equal length") from None
    if array.dtype.kind not in "fiu":
        raise EncoderError(f"{name} are {array.dtype}, not numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)
