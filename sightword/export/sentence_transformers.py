"""The encoder as a module of sentence-transformers, and so for MTEB and other users of its models.

``SentenceTransformer(modules=[SightwordModule.load("models/encoder")])`` is a model of sentence-transformers, and so is
``SentenceTransformer("models/encoder", trust_remote_code=True)``: ``modules.json`` in the folder names this class. The
class has the interface of a first module (the library's page 'Creating Custom Models') without inheritance, so that it
can be imported and tested without the library. It was tested with version 6.2.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from sightword.encoder.arguments import LONGEST, MAX_LENGTH
from sightword.encoder.combination import Combination
from sightword.encoder.parts import Part
from sightword.encoder.pretrained import find_encoder, is_named
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.messages import quote
from sightword.model.embedding import true_float32
from sightword.model.encoders import pad
from sightword.model.similarity import unit

log = logging.getLogger(__name__)


class Outputs(dict[str, Any]):
    """What a model returns; a missing output, such as ``token_embeddings``, is refused with a sentence."""

    def __missing__(self, name: str) -> None:
        """Raise EncoderError."""
        what = f"there is no output {quote(name)}: a sentence has one vector here, none for its tokens"
        raise EncoderError(what, expected="'sentence_embedding'", todo="Leave output_value out.")


class SightwordModule(nn.Module):
    """Maps texts to sentence embeddings; the only module of a model.

    The embeddings equal :meth:`sightword.encoder.sentence_encoder.SentenceEncoder.encode`. The weights are
    ordinary parameters: they move with ``to`` and can be trained. The picture encoder is kept too.

    Args:
        encoder: the encoder of the embeddings.
    """

    save_in_root: bool = True
    forward_kwargs: ClassVar[set[str]] = set()
    modalities: ClassVar[list[str]] = ["text"]
    max_seq_length: int = MAX_LENGTH
    """Largest number of tokens of a text, up to 200,000. Longer texts are refused; they are cut, with a warning, once a
    program has set ``model.max_seq_length``."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        if len({part.vocabulary for part in encoder.leaves}) > 1:
            raise EncoderError("the encoder reads with several vocabularies", expected="one, for a model")
        self.parts = nn.ModuleList(part.network for part in encoder.leaves)
        self.heads = nn.ModuleDict(dict(encoder.heads))
        self.encoder = encoder
        self._warned_at = 0

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, torch.Tensor]:
        """Map N texts to ``input_ids`` int64 (N, T), padded, and ``attention_mask`` (N, T), 1 for each token.

        Raises:
            EncoderError: an input is not a text, or too long.
        """
        texts = [inputs] if isinstance(inputs, str) else inputs
        most, cutting = min(self.max_seq_length, LONGEST), "max_seq_length" in vars(self)
        rows, cut = [], 0
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise EncoderError(f"input {place} is {type(text).__name__}, not a text")
            ids_of_text = np.asarray(self.encoder.vocabulary.encode((prompt or "") + text), np.int64)
            if len(ids_of_text) > most and not cutting:
                raise EncoderError(
                    f"input {place} has {len(ids_of_text):,} tokens",
                    expected=f"at most {most:,}",
                    todo=f"Set model.max_seq_length, at most {LONGEST:,}: longer texts are then cut.",
                )
            cut += len(ids_of_text) > most
            rows.append(ids_of_text[:most])
        if cut and self._warned_at != most:
            self._warned_at = most
            log.warning("%d of %d texts are cut to their first %d tokens (max_seq_length)", cut, len(rows), most)
        ids, lengths = pad(rows)
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        return {"input_ids": ids, "attention_mask": mask.to(torch.int64)}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` float32 (N, width) to the result of :meth:`preprocess`."""
        ids = features["input_ids"]
        lengths = features["attention_mask"].sum(dim=1)
        with true_float32(ids.device):
            vectors = {part: part.captions(ids, lengths) for part in self.encoder.leaves}
        total = self.encoder.head(self.encoder.default)(_combined(self.encoder, vectors))
        return Outputs({**features, "sentence_embedding": total})

    def get_embedding_dimension(self) -> int:
        """Return the number of dimensions of an embedding."""
        return self.encoder.width

    def get_config_dict(self) -> dict[str, Any]:
        """Return the training parameters, as in ``encoder.json``."""
        return dict(self.encoder.notes)

    def save(self, output_path: str, **_: Any) -> None:
        """Write the encoder's files, always as safetensors; ``safe_serialization`` is ignored."""
        self.encoder.save(output_path)

    @classmethod
    def load(
        cls, model_name_or_path: str | os.PathLike[str], subfolder: str = "", revision: str | None = None, **_: Any
    ) -> SightwordModule:
        """Read the folder of an encoder, or the encoder of a name of the hub.

        Raises:
            EncoderError: the folder holds no encoder, or a damaged one; or there is no such name.
        """
        folder = Path(model_name_or_path)
        if not folder.exists() and is_named(str(model_name_or_path)):
            folder = find_encoder(str(model_name_or_path), revision)
        return cls(SentenceEncoder.load(folder / subfolder))


def _combined(encoder: Combination, vectors: Mapping[Part, torch.Tensor]) -> torch.Tensor:
    """Return what :meth:`Combination.combined` returns, with gradients."""
    own = [vectors[part] if isinstance(part, Part) else _combined(part, vectors) for part in encoder.parts]
    if encoder.combine == "sum":
        total = torch.stack(own).sum(dim=0)
        return unit(total, "cosine") if encoder.renormalise else total
    if encoder.renormalise:
        own = [unit(each, "cosine") * length for each, length in zip(own, encoder.lengths, strict=True)]
    return torch.cat(own, dim=1)
