"""The trained encoder as a library: sentences or picture features in, embeddings out.

Needs PyTorch, NumPy and safetensors only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack, get_args, overload

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.compute.devices import choose
from sightword.encoder.arguments import (
    MAX_LENGTH,
    EncodeOptions,
    as_features,
    as_place,
    as_texts,
    as_vectors,
    check_beside,
    check_options,
    refuse_name,
    token_rows,
)
from sightword.encoder.folder import Saved, read_folder, write_folder
from sightword.encoder.pretrained import find_encoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.model.embedding import Floats, Precision, embed_captions, embed_images
from sightword.model.encoders import Encoders
from sightword.model.shape import ComparisonName, Shape
from sightword.model.similarity import paired_scores, scores, unit, unit_rows

Vectors = TypeVar("Vectors", Floats, torch.Tensor)


@dataclass(frozen=True, eq=False, repr=False)
class SentenceEncoder:
    """An ensemble of trained encoders; its embedding is the sum of its members' unit vectors.

    The ensemble is that of Merkx & Frank (2019), section 3.3; their released code does not normalise the sum, which
    ``renormalise`` decides, and ranks by the dot product. Several threads may use one encoder.

    With other encoders ``beside`` it, the embedding has the vectors of all of them one after the other, each scaled to
    the same length and all together to length 1: the cosine of two embeddings is the mean of the encoders' cosines.

    Raises:
        EncoderError: an encoder beside it does not fit (:func:`check_beside`).
    """

    members: list[Encoders]
    vocabulary: Vocabulary
    model: Shape
    renormalise: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
    """The training parameters, the features, and the epochs of the members."""
    compared_by: ComparisonName | None = None
    """The similarity of captions and pictures. None: the similarity of the training; but the dot product for several
    members that were trained for the cosine, if their sum is not scaled to length 1. With ``beside``: the cosine."""
    beside: Sequence[SentenceEncoder] = ()
    """Encoders of other training runs, whose embeddings stand behind this one's."""

    def __new__(cls, *arguments: object, **_: object) -> Self:
        """Refuse the name of an encoder, which :meth:`from_pretrained` takes."""
        refuse_name(arguments, "SentenceEncoder.from_pretrained")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for member in self.members:
            member.eval()
        object.__setattr__(self, "beside", tuple(self.beside) if isinstance(self.beside, Iterable) else (self.beside,))
        for place, other in enumerate(self.beside, start=1):
            where = f"encoder {place} of beside"
            if not isinstance(other, SentenceEncoder):
                raise EncoderError(f"is {type(other).__name__}", where=where, expected="a SentenceEncoder")
            check_beside(other, self.vocabulary, self.model, self.features_width, where=where)

    def __repr__(self) -> str:
        """Describe the encoder in one line, without the weights."""
        parts = " + ".join(f"{len(one.members)} x {one.model.reader}" for one in (self, *self.beside))
        return (
            f"<SentenceEncoder: {parts} over {NOUN[self.vocabulary.unit]}s, "
            f"{self.features_width} features, {self.width} numbers an embedding, {self.similarity_name}, {self.device}>"
        )

    @property
    def similarity_name(self) -> ComparisonName:
        """The similarity of captions and pictures: ``cosine``, ``dot``, ``order`` or ``reversed_order``."""
        if self.beside:
            return "cosine"
        if self.compared_by is not None:
            return self.compared_by
        lengths_weigh = len(self.members) > 1 and not self.renormalise
        return "dot" if self.model.similarity == "cosine" and lengths_weigh else self.model.similarity

    @property
    def width(self) -> int:
        """Number of dimensions of an embedding."""
        return self.model.width + sum(other.width for other in self.beside)

    @property
    def dimension(self) -> int:
        """The same as :attr:`width`."""
        return self.width

    def get_sentence_embedding_dimension(self) -> int:
        """Return :attr:`width`, under the name of sentence-transformers."""
        return self.width

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
        self,
        sentences: str | Iterable[str],
        *,
        convert_to_tensor: Literal[False] = ...,
        **options: Unpack[EncodeOptions],
    ) -> Floats: ...

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_tensor: Literal[True], **options: Unpack[EncodeOptions]
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
        device: torch.device | str | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
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
            device: the encoder's own device, or None; :meth:`from_pretrained` and :meth:`load` choose the device.
            prompt: None; no encoder here is trained with prompts.
            prompt_name: None.

        Returns:
            float32 (N, width), in the order of the sentences; (width,) for one text.

        Raises:
            EncoderError: a sentence is not a text or has more than ``max_length`` tokens, ``batch_size`` is below 1,
                ``max_length`` is not from 1 to 200,000, ``precision`` is unknown, both conversions are False, the
                device is another one, or there is a prompt.
        """
        if not (convert_to_numpy or convert_to_tensor):
            raise EncoderError("convert_to_numpy is False", expected="convert_to_tensor=True beside it")
        check_options(batch_size, max_length, self.device, device, {"prompt": prompt, "prompt_name": prompt_name})
        if precision not in get_args(Precision):
            raise EncoderError(f"precision is {precision!r}", expected=" or ".join(get_args(Precision)))
        rows = token_rows(as_texts(sentences), self.vocabulary, int(max_length))
        read = partial(
            embed_captions, rows=rows, batch=int(batch_size), precision=precision, progress=bool(show_progress_bar)
        )
        vectors = _result(self._embed(read), normalise=normalize_embeddings, one=isinstance(sentences, str))
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
        values = as_features(features, self.features_width)
        found = self._embed(partial(embed_images, features=np.atleast_2d(values)))
        vectors = _result(found, normalise=normalize_embeddings, one=values.ndim == 1)
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
        found = scores(*self._sides(captions, images), self.similarity_name)
        return found if isinstance(captions, torch.Tensor) else found.numpy()

    def similarity_pairwise(self, captions: Vectors, images: Vectors) -> Vectors:
        """Return the similarity of each caption with the picture of the same row, as :meth:`similarity` compares them.

        Args:
            captions: (N, width), or (width,) for one caption.
            images: as many pictures, or other captions.

        Returns:
            float32 (N,), an array or a tensor like ``captions``.

        Raises:
            EncoderError: captions or images have another shape, are not numbers, or are not equally many.
        """
        upper, lower = self._sides(captions, images)
        if len(upper) != len(lower):
            raise EncoderError(f"there are {len(upper)} captions and {len(lower)} images", expected="as many of both")
        found = paired_scores(upper, lower, self.similarity_name)
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
        write_folder(as_place(folder), self._saved(), half=half)

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
        return cls._of(read_folder(as_place(folder)), choose(str(device)))

    @classmethod
    def _of(cls, saved: Saved, device: torch.device) -> SentenceEncoder:
        members = [member.to(device) for member in saved.members]
        beside = [cls._of(one, device) for one in saved.beside]
        found = cls(members, saved.vocabulary, saved.model, saved.renormalise, saved.notes, beside=beside)
        return found if found.similarity_name == saved.similarity else replace(found, compared_by=saved.similarity)

    def _saved(self) -> Saved:
        beside = [other._saved() for other in self.beside]
        about = (self.renormalise, self.similarity_name, self.notes)
        return Saved(self.members, self.vocabulary, self.model, *about, beside)

    def _embed(self, embed: Callable[[Encoders], Floats]) -> Floats:
        """Return the embeddings, of which ``embed`` computes each member's."""
        total: Floats = np.add.reduce([embed(member) for member in self.members], axis=0, dtype=np.float32)
        if self.renormalise:
            total = unit_rows(total)
        if self.beside:
            sides = [unit_rows(side) for side in (total, *(other._embed(embed) for other in self.beside))]
            total = np.concatenate(sides, axis=1) / np.float32(math.sqrt(len(sides)))
        return total

    def _sides(self, captions: object, images: object) -> tuple[torch.Tensor, torch.Tensor]:
        """Check the vectors of a comparison; return them float32 (.., width), without a gradient, on one device."""
        upper = as_vectors(captions, "captions", self.width).detach()
        lower = as_vectors(images, "images", self.width).detach().to(upper.device)
        if self.similarity_name == "cosine":
            return unit(upper, "cosine"), unit(lower, "cosine")
        return upper, lower


def _result(vectors: Floats, *, normalise: bool, one: bool) -> Floats:
    """Return the rows, with length 1 if wanted, and without the first dimension for one text or picture."""
    vectors = unit_rows(vectors) if normalise else vectors
    return vectors[0] if one else vectors
