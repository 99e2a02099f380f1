"""Open any encoding function by a name that a person types: ``flickr8k``, a folder, word vectors, ``module:name``."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.encoder.pretrained import find_encoder, is_named, no_such_encoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.io.modules import import_here
from sightword.io.saved import as_folder

if TYPE_CHECKING:
    import torch

    from sightword.encoder.sentence_encoder import SentenceEncoder

WORD_VECTORS = (".txt", ".vec", ".gz")
"""Endings of files of word vectors."""


@dataclass(frozen=True)
class NamedEncoder:
    """An encoding function, with keyword arguments; ``prepare`` is called with all sentences before the first call."""

    encode: Callable[..., Any]
    prepare: Callable[[list[str]], object] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, sentences: list[str]) -> Any:
        """Return the vectors of N sentences, (N, D)."""
        return self.encode(sentences, **self.options)


def open_encoder(name: str, *, batch_size: int | None = None, lower_case: bool = False) -> Callable[[list[str]], Any]:
    """Open the encoder that a name stands for.

    Args:
        name: the name of an encoder that comes with Sightword, or of the hub
            (:func:`sightword.encoder.pretrained.find_encoder`); the folder of an encoder (such as
            ``models/encoder``); ``FOLDER:SPACE``, a space of an encoder of several
            (such as ``models/grounded/cg-pg-0:grounded``); a file of word vectors that ends in ``.txt``, ``.vec`` or
            ``.gz``; or ``module:name``, an encoding function or an object with a method ``encode``. The
            module may lie in the working folder. ``module:name()`` calls the name and takes the result.
        batch_size: sentences encoded together, for encoders with an argument ``batch_size``; None keeps their default.
        lower_case: look words up in lower case; for word vectors only.

    Raises:
        EncoderError: there is no such encoder, it cannot be loaded, or it cannot encode.
        SemanticsError: the file holds no word vectors.
    """
    path = as_folder(name)
    if lower_case and not name.endswith(WORD_VECTORS):
        raise EncoderError("does not look words up: lower case is for word vectors", where=name)
    if name.endswith(WORD_VECTORS) and not path.is_dir():
        from sightword.encoder.word_vectors import BagOfWords

        if batch_size is not None:
            raise EncoderError("the encoder takes no batch_size", where=name)
        return BagOfWords(path, lower_case=lower_case)
    if is_named(name):
        return _from_folder(find_encoder(name), None, batch_size)
    if path.is_dir():
        return _from_folder(path, None, batch_size)
    folder, space = folder_and_space(name)  # a module may be a folder too
    if space is not None:
        return _from_folder(folder, space, batch_size)
    if found := re.fullmatch(r"(\w[\w.]*):([\w.]+)(\(\))?", name):
        return _from_module(found[1], found[2], bool(found[3]), batch_size)
    kinds = "the folder of an encoder, FOLDER:SPACE, owner/name, word vectors (.txt, .vec or .gz), or module:name"
    raise no_such_encoder(name, kinds)


def folder_and_space(name: Pathish) -> tuple[Path, str | None]:
    """Return the folder and the space of ``FOLDER:SPACE``; without an encoder in FOLDER, the name and None."""
    folder, colon, space = str(as_folder(name)).rpartition(":")
    if colon and not Path(name).is_dir() and (Path(folder) / "encoder.json").is_file():
        return Path(folder), space
    return Path(name), None


def open_with_pictures(name: Pathish, *, device: torch.device | str = "cpu") -> SentenceEncoder:
    """Read an encoder whose sentences are beside pictures: one with a side of pictures, or with the space ``visual``.

    Parts without a side of pictures are left out: no picture has anything there but zeros.

    Args:
        name: as for :func:`sightword.encoder.pretrained.find_encoder`, or ``FOLDER:visual``.
        device: as for :meth:`sightword.encoder.sentence_encoder.SentenceEncoder.load`.

    Raises:
        EncoderError: there is no such encoder, the encoder is damaged, or the sentences are not beside pictures.
        SetupError: the device does not exist.
    """
    place, space = folder_and_space(name)
    place = find_encoder(name) if space is None else place
    encoder = _load(place, space, device)
    if space is None and "visual" in encoder.spaces:
        encoder = encoder.in_space("visual")
    if not encoder.features_width:
        what = "has no embeddings of pictures" + f" in the space {space!r}" * (space is not None)
        raise EncoderError(what, where=place, expected="an encoder trained on pictures, or the space visual")
    seeing = [place for place, part in enumerate(encoder.parts) if part.features_width]
    if encoder.spaces or len(seeing) == len(encoder.parts):
        return encoder
    shares = [encoder.shares[place] for place in seeing if encoder.shares]
    return replace(
        encoder,
        parts=[encoder.parts[place] for place in seeing],
        shares=[share / sum(shares) for share in shares],
    )


def _load(folder: Path, space: str | None, device: torch.device | str) -> SentenceEncoder:
    """Read an encoder whose embeddings are those of a space; None for its own."""
    from sightword.encoder.sentence_encoder import SentenceEncoder

    encoder = SentenceEncoder.load(folder, device=device)
    if space is None:
        return encoder
    try:
        return encoder.in_space(space)  # reported before any sentence is read
    except EncoderError as error:
        todo = error.todo if encoder.spaces else f"Remove :{space}."
        raise EncoderError(error.what, where=folder, expected=error.expected, todo=todo) from None


def _from_folder(folder: Path, space: str | None, batch_size: int | None) -> Callable[[list[str]], Any]:
    from sightword import machine
    from sightword.compute import devices
    from sightword.encoder.arguments import LONGEST

    encoder = _load(folder, space, devices.use(machine.current()))
    return partial(encoder.encode, max_length=LONGEST, **_options(encoder.encode, batch_size))


def _from_module(module: str, name: str, called: bool, batch_size: int | None) -> Callable[[list[str]], Any]:
    where = f"{module}:{name}" + ("()" if called else "")
    try:
        found: Any = import_here(module)
    except ModuleNotFoundError as error:
        raise EncoderError(
            f"there is no module {error.name}", where=where, todo="Run it from the folder that holds it, or install it."
        ) from None
    except (ImportError, SyntaxError) as error:  # other errors of its code are shown as they are
        raise EncoderError(f"cannot be imported ({type(error).__name__}: {error})", where=where) from None
    try:
        found = operator.attrgetter(name)(found)
    except AttributeError:
        raise EncoderError(f"the module {module} has no {name}", where=where) from None
    if called:
        if not callable(found):
            raise EncoderError(f"is {type(found).__name__}, which cannot be called", where=where, todo="Remove the ().")
        if required := _required(found):
            raise EncoderError(f"cannot be called without {', '.join(required)}", where=where)
        found = found()
    if isinstance(found, type):
        raise EncoderError("is a class", where=where, todo="Put () behind it to make an object.")
    encode = getattr(found, "encode", found)
    if not callable(encode):
        expected = "a function, or an object with a method encode"
        raise EncoderError(f"is {type(found).__name__}", where=where, expected=expected)
    prepare = getattr(found, "prepare", None)
    return NamedEncoder(encode, prepare if callable(prepare) else None, _options(encode, batch_size))


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments without a default."""
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, one in _parameters(function).items() if one.default is one.empty and one.kind not in free]


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; none for a function in C that has no signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _options(encode: Callable[..., Any], batch_size: int | None) -> dict[str, Any]:
    """Return the keyword arguments of ``encode``: the batch size, where one is given."""
    if batch_size is None:
        return {}
    names = _parameters(encode)
    if "batch_size" not in names and not any(one.kind is one.VAR_KEYWORD for one in names.values()):
        raise EncoderError("the encoder takes no batch_size", todo="Leave the batch size out.")
    return {"batch_size": batch_size}
