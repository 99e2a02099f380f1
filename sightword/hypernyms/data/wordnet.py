"""WordNet's nouns: ``data.noun`` and ``index.noun`` (wndb(5)), with the names of synsets as NLTK writes them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from sightword.errors import CorpusError
from sightword.hypernyms.data.taxonomy import Taxonomy, build
from sightword.io.files import Pathish
from sightword.io.mapping import mapping
from sightword.io.opening import read_bytes
from sightword.messages import short

log = logging.getLogger(__name__)

RELATIONS = {"@": "hypernym", "@i": "instance_hypernym"}
TODO = "Fetch it again with `sightword fetch wordnet`."


def read_wordnet(folder: Pathish, relations: Collection[str]) -> Taxonomy:
    """Read the nouns of a WordNet.

    A name is the first lemma in lower case, ``.n.``, and the two-digit place of the synset among the lemma's synsets.
    Without ``index.noun`` the names are the offsets, and the log reports it.

    Args:
        folder: with ``data.noun`` and ``index.noun``.
        relations: of ``hypernym`` and ``instance_hypernym``, those that are edges.

    Raises:
        CorpusError: a file is missing, damaged or cut off (with line and offset), or an edge is wrong.
    """
    place = Path(folder)
    senses = _senses(place / "index.noun")
    wanted = {sign: name for sign, name in RELATIONS.items() if name in relations}
    data = place / "data.noun"
    names: dict[str, str] = {}
    words, glosses = [], []
    edges: list[tuple[str, str, str]] = []
    at = 0
    for number, line in enumerate(read_bytes(data, CorpusError, todo=TODO).split(b"\n"), start=1):
        start, at = at, at + len(line) + 1
        if not line or line.startswith(b"  "):
            continue
        try:
            head, bar, gloss = line.decode().partition("|")
            fields = head.split()
            offset, count = fields[0], int(fields[3], 16)
            lemmas = fields[4 : 4 + 2 * count : 2]
            pointers = fields[5 + 2 * count :]
            if not bar or not lemmas or int(offset) != start or len(pointers) != 4 * int(fields[4 + 2 * count]):
                raise ValueError
        except (ValueError, IndexError):
            raise CorpusError(
                f"is damaged or cut off: line {number}, offset {start}, is not a whole synset", where=data, todo=TODO
            ) from None
        lemma = lemmas[0].lower()
        names[offset] = offset if senses is None else _name(lemma, offset, senses, data, number)
        words.append(", ".join(lemma.replace("_", " ") for lemma in lemmas))
        glosses.append(gloss.strip())
        for sign, target, kind in zip(pointers[::4], pointers[1::4], pointers[2::4], strict=True):
            if kind == "n" and sign in wanted:
                edges.append((offset, target, wanted[sign]))
    for low, high, _ in edges:
        if high not in names:
            raise CorpusError(
                f"is cut off: the synset {short(names[low])} has the hypernym {short(high)}, which is missing",
                where=data,
                todo=TODO,
            )
    named = ((names[low], names[high], relation) for low, high, relation in edges)
    return build(list(names.values()), named, data, words=words, glosses=glosses)


def _senses(path: Path) -> dict[str, list[str]] | None:
    """Return the offsets of each lemma, in the order of its senses; None without the file."""
    if not path.is_file():
        log.warning("taxonomy: %s is missing: concepts are named by their offsets", path)
        return None
    found = []
    for number, line in enumerate(read_bytes(path, CorpusError, todo=TODO).split(b"\n"), start=1):
        if line and not line.startswith(b"  "):
            try:
                lemma, _, count, *rest = line.decode().split()
                if not 1 <= int(count) <= len(rest):
                    raise ValueError
                found.append((lemma, rest[-int(count) :], f"{path}, line {number}"))
            except ValueError:
                raise CorpusError(
                    f"is damaged or cut off: line {number} is not a whole lemma", where=path, todo=TODO
                ) from None
    return mapping(found, "the lemma", "list of synsets", CorpusError, todo=TODO)


def _name(lemma: str, offset: str, senses: dict[str, list[str]], data: Path, number: int) -> str:
    try:
        return f"{lemma}.n.{senses[lemma].index(offset) + 1:02}"
    except (KeyError, ValueError):
        raise CorpusError(
            f"line {number}: index.noun does not list the synset {short(offset)} for {short(lemma)}",
            where=data,
            todo=TODO,
        ) from None
