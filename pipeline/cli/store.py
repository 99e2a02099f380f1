"""The commands that look after the store of features."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command
from sightword.errors import StoreError
from sightword.messages import size

if TYPE_CHECKING:
    from sightword.storage.maintenance import Kind
    from sightword.storage.store import Store

STORE = """\
Look after the store of computed features: stats, verify, prune.

The store remembers each feature that was ever computed, for all projects and
machines that share it, and the embeddings of `sightword search`;
SIGHTWORD_STORE names its folder, or its address in object storage such as
s3://bucket/prefix."""

STATS = "Show the kinds of features in the store: how many, how large, last used."

VERIFY = """\
Read every feature of the store and compare its checksum.

Exits with 1 when something is damaged. Runs leave damaged features out and
compute them again; prune takes them away."""

PRUNE = """\
Remove unwanted features from the store, and put the rest in order.

Without options it removes damaged features and what killed processes left a day
ago or more, and merges small files into large ones. With --remove or --unused
it also removes whole kinds of features. Others may use the store meanwhile: they
compute missing features again. Files of other users stay: their owners, or root,
can prune them. Exits with 1 when a kind that --remove names had to stay."""


def add(commands: Commands) -> None:
    """Add ``store`` with its own commands."""
    store = add_command(commands, "store", STORE, _stats)
    actions = store.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, description, run in (
        ("stats", STATS, _stats),
        ("verify", VERIFY, _verify),
        ("prune", PRUNE, _prune),
    ):
        action = add_command(actions, name, description, run)
        action.add_argument(
            "--store", metavar="PLACE", help="a folder or an address (default: SIGHTWORD_STORE, else in the cache)"
        )
    action.add_argument("--dry-run", action="store_true", help="only say what would be done")
    action.add_argument("--remove", metavar="NAME", default="", help="remove the one kind whose name begins so")
    action.add_argument("--unused", metavar="DAYS", type=float, help="remove kinds that were not used for DAYS days")
    action.add_argument("--others", action="store_true", help="what others made too, but where there is a sticky bit")


def _stats(arguments: argparse.Namespace) -> int:
    from sightword.storage import maintenance

    store = _open_store(arguments)
    print(store.place)
    for kind in maintenance.survey(store, read=False):
        _print_kind(kind)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from sightword.storage import maintenance

    store = _open_store(arguments)
    sound = damaged = 0
    for kind in maintenance.survey(store):
        sound += kind.features
        damaged += len(kind.damaged)
        for what in kind.damaged:
            print(f"damaged: {what}")
    print(f"{store.place}: {sound} features are sound, {damaged} places are damaged")
    return 1 if damaged else 0


def _prune(arguments: argparse.Namespace) -> int:
    from sightword.storage import maintenance

    if arguments.unused is not None and not 0 <= arguments.unused < float("inf"):
        arguments.parser.error("--unused DAYS is a number from 0")
    store = _open_store(arguments)
    dry, unused = arguments.dry_run, arguments.unused
    done = maintenance.prune(store, remove=arguments.remove, unused_days=unused, dry_run=dry, others=arguments.others)
    remove, merge = ("would remove", "would merge") if dry else ("removed", "merged")
    freed = "" if dry else f"; {size(done.bytes)} freed"
    removed = f"{remove} {done.kinds} kinds and {done.leftovers} leftovers"
    print(f"{store.place}: {removed}, {merge} {done.segments} segments{freed}")
    if done.others:
        print(f"{done.others} files of other users stay as they are; they can prune them, and so can root")
    return 1 if arguments.remove and not done.kinds else 0


def _open_store(arguments: argparse.Namespace) -> Store:
    from sightword import machine
    from sightword.storage.store import Store

    store = Store(arguments.store or machine.current().store)
    if not store.place.kinds():
        todo = "The stage features makes it at its first run."
        raise StoreError("there is no store here", where=store.place, todo=todo)
    return store


def _print_kind(kind: Kind) -> None:
    import datetime as dt

    identity = kind.identity
    used = dt.datetime.fromtimestamp(kind.used).astimezone()
    print(f"\n{kind.name}")
    if "embeddings" in identity:
        print("  embeddings for search, by the encoder {encoder:.12}, on {device}".format(**identity))
    elif "cropping" in identity:
        network = "{backbone} {feature_point}, weights {weights_sha256:.12}, {precision}, {kernel}, code {code:.12}"
        after = [f", {name}" for name in ("ReLU", "L2") if identity["cropping"][name.lower()]]
        print(f"  {network.format(**identity)}")
        print("  {crops} crop(s) of {crop}".format(**identity["cropping"]) + "".join(after))
    elif identity:
        print("  of another version of sightword, which computes other keys")
    noun = "embeddings" if "embeddings" in identity else "features"
    print(f"  {kind.features} {noun} in {kind.segments} segments, {size(kind.bytes)}, last used {used:%Y-%m-%d}")
    if kind.damaged:
        print(f"  {len(kind.damaged)} places are damaged: see `sightword store verify`")
