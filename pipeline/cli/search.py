"""The command that searches pictures by a sentence, and captions by a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.command import Commands, add_command, refuse

if TYPE_CHECKING:
    import torch

    from sightword.search.searcher import Floats, How, PictureHit, Searcher
    from sightword.search.thumbnails import Thumbnails
    from sightword.search.uploads import UploadedPictures

SEARCH = """\
Find pictures by a sentence, or captions by a picture.

ENCODER is an encoder that comes with Sightword (flickr8k), an address of one, or the
folder of an encoder: of the first pipeline, or with the space visual
(models/grounded/cm-0). With QUERY, the command prints the best pictures
with their scores; without QUERY, it reads sentences from standard input, one a line.
--picture finds captions by a picture. --max finds pictures of several things at
once, and --min pictures of what several things have in common, by order-embeddings
(Vendrov et al. 2016); each thing is a sentence, a picture of the collection or a
picture file. --serve shows both kinds of search in a browser on this machine alone.

  sightword search models/encoder "a dog runs in the snow"
  sightword search models/encoder --picture 1000268201_693b08cb0e.jpg
  sightword search models/encoder --max "a dog" "snow"
  sightword search models/encoder --serve"""

FEATURES = Path("data/features/features.h5")
CAPTIONS = Path("data/captions/captions.parquet")
PICTURES = Path("data/resized")
PORT = 8377
_HOST = "127.0.0.1"
_TOP = 10
_WIDE = 60
_SUM = "This encoder was not trained for an order: the sum of the embeddings, at length 1, stands for the maximum."
_HOW_ELSE = {
    ("cosine", "max"): _SUM,
    ("dot", "max"): _SUM,
    ("reversed_order", "max"): "The order of this encoder is reversed: the elementwise minimum composes.",
    ("reversed_order", "min"): "The order of this encoder is reversed: the elementwise maximum abstracts.",
}
"""Where another operation than the option's name is used."""
_OPERATIONS = {"order": {"max": "maximum", "min": "minimum"}, "reversed_order": {"max": "minimum", "min": "maximum"}}
"""The elementwise operation of an option by the similarity; other encoders compose by the sum."""


def add(commands: Commands) -> None:
    """Add ``search``."""
    parser = add_command(commands, "search", SEARCH, _search, extra="search")
    encoder = "flickr8k, or the folder of an encoder, such as models/encoder"
    features = "features of the pictures (%(default)s)"
    captions = f"captions of the pictures (default: {CAPTIONS}, if it exists)"
    pictures = f"shards of the stage resize, or picture files named by their ids (default: {PICTURES}, if it exists)"
    parser.add_argument("encoder", metavar="ENCODER", help=encoder)
    parser.add_argument("query", metavar="QUERY", nargs="?", help="a sentence (default: lines of standard input)")
    parser.add_argument("--features", metavar="FILE", type=Path, default=FEATURES, help=features)
    parser.add_argument("--captions", metavar="FILE", type=Path, help=captions)
    parser.add_argument("--split", choices=("train", "dev", "test"), help="search only this split")
    parser.add_argument("--top", metavar="N", type=int, help=f"number of answers (default: {_TOP}; on the page 24)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each query")
    parser.add_argument("--picture", metavar="ID", help="find captions by this picture: an id, or a picture file")
    parser.add_argument("--weights", metavar="FILE", type=Path, help="for new pictures: the image network's weights")
    composed = "pictures of all of these: sentences, ids of pictures, or picture files"
    parser.add_argument("--max", metavar="THING", nargs="+", help=composed)
    parser.add_argument("--min", metavar="THING", nargs="+", help="pictures of what all of these have in common")
    page = parser.add_argument_group("the page")
    page.add_argument("--serve", action="store_true", help="serve a page to search with")
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
    from sightword import devices, machine
    from sightword.errors import SearchError
    from sightword.search.query import check_text

    with_query, with_picture = arguments.query is not None, arguments.picture is not None
    combined = [things for things in (arguments.max, arguments.min) if things is not None]
    from_page = "--serve takes its queries from the page: leave QUERY, --picture, --max, --min and --json out"
    pictured = with_picture or combined or arguments.serve
    of_page = [name for name in ("port", "host", "pictures") if getattr(arguments, name) is not None]
    refuse(
        arguments,
        (not 1 <= (arguments.top or 1) <= 1000 or arguments.top == 0, "--top N must be from 1 to 1000"),
        (arguments.serve and (with_query or with_picture or combined or arguments.json), from_page),
        (with_query + with_picture + len(combined) > 1, "one of QUERY, --picture, --max and --min"),
        (any(len(things) < 2 for things in combined), "--max and --min combine at least two THINGs"),
        (of_page and not arguments.serve, f"--{''.join(of_page[:1])} goes with --serve"),
        (arguments.weights and not pictured, "--weights goes with --picture, --max, --min or --serve"),
        (not 0 <= (arguments.port or 0) <= 65535, "--port N must be from 0 to 65535"),
    )
    for text, name in [(arguments.query, "the query")] if with_query else _named(*combined):
        check_text(text, name)  # before the encoder is loaded
    if arguments.serve:
        return _serve(arguments)
    device = devices.use(machine.current(), deterministic=False)
    searcher = _searcher(arguments, device)
    if arguments.picture is not None:
        return _captions(arguments, searcher, device)
    _print_notes(searcher.notes)
    if combined:
        return _combined(arguments, searcher, device)
    failed = 0
    for line in _lines() if arguments.query is None else [arguments.query]:
        try:
            _print_pictures(searcher, line.decode() if isinstance(line, bytes) else line, arguments)
        except (UnicodeDecodeError, SearchError) as error:
            if arguments.query is not None:
                raise
            failed += 1
            place = f" (byte {error.start + 1})" if isinstance(error, UnicodeDecodeError) else ""
            print(f"sightword: {f'the query is not valid UTF-8{place}' if place else error}", file=sys.stderr)
        sys.stdout.flush()
    return 1 if failed and not sys.stdin.isatty() else 0


def _searcher(arguments: argparse.Namespace, device: torch.device) -> Searcher:
    from sightword import machine
    from sightword.captions.table import read_texts
    from sightword.encoder.visual import open_beside_pictures
    from sightword.errors import SearchError
    from sightword.features.table import read_features
    from sightword.search.searcher import Searcher

    encoder = open_beside_pictures(arguments.encoder, device=device)
    captions = arguments.captions or (CAPTIONS if CAPTIONS.is_file() else None)
    if captions is None and arguments.split is not None:
        raise SearchError("without captions the splits are not known", todo=f"Give --captions {CAPTIONS}.")
    features, texts = read_features(arguments.features), None if captions is None else read_texts(captions)
    place, threads = arguments.features, machine.current().threads
    return Searcher(encoder, features, texts, where=place, split=arguments.split, threads=threads)


def _uploads(arguments: argparse.Namespace, searcher: Searcher, device: torch.device) -> UploadedPictures:
    from sightword.search.uploads import UploadedPictures

    return UploadedPictures(searcher.attributes, searcher.rows_of_files, weights=arguments.weights, device=device)


def _lines() -> Iterator[str | bytes]:
    """Yield queries from standard input: with a prompt on a terminal, else the lines that are not empty."""
    if not sys.stdin.isatty():
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer if line.strip())
        return
    import readline  # noqa: F401 - lets the terminal's line be edited, and earlier ones come back

    print("Type a sentence; an empty line ends.", file=sys.stderr)
    while True:
        try:
            line = input("> ")
        except EOFError:
            print(file=sys.stderr)
            return
        except UnicodeDecodeError:
            yield b"\xff"
            continue
        if not line.strip():
            return
        yield line


def _print_pictures(searcher: Searcher, text: str, arguments: argparse.Namespace) -> None:
    answer = searcher.pictures(text, arguments.top or _TOP)
    if arguments.json:
        first = {"query": answer.query.text, "unknown": list(answer.query.unknown)}
        _print_json(searcher, first, _as_json(searcher, answer.hits))
        return
    _print_notes([answer.query.note])
    _print_hits(searcher, answer.hits)


def _print_hits(searcher: Searcher, hits: list[PictureHit]) -> None:
    own = searcher.catalogue.captions_of
    width = max((len(_plain(hit.picture)) for hit in hits), default=0)
    for place, hit in enumerate(hits, start=1):
        shown = _short(_plain(own.get(hit.picture, [""])[0]))
        print(f"{place:4}  {hit.score:8.4f}  {_plain(hit.picture):{width}}  {shown}".rstrip())


def _as_json(searcher: Searcher, hits: list[PictureHit]) -> dict[str, Any]:
    own = searcher.catalogue.captions_of
    return {"pictures": [{"id": hit.picture, "score": hit.score, "captions": own.get(hit.picture, [])} for hit in hits]}


def _combined(arguments: argparse.Namespace, searcher: Searcher, device: torch.device) -> int:
    """Print the pictures that several sentences or pictures find together."""
    from sightword.search.query import Query, check_query
    from sightword.search.thumbnails import SUFFIXES

    how: How = "min" if arguments.max is None else "max"
    similarity, vocabulary = searcher.encoder.similarity_name, searcher.encoder.vocabulary
    uploads = _uploads(arguments, searcher, device)
    things = arguments.max or arguments.min
    operands = [
        _picture(thing, searcher, uploads)
        # A name of a picture file is no sentence, even where there is no such file.
        if thing in searcher.catalogue.rows or _is_file(thing) or thing.lower().endswith(SUFFIXES)
        else check_query(thing, vocabulary, name)
        for thing, name in _named(things)
    ]
    hits = searcher.combined(operands, arguments.top or _TOP, how=how)
    sentences = [one for one in operands if isinstance(one, Query)]
    unknown = list(dict.fromkeys(token for one in sentences for token in one.unknown))
    _print_notes([_HOW_ELSE.get((similarity, how), "")])
    if arguments.json:
        used = _OPERATIONS.get(similarity, {"max": "sum"})[how]
        _print_json(searcher, {how: things, "operation": used, "unknown": unknown}, _as_json(searcher, hits))
        return 0
    _print_notes([one.note for one in sentences])
    _print_hits(searcher, hits)
    return 0


def _named(things: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the THINGs of an option, each with its name in messages."""
    return [(thing, f"THING {place} ({_short(thing)!r})") for place, thing in enumerate(things, start=1)]


def _picture(name: str, searcher: Searcher, uploads: UploadedPictures) -> int | Floats:
    """Return the row of a picture of the collection, or the features of a picture file."""
    row = searcher.catalogue.rows.get(name)
    if row is not None:
        return row
    path = Path(name)
    if not _is_file(name):
        searcher.catalogue.find(name)  # reports the unknown id, with ids like it
    data = uploads.read(path)
    row = uploads.row(data)
    return uploads.features(data) if row is None else row


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # a sentence may be too long for a path
        return False


def _captions(arguments: argparse.Namespace, searcher: Searcher, device: torch.device) -> int:
    """Print the captions that a picture finds."""
    from tqdm import tqdm

    catalogue = searcher.catalogue
    shown = _picture(arguments.picture, searcher, _uploads(arguments, searcher, device))
    vector = searcher.embedding(shown)
    _print_notes(searcher.notes)
    with tqdm(total=len(catalogue.captions), desc="captions", unit="caption", leave=False, disable=None) as bar:
        searcher.read_captions(bar.update)
    found = searcher.captions(vector, arguments.top or _TOP)
    picture = catalogue.pictures[shown] if isinstance(shown, int) else None
    if arguments.json:
        hits = [{"text": one.text, "score": score, "pictures": list(one.pictures)} for one, score in found]
        _print_json(searcher, {"picture": picture or arguments.picture}, {"captions": hits})
        return 0
    for place, (caption, score) in enumerate(found, start=1):
        own = "  (its own)" if picture in caption.pictures else ""
        print(f"{place:4}  {score:8.4f}  {_plain(caption.text)}{own}")
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    import threading

    from sightword import devices, machine
    from sightword.search import serving
    from sightword.search.access import is_loopback
    from sightword.search.web import Parts, create_app

    host = arguments.host or _HOST
    with serving.listen(host, PORT if arguments.port is None else arguments.port) as listening:
        device = devices.use(machine.current(), deterministic=False)
        searcher = _searcher(arguments, device)
        thumbnails, notes = _thumbnails(arguments, searcher)
        notes = [*searcher.notes, *notes]
        top = {} if arguments.top is None else {"top": arguments.top}
        parts = Parts(searcher, thumbnails, _uploads(arguments, searcher, device), notes, **top)
        app = create_app(parts, host=host)
        open_to = f"--host {host}: whoever reaches this machine sees the pictures and captions; no password is asked."
        _print_notes(notes if is_loopback(host) else [*notes, open_to])
        stop = threading.Event()
        reader = threading.Thread(target=searcher.keep_reading, args=[stop], daemon=True)

        def ready() -> None:
            print(f"{serving.address(listening)}  (Ctrl-C ends)", flush=True)
            reader.start()

        try:
            serving.serve(app, listening, ready)
        finally:
            stop.set()
            if reader.is_alive():
                reader.join()  # a thread in the middle of a product cannot be left behind
        return 0


def _thumbnails(arguments: argparse.Namespace, searcher: Searcher) -> tuple[Thumbnails | None, list[str]]:
    """Open the pictures, and return notes about missing ones."""
    from sightword.search.thumbnails import open_pictures

    folder = arguments.pictures or PICTURES
    if arguments.pictures is None and not folder.is_dir():
        return None, [f"There is no {folder}, so captions stand for the pictures (--pictures FOLDER)."]
    found, ids, notes = open_pictures(folder), searcher.catalogue.pictures, []
    count = sum(picture in found for picture in ids)
    if not count:
        notes.append(f"{folder} holds none of these pictures: captions stand for them.")
    elif count < len(ids):
        notes.append(f"{folder} holds {count:,} of {len(ids):,} pictures: captions stand for the others.")
    others = found.others(searcher.files)
    if others:
        notes.append(f"{others:,} pictures in {folder} are not those that the features were made of.")
    return (found if count else None), notes


def _print_notes(notes: list[str]) -> None:
    for note in filter(None, notes):
        print(f"note: {note}", file=sys.stderr)


def _print_json(searcher: Searcher, first: dict[str, Any], last: dict[str, Any]) -> None:
    print(json.dumps({**first, "similarity": searcher.encoder.similarity_name, **last}, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def _plain(text: str) -> str:
    """Replace control characters, which could move the cursor of a terminal, by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)
