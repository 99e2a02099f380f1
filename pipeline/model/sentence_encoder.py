"""The trained encoder as a library: sentences or picture features in, embeddings out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError

from pipeline.captions.vocabulary import Vocabulary
from pipeline.errors import EncoderError, FileFormatError
from pipeline.files import Pathish, read_json, write_json
from pipeline.model.embedding import Floats, embed_captions, embed_images
from pipeline.model.encoders import Encoders
from pipeline.model.saved import load_weights, save_weights
from pipeline.model.settings import ModelSettings, SimilarityName

SCHEMA = 1


@dataclass(frozen=True)
class SentenceEncoder:
    """An ensemble of trained encoders; its embedding is the sum of its members' unit vectors.

    Merkx & Frank (2019), section 3.4: the embeddings of the snapshots are summed; their
    released code does not normalise the sum again, which ``renormalise`` decides.
    """

    members: list[Encoders]
    vocabulary: Vocabulary
    model: ModelSettings
    renormalise: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
    """What it was made from: the training parameters, the features, the epochs of the members."""

    @property
    def similarity_name(self) -> SimilarityName:
        """How its embeddings of captions and pictures are compared: ``cosine``, ``order`` or ``reversed_order``."""
        return self.model.similarity

    @property
    def width(self) -> int:
        """Numbers in an embedding."""
        return self.model.width

    @property
    def features_width(self) -> int:
        """Numbers in a picture's features."""
        return self.members[0].images.linear.in_features

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int = 256,
        show_progress_bar: bool | None = False,
        normalize_embeddings: bool = False,
    ) -> npt.NDArray[np.float32]:
        """Embed sentences; called as sentence-transformers' ``encode`` is.

        Args:
            sentences: N texts, or one; characters or words that the vocabulary lacks count as unknown. Any order
                is as quick as any other, and a text that comes again is encoded once.
            batch_size: sentences encoded together; it changes nothing beyond the last bits.
            show_progress_bar: show one on a terminal.
            normalize_embeddings: divide each vector by its length.

        Returns:
            float32 (N, width), in the order given; of one text, (width,).

        Raises:
            EncoderError: a sentence is no text, or ``batch_size`` is below 1.
        """
        if batch_size < 1:
            raise EncoderError(f"batch_size is {batch_size}", expected="at least 1")
        if isinstance(sentences, str):
            vectors = self._encode([sentences], batch_size, bool(show_progress_bar))
        else:
            vectors = self._encode(sentences, batch_size, bool(show_progress_bar))
        if normalize_embeddings:
            vectors = _unit(vectors)
        return vectors[0] if isinstance(sentences, str) else vectors

    def _encode(self, sentences: Sequence[str], batch_size: int, progress: bool) -> npt.NDArray[np.float32]:
        for place, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise EncoderError(f"sentence {place} is no text but {type(sentence).__name__}")
        # Each sequence of tokens once: equal ones then have equal bits, and tie wherever they are compared.
        ids_of = {sentence: tuple(self.vocabulary.encode(sentence)) for sentence in dict.fromkeys(sentences)}
        row_of = {ids: row for row, ids in enumerate(dict.fromkeys(ids_of.values()))}
        rows = [np.asarray(ids, np.int64) for ids in row_of]
        vectors = self._sum(
            [embed_captions(member, rows, batch=batch_size, progress=progress) for member in self.members]
        )
        return vectors[[row_of[ids_of[sentence]] for sentence in sentences]]

    def encode_images(self, features: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """Embed pictures by their raw features (they are standardised inside where the training was).

        Args:
            features: float (N, features_width).

        Returns:
            float32 (N, width).

        Raises:
            EncoderError: the features have another shape.
        """
        if features.ndim != 2 or features.shape[1] != self.features_width:
            raise EncoderError(
                f"features have the shape {features.shape}", expected=f"(pictures, {self.features_width})"
            )
        return self._sum([embed_images(member, features.astype(np.float32, copy=False)) for member in self.members])

    def _sum(self, parts: list[Floats]) -> Floats:
        total: npt.NDArray[np.float32] = np.add.reduce(parts, axis=0, dtype=np.float32)
        return _unit(total) if self.renormalise else total

    def save(self, folder: Pathish) -> None:
        """Write ``encoder.json``, ``vocabulary.json`` and one safetensors file a member into ``folder``."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        names = [f"member-{number}.safetensors" for number in range(1, len(self.members) + 1)]
        for name, member in zip(names, self.members, strict=True):
            save_weights(place / name, member)
        self.vocabulary.save(place / "vocabulary.json")
        write_json(
            place / "encoder.json",
            {
                "schema": SCHEMA,
                "similarity": self.similarity_name,
                "width": self.width,
                "features_width": self.features_width,
                "renormalise": self.renormalise,
                "model": self.model.model_dump(include=set(ModelSettings.model_fields)),
                "members": names,
                **self.notes,
            },
        )

    @classmethod
    def load(cls, folder: Pathish, *, device: torch.device | str = "cpu") -> SentenceEncoder:
        """Read an encoder that :meth:`save` or the stage select wrote.

        Raises:
            EncoderError: the folder holds no encoder, one of a newer version, or a damaged one.
            CaptionsError: its vocabulary is missing or damaged.
        """
        place = Path(folder)
        if not (place / "encoder.json").is_file():
            raise EncoderError(
                "holds no encoder (encoder.json is missing)",
                where=place,
                todo="The stage select writes models/encoder.",
            )
        try:
            about = read_json(place / "encoder.json")
        except FileFormatError as error:
            raise EncoderError(error.what, where=error.where, todo="Run `dvc checkout models/encoder`.") from None
        vocabulary = Vocabulary.load(place / "vocabulary.json")
        if not isinstance(about, dict) or about.get("schema") != SCHEMA:
            version = about.get("schema") if isinstance(about, dict) else None
            raise EncoderError(
                f"has the format {version!r}",
                where=place / "encoder.json",
                expected=f"{SCHEMA}",
                todo="Update Sightword if the encoder is newer.",
            )
        try:
            model = ModelSettings.model_validate(about["model"])
            names, features_width = list(about["members"]), int(about["features_width"])
            renormalise = bool(about["renormalise"])
            if about["similarity"] != model.similarity:
                raise ValueError(f"similarity {about['similarity']!r}, the model has {model.similarity!r}")
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            raise EncoderError(f"is damaged ({error})", where=place / "encoder.json") from None
        members = []
        for name in names:
            member = Encoders(len(vocabulary), features_width, model)
            load_weights(place / Path(name).name, member)
            members.append(member.to(device).eval())
        known = {"schema", "similarity", "width", "features_width", "renormalise", "model", "members"}
        notes = {key: value for key, value in about.items() if key not in known}
        return cls(members, vocabulary, model, renormalise, notes)


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(N, D), each row divided by its length."""
    unit: npt.NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
