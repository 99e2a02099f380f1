"""Reads Karpathy's JSON: ``dataset_flickr8k.json``, ``dataset_flickr30k.json``, ``dataset_coco.json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sightword.corpus.listing import Listing, one_file
from sightword.corpus.records import Caption, Image, check_path, split_name, with_names
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.io.files import member, read_lists

_TODO = "caption_datasets.zip holds dataset_flickr8k.json, dataset_flickr30k.json and dataset_coco.json."


class Karpathy(CorpusSettings):
    """Karpathy's JSON: pictures with splits and captions; the split ``val`` becomes dev."""

    format: Literal["karpathy"] = "karpathy"
    """Karpathy's JSON, ``dataset_*.json``."""

    file: str | None = Field(None, min_length=1)
    """The name of the file in ``path``, where it is not the only ``dataset_*.json`` there."""

    text: Literal["raw", "tokens"] = "raw"
    """``raw``: the caption as it was written; ``tokens``: its tokens joined by single spaces, with a full stop as the
    last one (Merkx & Frank 2019 for COCO)."""

    restval: Literal["train", "none"] = "train"
    """COCO's 30,504 pictures of the set ``restval`` are for training, or in no split (VSE++'s code without its
    flag)."""

    def files(self) -> list[str]:
        """Return the file; CorpusError if it is not the only one."""
        return [one_file(self.folder, self.file, ("dataset_*.json",), _TODO)]

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        """Read the file; CorpusError if an entry does not follow the format."""
        file = self.folder / self.files()[0]
        (entries,) = read_lists(file, "images", error=CorpusError, todo=_TODO)
        images: list[Image] = []
        captions: list[Caption] = []
        name_of: dict[str, str] = {}
        for entry, where in entries:
            name = check_path(member(entry, "filename", str, where, CorpusError), where)
            # COCO's entries name one of two folders.
            subfolder = member(entry, "filepath", str, where, CorpusError) if entry.get("filepath") else ""
            picture = check_path(f"{subfolder}/{name}" if subfolder else name, where)
            split = member(entry, "split", str, where, CorpusError)
            left_out = self.restval == "none" and split.strip().lower() == "restval"
            name_of[picture] = name
            images.append(Image(picture, picture, None if left_out else split_name(split, where), where))
            for position, sentence in enumerate(member(entry, "sentences", list, where, CorpusError)):
                place = f"{where}.sentences[{position}]"
                words = _words(sentence, self.text, place)
                key = str(sentence["sentid"]) if "sentid" in sentence else f"position {position}"
                captions.append(Caption(picture, key, words, place))
        if not images:
            raise CorpusError("names no pictures: `images` is empty", where=file, todo=_TODO)
        return with_names(images, captions, name_of)


def _words(sentence: Any, text: Literal["raw", "tokens"], where: str) -> str:
    if text == "raw":
        return member(sentence, "raw", str, where, CorpusError)
    tokens = member(sentence, "tokens", list, where, CorpusError)
    if not all(isinstance(token, str) for token in tokens):
        raise CorpusError("tokens is not a list of texts", where=where)
    return " ".join([*tokens, "."]) if tokens else ""
