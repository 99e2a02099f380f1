"""The command that fetches published data sets and weights, and lists the pictures of a bucket."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, columns, refuse
from sightword.errors import DownloadError, SetupError
from sightword.machine import is_address
from sightword.messages import and_more, plural, size, without_credentials

if TYPE_CHECKING:
    from pipeline.downloads.fetching import Order, Outcome
    from pipeline.downloads.sources import DataSet, Source

FETCH = """\
Fetch published data sets and weights, and put them where the stages read them.

Without NAME, print what can be fetched, with sizes and what is there already. NAME is
flickr8k, flickr30k, coco, multi30k, senteval, snli, stsb-multi-mt, wordnet or weights.
After weights, networks may be named (resnet152, or resnet152:IMAGENET1K_V2); default: the one of
params.yaml. A download that was cut resumes if the file's hash is known. Data sets behind a form
are listed with their address, and the rest is fetched. --mirror names a folder or an address that
holds NAME/FILE.

NAME may be the address of pictures or tar shards: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
az://CONTAINER/PREFIX for all objects, or a file of a web server, https://HOST/00001.tar;
{00000..00099} stands for all numbers of a range. Then --to FILE.csv gets a listing: name, address,
size and version (ETag) of each object. corpus.pictures names the listing; the stages read
the objects where they are, and stop at another version."""


def add(commands: Commands) -> None:
    """Add ``fetch``."""
    fetch = add_command(commands, "fetch", FETCH, _fetch)
    fetch.add_argument("names", metavar="NAME", nargs="*", help="what to fetch (default: print what there is)")
    fetch.add_argument("--only", metavar="PART", nargs="+", default=[], help="only these parts of a data set")
    fetch.add_argument("--dry-run", action="store_true", help="only print what would be fetched, and from where")
    fetch.add_argument("--mirror", metavar="PLACE", default="", help="a folder or an address to try first")
    fetch.add_argument("--keep", action="store_true", help="keep the archives, in the folder downloads")
    to = "instead of data/raw of the project (weights: torch's cache); for addresses, the FILE.csv to write"
    fetch.add_argument("--to", metavar="FOLDER", help=to)


def _fetch(arguments: argparse.Namespace) -> int:
    names = arguments.names
    addresses = [name for name in names if is_address(name)]
    options = [one for one in ("only", "dry_run", "mirror", "keep") if getattr(arguments, one)]
    option = f"--{''.join(options[:1])}".replace("_", "-")
    listing = (arguments.to or "").endswith(".csv")
    refuse(
        arguments,
        (options and not names, f"{option} of what? Give a NAME"),
        (addresses and options, f"{option} does not go with an address"),
        (addresses and len(addresses) < len(names), "addresses and data sets are two commands"),
        (addresses and not listing, "an address needs --to FILE.csv, such as data/raw/mine/pictures.csv"),
        (arguments.only and len(set(names)) > 1, "--only needs a single NAME"),
    )
    if addresses:
        return _list_objects(addresses, arguments.to)
    if not names:
        return _list(arguments)
    unreached: set[str] = set()
    complete = [_fetch_set(arguments, *one, unreached) for one in _wanted(arguments)]
    return 0 if all(complete) else 1


def _list_objects(addresses: list[str], to: str) -> int:
    from sightword.places.place import objects, write_listing

    listed = objects(addresses)
    write_listing(to, listed)
    total = sum(place.part.length or 0 for place in listed.values() if place.part)
    print(f"{to}: {plural(len(listed), 'object')}, {size(total)}")
    return 0


def _wanted(arguments: argparse.Namespace) -> list[tuple[DataSet, list[Source]]]:
    """Return each data set with the files to fetch."""
    from pipeline.downloads.sources import WEIGHTS, find

    names = list(dict.fromkeys(arguments.names))
    if names[0] != WEIGHTS:
        return [(find(name), _weights([]) if name == WEIGHTS else find(name).choose(arguments.only)) for name in names]
    if arguments.only:
        arguments.parser.error("weights have no parts: name the networks")
    return [(find(WEIGHTS), _weights(names[1:]))]


def _fetch_set(arguments: argparse.Namespace, data_set: DataSet, sources: list[Source], unreached: set[str]) -> bool:
    """Fetch one data set and report; return whether all files are there in the end.

    A missing network is told once: ``unreached`` has the hosts that other files were looked for in vain.
    """
    from pipeline.downloads import fetching
    from sightword.io.transfer import NoConnectionError

    if not sources:
        return True
    order = replace(_order(arguments, data_set), unreached=unreached)
    print(f"{data_set.name}: {data_set.what}\n  terms: {data_set.terms}\n  page: {data_set.page}")
    if arguments.dry_run:
        return not [source for source in sources if not _foresee(source, order)]
    failed, fresh = 0, False
    alike: list[str] = []
    for source in sources:
        told = bool(unreached)
        try:
            outcome = fetching.fetch(source, order)
        except DownloadError as error:
            failed += 1
            if told and isinstance(error, NoConnectionError):
                alike.append(source.file)
                continue
            print(f"  {source.part}: failed", flush=True)
            print(f"sightword: {error}", file=sys.stderr)
            continue
        fresh |= outcome.state == "fetched"
        failed += outcome.state == "to ask for"
        print(*_outcome(source, order, outcome), sep="\n", flush=True)
    if alike:
        what = f"{data_set.name}: {plural(len(alike), 'other file')} for the same reason: {and_more(alike, 9)}"
        print(f"sightword: {what}. --dry-run has the addresses.", file=sys.stderr)
    if failed:
        print(f"{data_set.name}: {failed} of {len(sources)} files are not there yet")
    elif fresh and data_set.folder:
        print(f"Next: dvc add {_short(order.target)}")
    return not failed


def _outcome(source: Source, order: Order, outcome: Outcome) -> Iterator[str]:
    """Yield the lines on one file."""
    if outcome.state == "to ask for":
        yield f"  {source.part}: {source.file} must be asked for. {source.request}"
        yield f"    Put it at {_short(order.working / source.file)} and run this again."
    elif outcome.state == "there":
        yield f"  {source.part}: {source.file}: there already"
    else:
        yield f"  {source.part}: {source.what}: in {_short(order.target)}, from {outcome.address}"
        if not outcome.checked:
            yield f"    {source.file} has the sha256 {outcome.sha256}; no other was known to compare it with"


def _foresee(source: Source, order: Order) -> bool:
    """Print where a file would come from; return whether it could be fetched."""
    if not source.missing(order.target):
        print(f"  {source.part}: {source.file}: there already")
        return True
    at_hand = order.working / source.file
    places = [str(at_hand)] if at_hand.is_file() else [without_credentials(one) for one in order.candidates(source)]
    where = f"from {', else '.join(places)}" if places else f"must be asked for. {source.request}"
    print(f"  {source.part}: {source.file} ({_size(source) or 'size unknown'}) {where}")
    return bool(places)


def _list(arguments: argparse.Namespace) -> int:
    from pipeline.downloads.sources import WEIGHTS, data_sets

    lines = [["name", "part", "what", "size", "state"]]
    for data_set in data_sets().values():
        try:
            target: Path | None = _order(arguments, data_set).target
        except SetupError:  # outside of a project nothing is there
            target = None
        for (part, what), group in groupby(data_set.sources, key=lambda source: (source.part, source.what)):
            source, *others = group
            states = {one.state(target) if target else "missing" for one in (source, *others)}
            state: str = states.pop() if len(states) == 1 else "partly"
            if state != "there" and source.request:
                state += ", to be asked for"
            elif state != "there" and (source.optional or data_set.name == WEIGHTS):
                state += ", fetched where named"
            lines.append(
                [data_set.name, part, what, plural(1 + len(others), "file") if others else _size(source), state]
            )
    print(columns(lines))
    return 0


def _order(arguments: argparse.Namespace, data_set: DataSet) -> Order:
    from pipeline.downloads.fetching import Order
    from pipeline.downloads.sources import WEIGHTS
    from sightword.io.saved import as_folder

    if data_set.name == WEIGHTS:
        target = as_folder(arguments.to, SetupError).absolute() if arguments.to else torch_checkpoints()
    else:
        target = _raw(arguments) / data_set.folder
    mirror = arguments.mirror
    if mirror.startswith("~"):  # a shell leaves it behind =
        mirror = str(as_folder(mirror, SetupError))
    return Order(data_set.name, target, mirror, arguments.keep, progress=sys.stderr.isatty())


def _raw(arguments: argparse.Namespace) -> Path:
    from pipeline.pipelines import find_project
    from sightword.io.saved import as_folder

    if arguments.to:
        return as_folder(arguments.to, SetupError).absolute()
    try:
        return find_project(Path.cwd()) / "data" / "raw"
    except SetupError as error:
        raise SetupError(error.what, where=error.where, todo=f"{error.todo} Or name a folder with --to.") from None


def torch_checkpoints() -> Path:
    """Return the folder of torch.hub's published weights, without an import of torch, which takes seconds."""
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(caches, "torch"))  # noqa: PTH118 - as torch joins them
    return Path(home).expanduser().absolute() / "hub" / "checkpoints"


_KINDS = {"package": "weights of a package", "random": "random weights"}


def _weights(networks: list[str]) -> list[Source]:
    if networks:
        named = [network.partition(":") for network in networks]
        return [_published(backbone, weights or "IMAGENET1K_V1") for backbone, _, weights in named]
    from pipeline.params import params_file
    from pipeline.pipelines import find_project
    from sightword.features.settings import HUB, PACKAGE, RANDOM, FeaturesSettings, is_weights_file

    project = find_project(Path.cwd())
    settings = params_file.load(project / "params.yaml")["features"]
    assert isinstance(settings, FeaturesSettings)
    path = project / settings.inputs / settings.weights
    if settings.source == "precomputed" or settings.weights in (PACKAGE, RANDOM):
        kind = "precomputed features" if settings.source == "precomputed" else _KINDS[settings.weights]
        print(f"weights: params.yaml takes {kind}, which need no download; name a network to fetch its weights")
    elif settings.weights == HUB:
        from sightword.features.networks import find_backbone
        from sightword.features.weights import Weights

        Weights(find_backbone(settings.backbone, settings.feature_point), HUB)
        print(f"weights: {settings.backbone} is in the cache of its library")
    elif not is_weights_file(settings.weights):
        return [_published(settings.backbone, settings.weights)]
    elif path.is_file():
        print(f"weights: params.yaml takes {_short(path)}, which is there")
    else:
        what = "params.yaml names this file, and no address of it is known"
        raise DownloadError(what, where=path, todo="Put it there.")
    return []


def _published(backbone: str, weights: str) -> Source:
    """Return the source in the table, or the one that torchvision publishes."""
    from pipeline.downloads.sources import WEIGHTS, Source, find

    for source in find(WEIGHTS).sources:
        if (backbone, weights) == (source.part, source.what):
            return source
    from sightword.features import vision

    if backbone not in vision.classifiers():
        raise DownloadError("torchvision has no such image network", where=backbone)
    entries = {entry.name: entry.url for entry in vision.models.get_model_weights(backbone)}
    if weights not in entries:
        what = f"torchvision publishes no such weights for {backbone}"
        raise DownloadError(what, where=weights, expected=" or ".join(entries))
    url: str = entries[weights]
    return Source(part=backbone, what=weights, file=url.rpartition("/")[2], urls=[url])


def _size(source: Source) -> str:
    if source.size is not None:
        return size(source.size)
    return "" if source.about is None else f"about {size(source.about)}"


def _short(path: Path) -> str:
    """Return a path below the current folder as a relative one."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
