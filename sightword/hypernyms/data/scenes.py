"""The sample taxonomy: all descriptions of a scene by size, colour, shape and background, whose closure is known.

One description is above another if every word in it stands in the other as well. With sizes, colours, shapes and
backgrounds of S, C, F and B words, there are (1 + S)(1 + C)(1 + F)(1 + B) descriptions, and (1 + 2S)(1 + 2C)(1 + 2F)(1
+ 2B) pairs of which one is above or equal to the other.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from sightword.errors import CorpusError
from sightword.hypernyms.data.taxonomy import Taxonomy, build
from sightword.io import yaml_reader
from sightword.io.files import Pathish, read_text

PARTS = ("size_words", "colours", "shapes", "backgrounds")
ROOT = "scene"
_BETWEEN = "_"


def read_scenes(folder: Pathish) -> Taxonomy:
    """Return the taxonomy of the words in ``scenes.yaml``; names are the words, joined by ``_``.

    Raises:
        CorpusError: the file lacks a part, or two parts share a word.
    """
    choices = _words(folder)
    names, edges = [], []
    for chosen in itertools.product(*[[None, *words] for words in choices]):
        said = [word for word in chosen if word is not None]
        names.append(_name(said))
        edges += [(names[-1], _name([*said[:out], *said[out + 1 :]]), "hypernym") for out in range(len(said))]
    shown = [name.replace(_BETWEEN, " ") for name in names]
    return build(names, edges, folder, words=shown, glosses=[f"a scene with: {text}" for text in shown])


def _name(words: list[str]) -> str:
    return _BETWEEN.join(words) or ROOT


def _words(folder: Pathish) -> list[list[str]]:
    path = Path(folder) / "scenes.yaml"
    values = yaml_reader.parse(read_text(path), path)
    missing = [part for part in PARTS if not isinstance(values, dict) or not isinstance(values.get(part), dict)]
    if missing:
        raise CorpusError(f"has no {missing[0]}", where=path)
    found = [[str(word) for word in values[part]] for part in PARTS]
    every = [*itertools.chain.from_iterable(found), ROOT]
    if len(set(every)) < len(every) or any(_BETWEEN in word for word in every):
        raise CorpusError("has a word in two parts, or one with an underscore", where=path)
    return found
