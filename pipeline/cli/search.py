"""The command that searches pictures by a sentence, and captions by a picture."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.cli.command import Commands, add_command, refuse
from sightword.messages import quote

if TYPE_CHECKING:
    from io import BufferedReader

    from sightword.errors import SearchError
    from sightword.search.catalogue import Caption
    from sightword.search.picture_files import Thumbnails
    from sightword.search.query import Query
    from sightword.search.searcher import How, PictureHit, Searcher

SEARCH = """\
Find pictures by a sentence, or captions by a picture.

ENCODER is an encoder that comes with Sightword (flickr8k, or multi30k for English and
German), owner/name of the Hugging Face hub, or the folder of an encoder: of the first
pipeline, or with the space visual (models/grounded/cm-0). --collection searches a
folder of photographs: features are computed once and kept in the store
(SIGHTWORD_STORE), and Ctrl-C loses nothing that was computed. Many new pictures are
searched by their centre crop, in a tenth of the time; --serve and --index-only then
compute all crops. Without --collection the pictures of the project are searched.
--serve opens a page to search with, for browsers on this machine alone, while pictures
are still read.

With QUERY, the command prints the best pictures with their scores, the cosine or minus
the error of an order; without QUERY, it reads sentences from standard input, one a
line. --picture finds captions by a picture, --like pictures by a picture. --max finds
pictures of several things at once, and --min pictures of what several things have in
common, by order-embeddings (Vendrov et al. 2016); each thing is a sentence, a picture
of the collection or a picture file.

  sightword search flickr8k --collection ~/Pictures --serve
  sightword search flickr8k --collection ~/Pictures "a dog runs in the snow"
  sightword search multi30k --collection ~/Pictures "zwei Hunde im Schnee"
  sightword search models/encoder --max "a dog" "snow"
  sightword search models/encoder --picture 1000268201_693b08cb0e.jpg"""

FEATURES = Path("data/features/features.h5")
CAPTIONS = Path("data/captions/captions.parquet")
WEIGHTS = Path("data/raw/features")
PICTURES = Path("data/resized")
PORT = 8377
_HOST = "127.0.0.1"
_TOP = 10
_TOGETHER = 1 << 12  # bytes of queries that are answered together


def add(commands: Commands) -> None:
    """Add ``search``."""
    parser = add_command(commands, "search", SEARCH, _search, extra="search")
    encoder = "flickr8k, multi30k, owner/name of the Hugging Face hub, or a folder, such as models/encoder"
    features = f"features of the pictures ({FEATURES})"
    collection = "a folder of photographs to search, whose features are computed as the encoder's were"
    captions = f"captions of the pictures (default: {CAPTIONS}, if it exists)"
    pictures = f"shards of the stage resize, or picture files named by their ids (default: {PICTURES}, if it exists)"
    weights = f"for new pictures: the image network's weights, a file or a folder of files (default: {WEIGHTS})"
    parser.add_argument("encoder", metavar="ENCODER", help=encoder)
    parser.add_argument("query", metavar="QUERY", nargs="?", help="a sentence (default: lines of standard input)")
    parser.add_argument("--features", metavar="FILE", type=Path, help=features)
    parser.add_argument("--collection", metavar="FOLDER", type=Path, help=collection)
    parser.add_argument("--captions", metavar="FILE", type=Path, help=captions)
    parser.add_argument("--split", choices=("train", "dev", "test"), help="search only this split")
    parser.add_argument("--top", metavar="N", type=int, help=f"number of answers (default: {_TOP}; on the page 24)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each query")
    parser.add_argument("--picture", metavar="ID", help="find a project's captions by this picture: an id, or a file")
    parser.add_argument("--like", metavar="ID", help="find pictures like this picture: an id, or a picture file")
    parser.add_argument("--weights", metavar="PATH", type=Path, help=weights)
    composed = "pictures of all of these: sentences, ids of pictures, or picture files"
    parser.add_argument("--index-only", action="store_true", help="read the pictures of --collection by all crops")
    parser.add_argument(
        "--copy-to", metavar="FOLDER", type=Path, help="copy the answers of --collection into a new folder"
    )
    parser.add_argument("--max", metavar="THING", nargs="+", help=composed)
    parser.add_argument("--min", metavar="THING", nargs="+", help="pictures of what all of these have in common")
    page = parser.add_argument_group("the page")
    page.add_argument("--serve", action="store_true", help="serve a page to search with")
    page.add_argument("--no-browser", action="store_true", help="print the address of the page, and do not open it")
    page.add_argument("--port", metavar="N", type=int, help=f"port of the page (default: {PORT}; 0 for any free port)")
    page.add_argument("--host", metavar="HOST", help=f"address of the page (default: {_HOST}, for this machine alone)")
    page.add_argument("--pictures", metavar="FOLDER", type=Path, help=pictures)
    _let_query_come_last(parser)


def _let_query_come_last(parser: argparse.ArgumentParser) -> None:
    """Accept ``ENCODER --top 5 QUERY``: argparse alone needs an optional positional right after the first."""

    def mixed(*given: Any) -> tuple[argparse.Namespace, list[str]]:
        del vars(parser)["parse_known_args"]  # the class's own, which the next line calls
        return parser.parse_known_intermixed_args(*given)

    vars(parser)["parse_known_args"] = mixed


def _search(arguments: argparse.Namespace) -> int:
    from sightword.errors import SearchError
    from sightword.io.modules import leave_pandas
    from sightword.io.saved import as_folder
    from sightword.search.query import check_text

    leave_pandas()
    combined = arguments.max or arguments.min or []
    _check(arguments, combined)
    for name in ("captions", "collection", "copy_to", "features", "pictures", "weights"):
        if (given := getattr(arguments, name)) is not None:
            setattr(arguments, name, as_folder(given, SearchError))  # a shell leaves ~ behind = as it is
    texts = _named(combined) if arguments.query is None else {"the query": arguments.query}
    for name, text in texts.items():
        check_text(text, name)  # before the encoder is loaded
    if arguments.serve:
        return _serve(arguments)
    searcher = _open(arguments)
    if arguments.copy_to:
        if arguments.copy_to.resolve().is_relative_to(arguments.collection.resolve()):
            raise SearchError("is in the collection", where=arguments.copy_to, expected="a folder elsewhere")
        arguments.copy_to.mkdir(parents=True, exist_ok=True)
        if any(arguments.copy_to.iterdir()):
            raise SearchError("holds files already", where=arguments.copy_to, expected="a new or empty folder")
    _read_pictures(searcher, quickly=not arguments.index_only)
    if arguments.index_only:
        print(f"sightword: {searcher.pictures_read:,} pictures can be searched", file=sys.stderr)
        return 0
    if arguments.picture is not None:
        return _captions(arguments, searcher)
    print_notes(searcher.notes)
    if arguments.like is not None:
        return _like(arguments, searcher)
    if combined:
        return _combined(arguments, combined, searcher)
    return _sentences(arguments, searcher)


def _check(arguments: argparse.Namespace, combined: Sequence[str]) -> None:
    """Refuse options that do not go together."""
    queries = [arguments.query, arguments.picture, arguments.like, arguments.max, arguments.min]
    asked = sum(one is not None for one in queries)
    from_page = "--serve takes its queries from the page: leave QUERY, --picture, --like, --max, --min, --json out"
    copies = "--copy-to goes with --collection, and without --serve and --index-only"
    only = "--index-only goes with --collection, and without a query and --serve"
    pictured = arguments.picture or arguments.like or combined or arguments.serve or arguments.collection
    given = [name for name, value in vars(arguments).items() if value is not None]
    of_page = [name for name in ("port", "host", "pictures") if name in given]
    of_project = [name for name in ("features", "captions", "split", "pictures") if name in given]
    refuse(
        arguments,
        (not 1 <= (arguments.top or 1) <= 1000 or arguments.top == 0, "--top N must be from 1 to 1000"),
        (arguments.serve and (asked or arguments.json), from_page),
        (asked > 1, "one of QUERY, --picture, --like, --max and --min"),
        (len(combined) == 1, "--max and --min combine at least two THINGs"),
        (of_page and not arguments.serve, f"--{''.join(of_page[:1])} goes with --serve"),
        (arguments.collection and of_project, f"--{''.join(of_project[:1])} does not go with --collection"),
        (arguments.collection and arguments.picture, "--collection has no captions: use --like"),
        (arguments.copy_to and (arguments.serve or arguments.index_only or not arguments.collection), copies),
        (arguments.index_only and (asked or arguments.serve or not arguments.collection), only),
        (arguments.no_browser and not arguments.serve, "--no-browser goes with --serve"),
        (arguments.weights and not pictured, "--weights goes with a picture, --collection or --serve"),
        (not 0 <= (arguments.port or 0) <= 65535, "--port N must be from 0 to 65535"),
    )


def _open(arguments: argparse.Namespace) -> Searcher:
    """Open the encoder and the collection, at the project's places unless named."""
    from sightword.corpus.listing import PICTURE_SUFFIXES
    from sightword.search.opening import Table, open_search

    captions = arguments.captions or (CAPTIONS if CAPTIONS.is_file() else None)
    named = [name for name in (arguments.picture, arguments.like) if name is not None]
    named += [thing for thing in arguments.max or arguments.min or [] if thing.lower().endswith(PICTURE_SUFFIXES)]
    table = Table(arguments.features or FEATURES, captions, arguments.split)
    options = {"weights": arguments.weights, "weights_folder": WEIGHTS, "named": named, "read": False}
    return open_search(arguments.encoder, arguments.collection or table, **options)


def _read_pictures(searcher: Searcher, *, quickly: bool) -> None:
    """Read the pictures of a folder, whole or until Ctrl-C."""
    try:
        if quickly and searcher.read_quickly(progress=True):
            print_notes(["The centre crops are compared; --index-only computes all crops, which find a little better."])
        else:
            searcher.read_pictures(progress=True)
    except KeyboardInterrupt:
        told = f"{searcher.pictures_read:,} pictures can be searched, {searcher.pictures_left:,} are left"
        print(f"sightword: {told}; what was computed is kept, and the same command continues.", file=sys.stderr)
        raise


def _sentences(arguments: argparse.Namespace, searcher: Searcher) -> int:
    """Print the pictures that the query finds, or each line of standard input."""
    from sightword.errors import SearchError
    from sightword.search.query import check_query
    from sightword.search.searcher import WEAK

    def checked(line: str | bytes) -> Query | UnicodeDecodeError | SearchError:
        try:
            return check_query(line.decode() if isinstance(line, bytes) else line, searcher.encoder.vocabulary)
        except (UnicodeDecodeError, SearchError) as error:
            if arguments.query is not None:
                raise
            return error

    printer = Printer(arguments, searcher, headed=arguments.query is None and not sys.stdin.isatty())
    failed = 0
    for lines in _lines() if arguments.query is None else [[arguments.query]]:
        queries = [checked(line) for line in lines]
        good = [query for query in queries if not isinstance(query, Exception)]
        answers = iter(searcher.answers(good, arguments.top or _TOP) if good else [])
        for query in queries:
            if isinstance(query, Exception):
                failed += 1
                place = f" (byte {query.start + 1})" if isinstance(query, UnicodeDecodeError) else ""
                print(f"sightword: {f'the query is not valid UTF-8{place}' if place else query}", file=sys.stderr)
            else:
                answer = next(answers)
                first = {"query": query.text, "unknown": list(query.unknown), "weak": answer.weak}
                printer.pictures(query.text, answer.hits, first, notes=[query.note, WEAK * answer.weak])
            print(end="", flush=True)
    return 1 if failed and not sys.stdin.isatty() else 0


def _lines() -> Iterator[list[bytes]]:
    """Yield the whole lines of standard input that are there by now, without empty ones."""
    if sys.stdin.isatty():
        print("Type a sentence; Ctrl-D ends.", file=sys.stderr)
    reader = cast("BufferedReader", sys.stdin.buffer)
    begun = b""  # a line whose end is not there yet
    while some := reader.read1(_TOGETHER):
        *lines, begun = (begun + some).split(b"\n")
        yield [line.rstrip(b"\r") for line in lines if line.strip()]
    yield [begun] if begun.strip() else []


def _like(arguments: argparse.Namespace, searcher: Searcher) -> int:
    """Print the pictures that are like a picture."""
    from sightword.search.opening import find_picture

    hits = searcher.combined([find_picture(arguments.like, searcher)], arguments.top or _TOP, how="max")
    Printer(arguments, searcher).pictures(arguments.like, hits, {"like": arguments.like})
    return 0


def _combined(arguments: argparse.Namespace, things: Sequence[str], searcher: Searcher) -> int:
    """Print the pictures that several sentences or pictures find together."""
    from sightword.search.opening import find_operands
    from sightword.search.query import Query, operation

    how: How = "min" if arguments.max is None else "max"
    operands = find_operands(_named(things), searcher)
    hits = searcher.combined(operands, arguments.top or _TOP, how=how)
    sentences = [one for one in operands if isinstance(one, Query)]
    unknown = list(dict.fromkeys(token for one in sentences for token in one.unknown))
    used, note = operation(searcher.encoder.similarity_name, how)
    print_notes([note])
    first = {how: things, "operation": used, "unknown": unknown}
    notes = [one.note for one in sentences]
    Printer(arguments, searcher).pictures(f"{how}: {' + '.join(things)}", hits, first, notes=notes)
    return 0


def _named(things: Sequence[str]) -> dict[str, str]:
    """Return the THINGs of an option by their names in messages."""
    return {f"THING {place} ({quote(thing)})": thing for place, thing in enumerate(things, start=1)}


def _captions(arguments: argparse.Namespace, searcher: Searcher) -> int:
    """Print the captions that a picture finds."""
    from tqdm import tqdm

    from sightword.search.opening import find_picture

    catalogue = searcher.catalogue
    shown = find_picture(arguments.picture, searcher)
    vector = searcher.embedding(shown)
    print_notes(searcher.notes)
    with tqdm(total=len(catalogue.captions), desc="captions", unit="caption", leave=False, disable=None) as bar:
        searcher.read_captions(bar.update)
    captions = searcher.captions(vector, arguments.top or _TOP)
    picture = catalogue.pictures[shown] if isinstance(shown, int) else None
    Printer(arguments, searcher).captions(arguments.picture, picture, captions)
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    import threading
    import webbrowser

    from sightword.search import serving
    from sightword.search.picture_files import Thumbnails
    from sightword.search.serving import is_loopback, keep_reading
    from sightword.search.web import Parts, create_app

    host = arguments.host or _HOST
    with serving.listen(host, PORT if arguments.port is None else arguments.port) as listening:
        folder = arguments.collection or arguments.pictures or (PICTURES if PICTURES.is_dir() else None)
        files = None if folder is None else Thumbnails(folder)
        print("Loading the encoder …", file=sys.stderr, flush=True)
        searcher = _open(arguments)
        thumbnails, notes = _thumbnails(folder, files, searcher)
        notes = [*searcher.notes, *notes]
        top = {} if arguments.top is None else {"top": arguments.top}
        parts = Parts(searcher, thumbnails, notes, **top)
        app = create_app(parts, host=host)
        open_to = f"--host {host}: whoever reaches this machine sees the pictures and captions; no password is asked."
        print_notes(notes if is_loopback(host) else [*notes, open_to])
        stop = threading.Event()
        reader = threading.Thread(target=keep_reading, args=[searcher, stop], kwargs={"progress": True}, daemon=True)

        def ready() -> None:
            page = serving.address(listening)
            print(f"{page}  (Ctrl-C ends)", flush=True)
            reader.start()
            # without a display the browser would be one of the terminal's
            if not arguments.no_browser and (
                sys.platform != "linux" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}
            ):
                threading.Thread(target=webbrowser.open, args=[page], daemon=True).start()  # it may wait for the page

        try:
            serving.serve(app, listening, ready)
        finally:
            stop.set()
            if reader.is_alive():
                reader.join()  # a thread in the middle of a product cannot be left behind
        return 0


def _thumbnails(
    folder: Path | None, files: Thumbnails | None, searcher: Searcher
) -> tuple[Thumbnails | None, list[str]]:
    """Return the pictures to show, and notes about missing ones."""
    ids, notes = searcher.catalogue.pictures, []
    give = "--pictures FOLDER names a folder of picture files"
    if files is None:
        return None, [f"There is no {PICTURES}, so captions stand for the pictures: {give}."]
    if searcher.folder is not None:
        return files, []
    count = sum(picture in files for picture in ids)
    if not count:
        notes.append(f"{folder} holds none of these pictures, so captions stand for them: {give}.")
    elif count < len(ids):
        notes.append(f"{folder} holds {count:,} of {len(ids):,} pictures, so captions stand for the others.")
    return (files if count else None), notes


class Printer:
    """Prints answers as text, or as JSON with the option ``--json``; ``headed`` texts begin with their query."""

    def __init__(self, arguments: argparse.Namespace, searcher: Searcher, *, headed: bool = False) -> None:
        self._json, self._searcher, self._headed = arguments.json, searcher, headed
        self._from, self._to = arguments.collection, arguments.copy_to
        self._answers = self._copies = 0

    def pictures(
        self, query: str, hits: Sequence[PictureHit], first: dict[str, Any], *, notes: Sequence[str] = ()
    ) -> None:
        """Print pictures; ``first`` are the first values of the object in JSON, ``notes`` stand above a text."""
        from sightword.search.query import shown

        for hit in hits if self._to else ():
            self._copies += 1
            shutil.copy2(self._from / hit.picture, self._to / f"{self._copies:03d} {Path(hit.picture).name}")
        captions, splits = self._searcher.catalogue.captions_of, self._searcher.catalogue.splits
        if self._json:
            pictures = []
            for hit in hits:
                more = {"split": splits.get(hit.picture), "captions": captions.get(hit.picture, [])}
                pictures.append({"id": hit.picture, "score": hit.score, **more})
            self._print_json(first, {"pictures": pictures})
            return
        if self._headed:
            print(f"{'' if not self._answers else chr(10)}{_plain(query)}", flush=True)  # before notes
        print_notes(notes)
        wide = max((len(_plain(hit.picture)) for hit in hits), default=0)
        widest = max(map(len, splits.values()), default=0)
        for place, hit in enumerate(hits, start=1):
            split = f"  {splits.get(hit.picture, ''):{widest}}" if splits else ""
            caption = shown(next(iter(captions.get(hit.picture, [])), ""))
            print(f"{place:4}  {hit.score:8.4f}{split}  {_plain(hit.picture):{wide}}  {_plain(caption)}".rstrip())
        self._answers += 1

    def captions(self, name: str, picture: str | None, captions: Sequence[tuple[Caption, float]]) -> None:
        """Print the captions that a picture found: one of the collection, or the file ``name``."""
        from sightword.search.query import shown

        if self._json:
            hits = [{"text": one.text, "score": score, "pictures": list(one.pictures)} for one, score in captions]
            self._print_json({"picture": picture or name}, {"captions": hits})
            return
        for place, (caption, score) in enumerate(captions, start=1):
            own = "  (its own)" if picture in caption.pictures else ""
            print(f"{place:4}  {score:8.4f}  {_plain(shown(caption.text))}{own}")

    def _print_json(self, first: dict[str, Any], last: dict[str, Any]) -> None:
        similarity = self._searcher.encoder.similarity_name
        print(json.dumps({**first, "similarity": similarity, **last}, ensure_ascii=False))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error; empty ones are left out."""
    for note in filter(None, notes):
        print(f"note: {note}", file=sys.stderr)


def _plain(text: str) -> str:
    """Replace control characters, which could move the cursor of a terminal, by spaces; letters keep their joiners."""
    from sightword.captions.units import is_mark

    return "".join(character if character.isprintable() or is_mark(character) else " " for character in text)
