"""Opens what a search needs: the encoder, the collection, and the reader of new pictures."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sightword import machine
from sightword.errors import SearchError
from sightword.features.settings import is_weights_file  # without its packages, the public name names the extra
from sightword.io.files import sha256_file
from sightword.io.opening import is_inside
from sightword.io.saved import as_folder

if TYPE_CHECKING:
    from sightword.captions.table import CaptionTable
    from sightword.features.tables.table import FeatureTable
    from sightword.io.files import Pathish
    from sightword.search.query import Query
    from sightword.search.searcher import Floats, Searcher


@dataclass(frozen=True)
class Table:
    """The features of a project's pictures, as a collection to search."""

    features: Pathish
    captions: Pathish | None = None
    split: str | None = None
    """Only the pictures of this split."""


def open_search(
    encoder: str,
    collection: Pathish | Table,
    *,
    weights: Pathish | None = None,
    weights_folder: Pathish | None = None,
    named: Sequence[str] = (),
    read: bool = True,
) -> Searcher:
    """Open an encoder and the pictures to search; what is wrong with files and ids is reported before torch is loaded.

    The network, the device and the store of features are those of this machine's settings.

    Args:
        encoder: the name or the folder of an encoder.
        collection: a folder of picture files (``~`` is the home folder), or a table of features.
        weights: the file of the image network's weights, or a folder in place of ``weights_folder``; of several
            networks, the file is of the one with its sha256. None: the file in ``weights_folder``, if it is there.
        weights_folder: a folder of such files, by the names that features have for them.
        named: ids of the collection or paths of picture files, which must be there.
        read: read the pictures of the folder before the return, with a bar on a terminal; False leaves that to
            :meth:`Searcher.read_pictures`.

    Returns:
        The searcher: :meth:`Searcher.pictures` finds pictures, and :attr:`Searcher.vectors` are their embeddings.

    Raises:
        SearchError: something is not there, or none of the pictures can be used; and errors of the encoder, of the
            files, of the weights and of the store.
    """
    from sightword.encoder.by_name import folder_and_space
    from sightword.encoder.pretrained import find_encoder, require_encoder
    from sightword.search.catalogue import build
    from sightword.search.picture_files import list_pictures
    from sightword.storage.store import Store

    settings = machine.current()
    folder, space = folder_and_space(encoder)
    if space is None:
        folder = find_encoder(encoder)
    require_encoder(folder)
    own_weights = as_folder(weights, SearchError, "file") if weights else None
    if own_weights and own_weights.is_dir():
        own_weights, weights_folder = None, own_weights
    if own_weights and not own_weights.is_file():
        raise SearchError("there is no such file of weights", where=own_weights)
    if isinstance(collection, Table):
        place = Path(collection.features)
        features, captions = _read(collection)
        ids = features.image_ids
    else:
        place, captions = as_folder(collection, SearchError), None
        sources = list_pictures(place)
        ids = [source.image_id for source in sources]
    if missing := [name for name in named if not is_file(name)]:
        catalogue = build(ids, captions, collection.split if isinstance(collection, Table) else None)
        for name in missing:
            catalogue.find(name)

    from sightword.compute import devices
    from sightword.encoder.by_name import open_with_pictures
    from sightword.features.tables.origin import parts_of
    from sightword.search.searcher import KeptCaptions, Searcher

    device, store = devices.use(settings, deterministic=False), Store(settings.store)
    model = open_with_pictures(folder if space is None else encoder, device=device)
    trained = features.attributes if isinstance(collection, Table) else model.notes.get("features") or {}
    parts = parts_of(trained)
    files = _weights_files(parts, own_weights, weights_folder)
    options: dict[str, Any] = {"where": place, "threads": settings.threads, "weights": files}
    if isinstance(collection, Table):
        kept = KeptCaptions(store, folder, device.type)
        return Searcher(model, features, captions, split=collection.split, kept=kept, **options)

    from sightword.search.collection import JoinedFolder, PictureFolder, Reading
    from sightword.search.networks import NamedNetwork

    networks = [NamedNetwork(*pair) for pair in zip(parts, files, strict=True)]
    reading = Reading(device, store, settings.workers)

    def of(*, quick: bool) -> PictureFolder:
        if len(networks) > 1:
            return JoinedFolder(str(place), sources, networks, reading, trained, quick=quick)
        return PictureFolder(str(place), sources, networks[0], reading, quick=quick)

    pictures = of(quick=False)
    is_one_crop = all(network.transform.crops == "one" for network in networks)
    quick = None if is_one_crop else functools.partial(of, quick=True)
    searcher = Searcher(model, pictures, quick=quick, **options)
    if read:
        searcher.read_pictures(progress=True)
    return searcher


def _weights_files(parts: Sequence[Mapping[str, Any]], own: Path | None, folder: Pathish | None) -> list[Path | None]:
    """Return the file with the weights of each network: the user's ``own``, one in the folder, or None."""
    if own and len(parts) == 1:
        return [own]
    given = sha256_file(own) if own else ""
    hashes = [str(part.get("weights_sha256", "")) for part in parts]
    if own and given not in hashes:
        what, todo = f"has the sha256 {given}, and none of the networks' weights has", "Give the file of one of them."
        raise SearchError(what, where=own, expected=" or ".join(filter(None, hashes)), todo=todo)
    names = [str(part.get("weights", "")) for part in parts]
    inside = [is_weights_file(name) and is_inside(PurePosixPath(name).as_posix()) for name in names]  # without `./`
    files = [Path(folder, name) if folder and fits else None for name, fits in zip(names, inside, strict=True)]
    return [
        own if own and sha256 == given else file if file and file.is_file() else None
        for file, sha256 in zip(files, hashes, strict=True)
    ]


def _read(of: Table) -> tuple[FeatureTable, CaptionTable | None]:
    from sightword.captions.table import read_texts, sealed_pictures
    from sightword.features.tables.table import read_features, without

    features = Path(of.features)
    if of.captions is None and of.split:
        todo = "Give the captions, such as data/captions/captions.parquet."
        raise SearchError("without captions the splits are not known", todo=todo)
    if not features.exists():
        todo = "Name a folder of pictures (--collection FOLDER), or run `dvc repro` in a project."
        raise SearchError("there are no features of pictures to search", where=features, todo=todo)
    table = read_features(features)
    if of.captions is None:
        return table, None
    texts = read_texts(of.captions)
    return without(table, sealed_pictures(of.captions)), texts


def is_file(name: str) -> bool:
    """Return whether a text is the path of a file; a sentence is none, however long."""
    try:
        return Path(name).is_file()
    except OSError:  # too long for a path
        return False


def find_picture(name: str, searcher: Searcher) -> int | Floats:
    """Return the row of a picture of the collection, or the features (D,) of a picture file; else a SearchError."""
    if name in searcher.catalogue.rows or name in searcher.rejected or not is_file(name):
        return searcher.row(name)
    data = searcher.uploads.read(Path(name))
    row = searcher.uploads.row(data)
    return searcher.uploads.features(data, Path(name)) if row is None else row


def find_operands(names: Mapping[str, str], searcher: Searcher) -> list[Query | int | Floats]:
    """Return the operands of :meth:`Searcher.combined` for sentences, ids and paths, by their names in messages.

    A sentence is what is neither a picture nor named like one. A SearchError tells what cannot be used.
    """
    from sightword.corpus.listing import PICTURE_SUFFIXES
    from sightword.search.query import check_query

    return [
        find_picture(thing, searcher)
        if thing in searcher.catalogue.rows or is_file(thing) or thing.lower().endswith(PICTURE_SUFFIXES)
        else check_query(thing, searcher.encoder.vocabulary, name)
        for name, thing in names.items()
    ]
