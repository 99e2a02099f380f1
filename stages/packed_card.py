"""The model card of an encoder that is passed on: its name, its corpus with the terms, and test scores first.

The fields of the head are those of the Hugging Face hub (its page 'Model Cards'): ``license: other`` goes with
``license_name`` and ``license_link``, the file ``LICENSE`` beside the card.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.io.files import loads
from sightword.vse.selection.model_card import DIRECTIONS, OF_NO_NAME, TEST_ELSEWHERE, result, use, yaml_head

_UNNAMED = "terms-of-captions-pictures-and-image-network"
_LICENCE = 'license: "other"'
_NO_TERMS = """\
The weights come from captions, pictures and an image network, whose terms go with them.
The Apache License 2.0 of Sightword's code does not cover the weights.
"""


@dataclass(frozen=True)
class Corpus:
    """A published corpus."""

    name: str
    title: str
    """The name in prose, such as ``Flickr8k``."""
    terms: str


def renamed(card: str, name: str, encoder: SentenceEncoder, *, packaged: bool) -> str:
    """Return a model card whose section on use is that of a folder, or an encoder of the package, of this name."""
    section = use(name, encoder, packaged=packaged)
    if not packaged:
        section += f"\nOf the Hugging Face hub, the name is `OWNER/{name}` in both (extra `hub` of Sightword).\n"
    return "".join(f"{section}\n" if one.startswith("## Use\n") else one for one in _sections(card))


def with_licence(card: str, encoder: SentenceEncoder) -> tuple[str, str]:
    """Return a card with a head that names the file ``LICENSE``, and the text of this file; a foreign head is kept."""
    if not card:
        card = f"# A sentence encoder\n\nIt turns a sentence into {encoder.width} numbers.\n\n## Use\n"
    if not card.startswith("---\n"):
        kind = "sentence-similarity"
        fields = {"library_name": "sentence-transformers", "pipeline_tag": kind, "license": "other"}
        card = f"{yaml_head({**fields, 'tags': ['sentence-transformers', kind, 'feature-extraction']})}\n\n{card}"
    head, _, body = card.partition("\n---\n")
    lines = head.splitlines()
    if _LICENCE in lines and "\nlicense_link:" not in head:
        if "\nlicense_name:" not in head:
            lines.insert(lines.index(_LICENCE) + 1, f'license_name: "{_UNNAMED}"')
        named = next(place for place, line in enumerate(lines) if line.startswith("license_name:"))
        lines.insert(named + 1, 'license_link: "LICENSE"')
    terms = [one for one in _sections(body) if re.match("## (Terms|Licences)\n", one)]
    text = terms[0].partition("\n\n")[2].strip() + "\n" if terms else _NO_TERMS
    return "\n".join([*lines, "---\n"]) + body, text


def of_corpus(card: str, name: str, corpus: Corpus) -> str:
    """Return a card of the stage select that names the encoder, its corpus, and the terms of its weights."""
    fields, body = _head(card)
    for index in fields.get("model-index", []):
        index["name"] = name
        for row in index["results"]:
            row["dataset"] |= {"type": corpus.name, "name": f"{corpus.title}, {row['dataset']['split']} split"}
    research = "non-commercial research" in corpus.terms.lower()
    fields.pop("license_name", None)
    items, before = list(fields.items()), list(fields).index("license") + 1
    license_name = "non-commercial-research" if research else f"terms-of-{corpus.name}"
    fields = dict([*items[:before], ("license_name", license_name), *items[before:]])
    terms = f"""\
## Terms

The weights were trained on {corpus.title}, whose terms go with them. {corpus.terms}
The published weights of image networks were trained on ImageNet, whose terms are non-commercial research and
education.
The Apache License 2.0 of Sightword's code does not cover the weights.

"""
    parts = [terms if one.startswith("## Licences\n") else one for one in _sections(body)]
    body = "".join(parts).replace(OF_NO_NAME, f"- Corpus: {corpus.title}.\n")
    return f"{yaml_head(fields)}\n{body}"


def with_scores(card: str, scores: str, retrieval: Any, corpus: Corpus | None) -> str:
    """Return a card of the stage select with sections of scores, and results on the test split, before those on dev."""
    fields, body = _head(card)
    kind, title = (corpus.name, corpus.title) if corpus else ("unnamed", "the training corpus")
    tested = [
        result(kind, f"{title}, {split} split, {protocol}", split, directions)
        for split, protocols in (retrieval or {}).items()
        for protocol, directions in (protocols.items() if isinstance(protocols, dict) else ())
        if isinstance(directions, dict) and directions.keys() >= DIRECTIONS.keys()
    ]
    for index in fields.get("model-index", []):
        index["results"][:0] = tested
    before = "## Scores on " if "\n## Scores on " in body else "## Data\n"
    parts = [f"{scores.strip()}\n\n{one}" if one.startswith(before) else one for one in _sections(body)]
    body = "".join(parts)
    return f"{yaml_head(fields)}\n{body.replace(TEST_ELSEWHERE, 'above') if tested else body}"


def _head(card: str) -> tuple[dict[str, Any], str]:
    """Return the fields of the YAML head, each a line of JSON, and the text below; EncoderError for another head."""
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    lines = (line.partition(": ") for line in head.splitlines())
    try:
        fields = {key: loads(value) for key, _, value in lines}
        indexes = fields.get("model-index", [])
        described = all(isinstance(one["dataset"]["split"], str) for index in indexes for one in index["results"])
    except (ValueError, KeyError, IndexError, TypeError):
        described = False
    if not described or "license" not in fields:
        raise EncoderError(
            "has a head that Sightword did not write",
            where="the encoder's README.md",
            expected="a line of JSON for each field, with license, as the stage select writes them",
            todo="Remove the head, the lines between ---, to pack the card as plain text.",
        )
    return fields, body


def _sections(text: str) -> list[str]:
    return re.split(r"(?m)^(?=## )", text)
