"""The command that searches pictures by a sentence, and captions by a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.command import Commands, add_command

if TYPE_CHECKING:
    import torch

    from sightword.search.searcher import CaptionAnswer, Searcher
    from sightword.search.thumbnails import Thumbnails
    from sightword.search.uploads import UploadedPictures

SEARCH = """\
Find pictures by a sentence, or captions by a picture.

ENCODER is the folder of an encoder. With QUERY, the command prints the best pictures
with their scores; without QUERY, it reads sentences from standard input, one a line.
--picture finds captions by a picture. --serve shows both kinds of search as a page in
the browser, for this machine alone.

  sightword search models/encoder "a dog runs in the snow"
  sightword search models/encoder --picture 1000268201_693b08cb0e.jpg
  sightword search models/encoder --serve"""

FEATURES = Path("data/features/features.h5")
CAPTIONS = Path("data/captions/captions.parquet")
PICTURES = Path("data/resized")
PORT = 8377
_HOST = "127.0.0.1"
_TOP = 10
_WIDE = 60


def add(commands: Commands) -> None:
    """Add ``search``."""
    parser = add_command(commands, "search", SEARCH, _search, extra="search")
    parser.add_argument(
        "encoder", metavar="ENCODER", type=Path, help="the folder of an encoder, such as models/encoder"
    )
    parser.add_argument("query", metavar="QUERY", nargs="?", help="a sentence (default: lines of standard input)")
    parser.add_argument(
        "--features", metavar="FILE", type=Path, default=FEATURES, help="features of the pictures (%(default)s)"
    )
    parser.add_argument(
        "--captions", metavar="FILE", type=Path, help=f"captions of the pictures (default: {CAPTIONS}, if it exists)"
    )
    parser.add_argument("--split", choices=("train", "dev", "test"), help="search only this split")
    parser.add_argument("--top", metavar="N", type=int, help=f"number of answers (default: {_TOP}; on the page 24)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each query")
    parser.add_argument("--picture", metavar="ID", help="find captions by this picture: an id, or a picture file")
    parser.add_argument("--weights", metavar="FILE", type=Path, help="for new pictures: the image network's weights")
    page = parser.add_argument_group("the page")
    page.add_argument("--serve", action="store_true", help="serve a page to search with")
    page.add_argument("--port", metavar="N", type=int, help=f"port of the page (default: {PORT}; 0 for any free port)")
    page.add_argument("--host", metavar="HOST", help=f"address of the page (default: {_HOST}, for this machine alone)")
    page.add_argument(
        "--pictures", metavar="FOLDER", type=Path,
        help=f"shards of the stage resize, or picture files named by their ids (default: {PICTURES}, if it exists)",
    )  # fmt: skip
    _let_query_come_last(parser)


def _let_query_come_last(parser: argparse.ArgumentParser) -> None:
    """Accept ``ENCODER --top 5 QUERY``: argparse alone needs an optional positional right after the first."""
    plain = parser.parse_known_args

    def mixed(
        args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        vars(parser)["parse_known_args"] = plain  # which the other calls
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            vars(parser)["parse_known_args"] = mixed

    vars(parser)["parse_known_args"] = mixed


def _search(arguments: argparse.Namespace) -> int:
    _check(arguments)
    if arguments.serve:
        return _serve(arguments)
    from sightword.errors import SearchError

    if arguments.query is not None:
        _refuse_bad(arguments.query)
    device = _device()
    if arguments.picture is not None:
        return _captions(arguments, device)
    searcher = _searcher(arguments, device)
    _print_notes(searcher.notes)
    top = arguments.top or _TOP
    if arguments.query is not None:
        _print_pictures(searcher, arguments.query, top, as_json=arguments.json)
        return 0
    failed = 0
    for line in _lines():
        try:
            text = line.decode() if isinstance(line, bytes) else line
            _print_pictures(searcher, text, top, as_json=arguments.json)
        except UnicodeDecodeError as error:
            failed += 1
            print(f"sightword: the query is not valid UTF-8 (byte {error.start + 1})", file=sys.stderr)
        except SearchError as error:
            failed += 1
            print(f"sightword: {error}", file=sys.stderr)
        sys.stdout.flush()
    return 1 if failed and not sys.stdin.isatty() else 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that exclude each other or have no effect."""
    parser = arguments.parser
    if arguments.top is not None and not 1 <= arguments.top <= 1000:
        parser.error("--top N must be from 1 to 1000")
    if arguments.serve and (arguments.query is not None or arguments.picture is not None or arguments.json):
        parser.error("--serve takes its queries from the page: leave QUERY, --picture and --json out")
    if arguments.query is not None and arguments.picture is not None:
        parser.error("either QUERY or --picture")
    if not arguments.serve:
        for name in ("port", "host", "pictures"):
            if getattr(arguments, name) is not None:
                parser.error(f"--{name} goes with --serve")
        if arguments.weights is not None and arguments.picture is None:
            parser.error("--weights goes with --picture or --serve")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        parser.error("--port N must be from 0 to 65535")


def _refuse_bad(query: str) -> None:
    """Refuse a bad query before the encoder is loaded."""
    from sightword.search.query import check_text

    check_text(query)


def _device() -> torch.device:
    from sightword import devices, machine

    return devices.use(machine.current(), deterministic=False)


def _searcher(arguments: argparse.Namespace, device: torch.device) -> Searcher:
    from sightword import machine
    from sightword.captions.table import read_texts
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.errors import SearchError
    from sightword.features.table import read_features
    from sightword.search.searcher import Searcher

    encoder = SentenceEncoder.load(arguments.encoder, device=device)
    captions = arguments.captions or (CAPTIONS if CAPTIONS.is_file() else None)
    if captions is None and arguments.split is not None:
        raise SearchError("without captions the splits are not known", todo=f"Give --captions {CAPTIONS}.")
    return Searcher(
        encoder,
        read_features(arguments.features),
        None if captions is None else read_texts(captions),
        where=arguments.features,
        split=arguments.split,
        threads=machine.current().threads,
    )


def _uploads(arguments: argparse.Namespace, searcher: Searcher, device: torch.device) -> UploadedPictures:
    from sightword.search.uploads import UploadedPictures

    return UploadedPictures(searcher.attributes, searcher.rows_of_files, weights=arguments.weights, device=device)


def _lines() -> Iterator[str | bytes]:
    """Yield queries from standard input: with a prompt on a terminal, else the lines that are not empty."""
    if not sys.stdin.isatty():
        for line in sys.stdin.buffer:
            if line.strip():
                yield line.rstrip(b"\r\n")
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


def _print_pictures(searcher: Searcher, text: str, top: int, *, as_json: bool) -> None:
    answer = searcher.pictures(text, top)
    own = searcher.catalogue.captions_of
    if as_json:
        _print_json(
            {
                "query": answer.query.text,
                "unknown": list(answer.query.unknown),
                "similarity": searcher.encoder.similarity_name,
                "pictures": [
                    {"id": hit.picture, "score": hit.score, "captions": own.get(hit.picture, [])} for hit in answer.hits
                ],
            }
        )
        return
    _print_notes([answer.query.note])
    width = max((len(_plain(hit.picture)) for hit in answer.hits), default=0)
    for place, hit in enumerate(answer.hits, start=1):
        first = _plain(own.get(hit.picture, [""])[0])
        shown = first if len(first) <= _WIDE else f"{first[: _WIDE - 1]}…"
        print(f"{place:4}  {hit.score:8.4f}  {_plain(hit.picture):{width}}  {shown}".rstrip())


def _captions(arguments: argparse.Namespace, device: torch.device) -> int:
    """Print the captions that a picture finds."""
    searcher = _searcher(arguments, device)
    row = searcher.catalogue.row(arguments.picture)
    if row is None:
        path = Path(arguments.picture)
        if not path.is_file():
            searcher.catalogue.find(arguments.picture)  # says that there is none, and which are near
        uploads = _uploads(arguments, searcher, device)
        data = uploads.read(path)
        row = uploads.row(data)
        vector = searcher.embedding(uploads.features(data) if row is None else row)
    else:
        vector = searcher.embedding(row)
    _print_notes(searcher.notes)
    _read_captions(searcher)
    answer = searcher.captions(vector, arguments.top or _TOP)
    _print_captions(searcher, answer, None if row is None else searcher.catalogue.pictures[row], arguments)
    return 0


def _read_captions(searcher: Searcher) -> None:
    from tqdm import tqdm

    with tqdm(
        total=len(searcher.catalogue.captions), desc="captions", unit="caption", leave=False, disable=None
    ) as bar:
        searcher.read_captions(bar.update)


def _print_captions(
    searcher: Searcher, answer: CaptionAnswer, picture: str | None, arguments: argparse.Namespace
) -> None:
    if arguments.json:
        _print_json(
            {
                "picture": picture or arguments.picture,
                "similarity": searcher.encoder.similarity_name,
                "captions": [
                    {"text": hit.caption.text, "score": hit.score, "pictures": list(hit.caption.pictures)}
                    for hit in answer.hits
                ],
            }
        )
        return
    for place, hit in enumerate(answer.hits, start=1):
        own = "  (its own)" if picture in hit.caption.pictures else ""
        print(f"{place:4}  {hit.score:8.4f}  {_plain(hit.caption.text)}{own}")


def _serve(arguments: argparse.Namespace) -> int:
    import threading

    from sightword.search import serving
    from sightword.search.access import is_loopback
    from sightword.search.web import Parts, create_app

    host = arguments.host or _HOST
    with serving.listen(host, PORT if arguments.port is None else arguments.port) as listening:
        device = _device()
        searcher = _searcher(arguments, device)
        thumbnails, notes = _thumbnails(arguments, searcher)
        notes = [*searcher.notes, *notes]
        _print_notes(notes)
        top = {} if arguments.top is None else {"top": arguments.top}
        parts = Parts(searcher, thumbnails, _uploads(arguments, searcher, device), notes, **top)
        app = create_app(parts, host=host)
        if not is_loopback(host):
            _print_notes(
                [f"--host {host}: whoever reaches this machine sees the pictures and captions; no password is asked."]
            )
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
    found = open_pictures(folder)
    ids = searcher.catalogue.pictures
    count = sum(picture in found for picture in ids)
    notes = []
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


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=False))


def _plain(text: str) -> str:
    """Replace control characters, which could move the cursor of a terminal, by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)
