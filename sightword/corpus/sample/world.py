"""Reads and checks ``scenes.yaml``, the description of the sample's world."""

from __future__ import annotations

import functools
import string
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from sightword.errors import CorpusError, FileFormatError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, read_text
from sightword.settings import explain

FILE = "scenes.yaml"
PARTS = frozenset({"first", "second", "relation", "place", "background"})
"""The parts of a scene that a template may mention, besides ``{is}``."""
_SINGLE = [frozenset(["first", *more]) for more in ([], ["background"], ["place"], ["place", "background"])]
_DOUBLE = [
    frozenset(["first", "second", *more]) for more in ([], ["background"], ["relation"], ["relation", "background"])
]
"""Every set of parts that the description of one group and of two groups can have."""
_DENIAL = frozenset({"thing", "background"})


def _no_tab(words: str) -> str:
    if words != " ".join(words.split()) or not words:
        raise ValueError("words are joined by single spaces and not empty")
    return words


Phrase = Annotated[str, AfterValidator(_no_tab)]
Words = Annotated[list[Phrase], Field(min_length=1)]
Paint = Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[int, Field(ge=1, le=1_000_000)]
Side = Annotated[int, Field(ge=64, le=2048)]
Outline = Literal["circle", "square", "triangle", "star", "heart", "ring", "cross", "diamond", "flower"]
Texture = Literal["hills", "waves", "night", "dunes", "bricks", "snow", "sunset", "checks", "stripes", "forest"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Splits(_Part):  # a number for each split
    train: Number
    dev: Number
    test: Number


class _Colour(_Part):
    paint: Paint
    words: Words


class _Shape(_Part):  # an outline with its singular and plural names
    outline: Outline
    one: Words
    many: Words


class _Size(_Part):  # a diameter, as a share of the picture's smaller side
    scale: Annotated[float, Field(gt=0, le=1)]
    words: Words


class _Background(_Part):  # the area behind the objects, and the colours to avoid on it
    texture: Texture
    paint: Annotated[list[Paint], Field(min_length=3, max_length=3)]
    avoid: list[str]
    words: Words


class _Place(_Part):  # the position of a single group, as shares of width and height
    at: Annotated[list[Share], Field(min_length=2, max_length=2)]
    words: Words


class _Relation(_Part):  # the position of the first of two groups relative to the second
    converse: str
    words: Words


class _LeaveOut(_Part):  # the probabilities that a caption leaves out a part
    size: Share
    layout: Share
    background: Share


class _ObjectLikeness(_Part):  # the weights of an object's parts, which add up to 1
    colour: Share
    shape: Share
    size: Share
    count: Share


class _Likeness(_Part):  # the weights of a scene's parts; the first three add up to 1
    objects: Share
    background: Share
    layout: Share
    object: _ObjectLikeness
    unsaid: Share
    denied: Share

    @model_validator(mode="after")
    def _add_up(self) -> _Likeness:
        outer, inner = self.objects + self.background + self.layout, sum(self.object.model_dump().values())
        for name, total in (("objects, background and layout", outer), ("the parts of object", inner)):
            if abs(total - 1) > 1e-9:
                raise ValueError(f"{name} add up to {total:g}, not to 1")
        return self


class _SickPairs(_Part):  # the number of SICK-like pairs in each file
    train: Number
    trial: Number
    test: Number


class _Pairs(_Part):  # the number of sentence pairs
    scenes: Number
    details: Number
    sick: _SickPairs


class World(_Part):
    """All of ``scenes.yaml``."""

    seed: int
    pictures: _Splits
    alike: _Splits
    captions: Annotated[int, Field(ge=1, le=20)]
    two_groups: Share
    jpeg: Share
    sizes: Annotated[list[Annotated[list[Side], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    colours: Annotated[dict[str, _Colour], Field(min_length=2)]
    shapes: Annotated[dict[str, _Shape], Field(min_length=2)]
    size_words: Annotated[dict[str, _Size], Field(min_length=1)]
    counts: Annotated[dict[Annotated[int, Field(ge=1, le=3)], Words], Field(min_length=1)]
    backgrounds: Annotated[dict[str, _Background], Field(min_length=2)]
    places: Annotated[dict[str, _Place], Field(min_length=1)]
    relations: dict[Literal["above", "below", "left", "right", "inside", "around"], _Relation]
    templates: Words
    negation: Words
    leave_out: _LeaveOut
    likeness: _Likeness
    pairs: _Pairs

    @model_validator(mode="after")
    def _fits_together(self) -> World:
        for name, background in self.backgrounds.items():
            for colour in background.avoid:
                if colour not in self.colours:
                    raise ValueError(f"backgrounds.{name}.avoid names the unknown colour {colour!r}")
            if len(set(background.avoid)) > len(self.colours) - 2:
                raise ValueError(f"backgrounds.{name}.avoid leaves fewer than two colours")
        for key, relation in self.relations.items():
            other = self.relations.get(relation.converse)  # type: ignore[call-overload]  # any text may be asked for
            if other is None or other.converse != key:
                raise ValueError(f"relations.{key}.converse = {relation.converse!r} is not its converse")
        if self.two_groups > 0 and not self.relations:
            raise ValueError("two_groups needs relations")
        kinds = {template_parts(template, PARTS | {"is"}) for template in self.templates}
        for needed in _SINGLE if self.two_groups == 0 else _SINGLE + _DOUBLE:
            if needed not in kinds:
                raise ValueError(f"templates: none has exactly the parts {', '.join(sorted(needed))}")
        for template in self.negation:
            if template_parts(template, _DENIAL) != _DENIAL:
                raise ValueError(f"negation: {template!r} needs {{thing}} and {{background}}")
        return self


@functools.cache
def template_parts(template: str, accepted: frozenset[str]) -> frozenset[str]:
    """Return the fields of a template without ``{is}``, which depends on the others; ValueError for unknown fields."""
    fields = frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)
    if not fields <= accepted:
        unknown = ", ".join(sorted(fields - accepted))
        raise ValueError(f"the template {template!r} names {unknown}; accepted are {', '.join(sorted(accepted))}")
    return fields - {"is"}


def load_world(path: Pathish) -> World:
    """Read and check the description of the sample, a file or a folder with ``scenes.yaml``.

    CorpusError if the file is not YAML, or entries are missing, unknown or wrong (the message names all of them);
    FileFormatError if it is missing.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    text = read_text(file, todo="The sample's description is data/raw/sample/scenes.yaml, in git.")
    try:
        value = yaml_reader.parse(text, file)
    except FileFormatError as error:
        raise CorpusError(error.what, where=error.where) from None
    try:
        return World.model_validate(value)
    except ValidationError as error:
        problems = [explain(World, item) for item in error.errors()]
        raise CorpusError("does not describe a sample:\n  " + "\n  ".join(problems), where=file) from None
