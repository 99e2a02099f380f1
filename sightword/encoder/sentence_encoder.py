"""The trained encoder as a library: sentences or picture features in, embeddings out.

Needs PyTorch, NumPy and safetensors only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar, get_args, overload

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.vocabulary import UNKNOWN
from sightword.compute.devices import choose
from sightword.encoder.arguments import (
    EncodeOptions,
    as_features,
    as_texts,
    as_vectors,
    token_rows,
)
from sightword.encoder.combination import PICTURES, Combination
from sightword.encoder.folder import read_folder, write_folder
from sightword.encoder.parts import Part, mapped
from sightword.encoder.pretrained import find_encoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.io.saved import as_folder
from sightword.messages import quote
from sightword.model.embedding import Floats, embed_captions, embed_images
from sightword.model.saved import StoredName
from sightword.model.shape import TfidfShape
from sightword.model.similarity import paired_scores, scores, unit, unit_rows

Vectors = TypeVar("Vectors", Floats, torch.Tensor)


class SentenceEncoder(Combination):
    """Sentences in, embeddings out: parts, combined by a sum or by joining their vectors, and spaces behind them.

    The sum of several networks is the ensemble of Merkx & Frank (2019), section 3.3; their released code does not
    normalise the sum, which ``renormalise`` decides, and ranks by the dot product. Spaces are those of Bordes et al.
    (2019): one reading of a sentence, a vector in each space. Several threads may use one encoder.
    """

    def get_sentence_embedding_dimension(self) -> int:
        """Return :attr:`width`, under the name of sentence-transformers."""
        return self.width

    def in_space(self, space: str) -> Self:
        """Return the encoder with the embeddings of one of its spaces.

        Raises:
            EncoderError: there is no such space.
        """
        self.head(space)
        return replace(self, default=space)

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_tensor: Literal[False] = ..., **options: Any
    ) -> Floats: ...

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_tensor: Literal[True], **options: Any
    ) -> torch.Tensor: ...

    def encode(self, sentences: str | Iterable[str], **options: Any) -> Floats | torch.Tensor:
        """Embed sentences, as sentence-transformers' ``encode`` does.

        Args:
            sentences: N texts, or one text; the log warns of texts without any known character or word. Equal texts are
                encoded once, and have equal bits.
            options: :class:`sightword.encoder.arguments.EncodeOptions` by name, such as ``batch_size=32``.

        Returns:
            float32 (N, width of the space), in the order of the sentences; (width,) for one text. A tensor on the
            encoder's device with ``convert_to_tensor=True``, else an array.

        Raises:
            EncoderError: there is no such space, a sentence is not a text or too long, or an option means nothing here.
        """
        chosen = EncodeOptions(**options)
        space = self.default if chosen.space is None else chosen.space
        vectors = self._vectors(sentences, [space], chosen)[space]
        return torch.from_numpy(vectors).to(self.device) if chosen.convert_to_tensor else vectors

    encode_query = encode_document = encode
    """The names of sentence-transformers for the two sides of a search."""

    def encode_spaces(self, sentences: str | Iterable[str], **options: Any) -> dict[str, Floats]:
        """Return the vectors of sentences in each space with a name, each sentence read once; see :meth:`encode`."""
        vectors = self._vectors(sentences, self.spaces, EncodeOptions(**options))
        return {space: vectors[space] for space in self.spaces}

    def encode_images(self, features: npt.ArrayLike | torch.Tensor, *, normalize_embeddings: bool = False) -> Floats:
        """Embed pictures by their raw features, which the encoder standardises if the training did.

        Args:
            features: (N, features_width) numbers, as the stage features writes them, by the network and the crops of
                the training (one crop instead of ten costs points of recall); or (features_width,) for one picture.
            normalize_embeddings: divide each vector by its length.

        Returns:
            float32 (N, width), in the order of the features; (width,) for one picture.

        Raises:
            EncoderError: the embeddings have none of pictures beside them, or the features have another shape, are not
                numbers, or not finite.
        """
        if not self.features_width:
            todo = "Take in_space('visual')." if PICTURES in self.spaces else "Take an encoder trained on pictures."
            raise EncoderError("the encoder has no embeddings of pictures", todo=todo)
        values = as_features(features, self.features_width)
        rows = np.atleast_2d(values)
        vectors = unit_rows(rows) if self.heads else self.combined(lambda part: _of_pictures(part, rows))
        vectors = unit_rows(vectors) if normalize_embeddings else vectors
        vectors = vectors[0] if values.ndim == 1 else vectors
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
            raise EncoderError(
                f"there are {len(upper)} first and {len(lower)} second vectors", expected="as many of both"
            )
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

    def save(self, folder: Pathish, *, stored: StoredName = "float32") -> None:
        """Write the encoder to ``folder``; :mod:`sightword.encoder.folder` lists the files.

        Args:
            folder: the folder, which is made.
            stored: the numbers of the weights, which are loaded as float32: ``float16`` halves the folder, and ``int8``
                quarters it, with a scale for each row of a matrix.

        Raises:
            EncoderError: the folder is not a path, ``stored`` is unknown, or a weight is beyond half precision.
        """
        if stored not in get_args(StoredName):
            raise EncoderError(f"stored is {quote(stored)}", expected=" or ".join(get_args(StoredName)))
        write_folder(as_folder(folder), self, stored=stored)

    @classmethod
    def from_pretrained(
        cls, name: Pathish, *, revision: str | None = None, device: torch.device | str = "cpu"
    ) -> SentenceEncoder:
        """Load an encoder by its name, from a folder, or from the hub.

        Args:
            name: as for :func:`sightword.encoder.pretrained.find_encoder`, such as ``flickr8k`` or ``owner/name``.
            revision: a branch, a tag or a commit of the hub's repository.
            device: as for :meth:`load`.

        Raises:
            EncoderError, DownloadError, SetupError: as for ``find_encoder`` and :meth:`load`.
        """
        place = find_encoder(name if isinstance(name, str) else as_folder(name), revision)
        return cls.load(place, device=device)

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
        return read_folder(as_folder(folder), cls).to(chosen)

    def _vectors(
        self, sentences: str | Iterable[str], spaces: Sequence[str | None], chosen: EncodeOptions
    ) -> dict[str | None, Floats]:
        """Return the vectors in each space, of sentences or of one; sentences of equal tokens are encoded once."""
        if not chosen.lexical and all(map(_is_lexical, self.leaves)):
            raise EncoderError("lexical is False, and the encoder has no other part than weighted n-grams")
        wanted = self.device if chosen.device is None else choose(str(chosen.device))
        if (wanted.type, wanted.index or 0) != (self.device.type, self.device.index or 0):
            todo = "Load the encoder with this device."
            raise EncoderError(f"device is {quote(str(wanted))}", expected=str(self.device), todo=todo)
        options: dict[str, Any] = {"precision": chosen.check(), "batch": int(chosen.batch_size)}
        options["progress"] = bool(chosen.show_progress_bar)
        heads = {space: self.head(space) for space in spaces}
        texts, leaves = as_texts(sentences), self.leaves
        most = int(chosen.max_length)
        read = {one: token_rows(texts, one, most) for one in dict.fromkeys(part.vocabulary for part in leaves)}
        row_of: dict[tuple[bytes, ...], int] = {}
        ids = zip(*([row.tobytes() for row in each] for each in read.values()), strict=True)
        places = [row_of.setdefault(each, len(row_of)) for each in ids]
        first = dict(zip(reversed(places), reversed(range(len(places))), strict=True))
        own = [first[place] for place in range(len(row_of))]
        rows = {vocabulary: [each[row] for row in own] for vocabulary, each in read.items()}

        def embed(part: Part) -> Floats:
            if not chosen.lexical and _is_lexical(part):
                return np.zeros((len(own), part.shape.width), np.float32)
            return embed_captions(part.captions, rows[part.vocabulary], **options)

        vectors = self.combined(embed)
        found = {}
        for space, module in heads.items():
            values = mapped(module, vectors, self.device)
            values = unit_rows(values) if chosen.normalize_embeddings else values
            values = values if len(values) == len(places) else values[places]
            found[space] = values[0] if isinstance(sentences, str) else values
        return found

    def _sides(self, captions: object, images: object) -> tuple[torch.Tensor, torch.Tensor]:
        """Check the vectors of a comparison; return them float32 (.., width), without a gradient, on one device."""
        upper = as_vectors(captions, "the first vectors", self.width).detach()
        lower = as_vectors(images, "the second vectors", self.width).detach().to(upper.device)
        if self.similarity_name == "cosine":
            return unit(upper, "cosine"), unit(lower, "cosine")
        return upper, lower


def _is_lexical(part: Part) -> bool:
    return isinstance(part.shape, TfidfShape)


def _of_pictures(part: Part, features: Floats) -> Floats:
    if part.images is None:
        return np.zeros((len(features), part.shape.width), np.float32)
    return embed_images(part.images, features)
