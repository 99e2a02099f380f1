"""Reads Karpathy's JSON: ``dataset_flickr8k.json``, ``dataset_flickr30k.json``, ``dataset_coco.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from sightword.corpus.documents import member, one_file, read_lists
from sightword.corpus.records import Caption, Image, check_path, split_name, with_names
from sightword.errors import CorpusError

_TODO = "caption_datasets.zip holds dataset_flickr8k.json, dataset_flickr30k.json and dataset_coco.json."


def read_karpathy(
    folder: Path, file_name: str | None, text: Literal["raw", "tokens"], restval: Literal["train", "none"] = "train"
) -> tuple[list[Image], list[Caption]]:
    """Read pictures, splits and captions; the split ``val`` becomes dev.

    ``file_name`` is None for the only ``dataset_*.json``; :class:`~sightword.corpus.settings.CorpusSettings` describes
    ``text`` and ``restval``.

    Raises:
        CorpusError: an entry does not follow Karpathy's format.
        FileFormatError: the file is missing, empty or truncated.
    """
    file = one_file(folder, file_name, ("dataset_*.json",), _TODO)
    (entries,) = read_lists(file, "images", todo=_TODO)
    images: list[Image] = []
    captions: list[Caption] = []
    name_of: dict[str, str] = {}
    for entry, where in entries:
        name = check_path(member(entry, "filename", str, where), where)
        # COCO's entries name one of two folders.
        subfolder = member(entry, "filepath", str, where) if entry.get("filepath") else ""
        picture = check_path(f"{subfolder}/{name}" if subfolder else name, where)
        split = member(entry, "split", str, where)
        left_out = restval == "none" and split.strip().lower() == "restval"
        name_of[picture] = name
        images.append(Image(picture, picture, None if left_out else split_name(split, where), where))
        for position, sentence in enumerate(member(entry, "sentences", list, where)):
            place = f"{where}.sentences[{position}]"
            words = _words(sentence, text, place)
            key = str(sentence["sentid"]) if "sentid" in sentence else f"position {position}"
            captions.append(Caption(picture, key, words, place))
    if not images:
        raise CorpusError("names no pictures: `images` is empty", where=file, todo=_TODO)
    return with_names(images, captions, name_of)


def _words(sentence: Any, text: Literal["raw", "tokens"], where: str) -> str:
    if text == "raw":
        return member(sentence, "raw", str, where)
    tokens = member(sentence, "tokens", list, where)
    if not all(isinstance(token, str) for token in tokens):
        raise CorpusError("tokens is not a list of texts", where=where)
    return " ".join([*tokens, "."]) if tokens else ""
