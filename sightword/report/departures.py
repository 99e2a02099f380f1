"""The published values of parameters, and the parameters of a run that differ from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sightword.messages import flat, short
from sightword.settings import Settings

_ASIDE = ("title", "shards", "weights_sha256")
"""Keys that change no number, or follow from another key."""


class Departure(NamedTuple):
    """A parameter that differs from its published value."""

    name: str
    value: Any
    published: Any

    def cells(self) -> list[str]:
        """Return both values, cut at 40 characters: a text as it is, all else as JSON spells it."""
        return [short(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False), 40) for one in self[1:]]


def departures(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Departure]:
    """Return the parameters that differ: kinds of data and networks, then those of the training, then all others.

    Places and titles, and parameters without a published value, are left out.

    Args:
        values: by full name, such as ``train.margin``, those of the raw data first.
        defaults: the published values, by full name.
    """
    ranked: list[tuple[int, Departure]] = []
    trained = False
    for name, value in values.items():
        section, _, key = name.rpartition(":")[2].partition(".")
        trained = trained or section == "train"
        one = Departure(name, value, defaults.get(name, value))
        place = all(isinstance(part, str) and "/" in part for part in one[1:])
        if value != one.published and not place and key not in _ASIDE:
            ranked.append((1 if section == "train" else 2 if trained or not isinstance(value, str) else 0, one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]


def departures_of(sections: Mapping[str, Settings], kinds: Mapping[str, type[Settings]]) -> list[Departure]:
    """Return the departures of sections, by the last part of their names; ``kinds`` are the classes by whole name."""
    known = {name: one for name in kinds if (one := sections.get(name.rpartition(".")[2]))}
    values = {name: one.model_dump(exclude_unset=True) for name, one in known.items()}
    return departures(flat(values), flat({name: published(kinds[name], type(one)) for name, one in known.items()}))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of both, those ``above`` where both have a key; mappings are merged by key."""
    values = dict(below)
    for key, value in above.items():
        under = values.get(key)
        values[key] = merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return values


def published(settings: type[Settings], kind: type[Settings] = Settings) -> dict[str, Any]:
    """Return the published values of a section, and those that its kind has more; a required value is absent."""
    values: dict[str, Any] = {}
    for name, field in (kind.model_fields | settings.model_fields).items():
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, Settings):
            values[name] = published(nested)
        if not field.is_required():
            value = plain(field.get_default(call_default_factory=True))
            values[name] = merged(values.get(name, {}), value) if isinstance(value, Mapping) else value
    return values


def plain(value: Any) -> Any:
    """Return a value as YAML has it: of an entry of a list the keys that were set."""
    if isinstance(value, Settings):
        return value.model_dump(exclude_unset=True)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
