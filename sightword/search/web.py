"""The local page: a Flask application around a searcher."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from flask import Flask, Response, jsonify, render_template, request
from werkzeug.exceptions import HTTPException

from sightword.captions.units import split
from sightword.errors import SightwordError
from sightword.search.picture_files import Thumbnails
from sightword.search.query import shown
from sightword.search.searcher import MOST, WEAK, Floats, PictureHit, Searcher
from sightword.search.serving import HEADERS, MAX_BYTES, AccessPolicy

UPLOAD = "application/octet-stream"
"""The type of an uploaded picture, its bare bytes: a form on another site cannot send this type."""
_EXAMPLES, _EXAMPLE = 5, 55
_SENTENCES = (
    *("a dog runs through the snow", "children play in the water", "a man climbs a rock"),
    *("people sit around a table", "a boat on the sea"),
)
"""Examples for a collection without captions."""
_CAPTIONS, _ALIKE = 10, 8
"""Captions that a picture finds, and pictures like it."""


class Parts(NamedTuple):
    """The parts that the page shows."""

    searcher: Searcher
    thumbnails: Thumbnails | None
    notes: Sequence[str] = ()
    """Lines at the top of the page."""
    top: int = 24
    """Pictures that a sentence finds."""


def create_app(parts: Parts, *, host: str = "127.0.0.1") -> Flask:
    """Build the application for a server that listens on ``host``."""
    app = Flask("sightword.search", template_folder="templates", static_folder="static", static_url_path="/static")
    app.jinja_env.filters["shown"] = shown
    app.config["MAX_CONTENT_LENGTH"] = MAX_BYTES
    policy, version = AccessPolicy(host), secrets.token_hex(4)
    searcher, catalogue = parts.searcher, parts.searcher.catalogue
    files = [source.image_id for source in searcher.folder.sources] if searcher.folder else []

    @app.before_request
    def _keep_out() -> tuple[Response, int] | None:
        # First of all: nothing of a refused request is read.
        if not policy.names_this_machine(request.headers.get("Host")):
            return _error("this page answers to this machine's name only", todo="Open it by its IP address."), 403
        if policy.is_cross_site(request.headers, top_page=request.method == "GET" and request.path == "/"):
            return _error("another site may not ask this page"), 403
        return None

    @app.after_request
    def _add_headers(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    @app.errorhandler(HTTPException)
    def _http_error(error: HTTPException) -> tuple[Response, int]:
        code = error.code or 500
        messages = {
            404: "there is nothing here",
            413: f"the picture's file is larger than {MAX_BYTES >> 20} MB",
            500: "something went wrong; the terminal says what",
        }
        return _error(messages.get(code, error.name.lower())), code

    @app.errorhandler(SightwordError)
    def _own_error(error: SightwordError) -> tuple[Response, int]:
        return _error(error.what, expected=error.expected, todo=error.todo), 422

    @app.get("/")
    def page() -> str:
        return render_template(
            "search.html",
            pictures=searcher.pictures_read + searcher.pictures_left,
            captions=len(catalogue.captions),
            notes=parts.notes,
            examples=[(text, _typed(searcher, text)) for text in _examples(searcher)],
            obstacle=searcher.uploads.obstacle,
            copies_only=searcher.uploads.copies_only,
            version=version,
            largest=MAX_BYTES,
            most=MOST,
        )

    @app.get("/api/pictures")
    def pictures() -> Response:
        answer = searcher.pictures(request.args.get("q", ""), _top(parts.top))
        return jsonify(
            query=answer.query.text,
            note=" ".join(filter(None, [answer.query.note, WEAK * answer.weak])),
            weak=answer.weak,
            of=searcher.pictures_read,
            seconds=round(answer.seconds, 4),
            pictures=[_found(parts, hit) for hit in answer.hits],
        )

    @app.get("/api/some")
    def some_pictures() -> Response:  # spread evenly over all, also over those that are not read yet
        ids = files or catalogue.pictures
        places = dict.fromkeys(place * len(ids) // _top(parts.top) for place in range(_top(parts.top))) if ids else ()
        pictures = [(place, catalogue.rows.get(ids[place])) for place in places]
        return jsonify(
            of=len(ids),
            pictures=[
                {"id": ids[place], "image": f"/files/{place}", "captions": []} if row is None else about(parts, row)
                for place, row in pictures
                if ids[place] not in searcher.rejected
            ],
        )

    @app.get("/api/picture")
    def one_picture() -> Response:
        row = searcher.row(request.args.get("picture", ""))
        return _answer(parts, row, searcher.embedding(row), row)

    @app.post("/api/picture")
    def uploaded_picture() -> tuple[Response, int] | Response:
        if request.mimetype != UPLOAD:
            return _error("a picture must be sent as bare bytes", expected=UPLOAD), 415
        data = request.get_data(cache=False)
        row = searcher.uploads.row(data)
        features = searcher.uploads.features(data) if row is None else row
        return _answer(parts, row, searcher.embedding(features), features)

    @app.get("/api/progress")
    def progress() -> Response:
        return jsonify(
            pictures={"read": searcher.pictures_read, "left": searcher.pictures_left},
            captions={"read": searcher.captions_read, "of": len(catalogue.captions)},
            quick=searcher.pictures_quick,
            unusable=len(searcher.rejected),
            problem=searcher.problem,
        )

    @app.get("/pictures/<int:row>")  # by number: a request never becomes a path
    def picture(row: int) -> tuple[Response, int] | Response:
        return _image(catalogue.pictures, row)

    @app.get("/files/<int:place>")
    def file(place: int) -> tuple[Response, int] | Response:
        return _image(files, place)

    def _image(ids: Sequence[str], place: int) -> tuple[Response, int] | Response:
        if place >= len(ids) or parts.thumbnails is None:
            return _error("there is no such picture"), 404
        data = parts.thumbnails.get(ids[place])
        if data is None:
            return _error("there is no file of this picture"), 404
        return Response(data, mimetype="image/webp", headers={"Cache-Control": "private, max-age=3600"})

    return app


def _error(what: str, *, expected: str | None = None, todo: str | None = None) -> Response:
    text = f"{what}; expected {expected}" if expected else what
    return jsonify(error=f"{text[:1].upper()}{text[1:]}.", todo=todo or "")


def _top(default: int) -> int:
    """Return the number of answers that the request asks for, from 1 to ``MOST``."""
    return max(1, min(request.args.get("top", default, type=int), MOST))


def _answer(parts: Parts, row: int | None, vector: Floats, picture: int | Floats) -> Response:
    """Return the captions and the pictures that a picture finds; ``row`` is None for a picture from elsewhere."""
    searcher = parts.searcher
    catalogue = searcher.catalogue
    hits = searcher.captions(vector, _top(_CAPTIONS)) if catalogue.captions else []
    own = None if row is None else catalogue.pictures[row]
    return jsonify(
        picture=None if row is None else about(parts, row),
        read=searcher.captions_read,  # fewer than "of" while captions are still being embedded
        of=len(catalogue.captions),
        problem=searcher.problem,
        captions=[
            {
                "text": shown(caption.text),
                "query": _typed(searcher, caption.text),
                "score": score,
                "own": own in caption.pictures,
            }
            for caption, score in hits
        ],
        pictures=[_found(parts, hit) for hit in searcher.combined([picture], _ALIKE, how="max")],
    )


def _typed(searcher: Searcher, text: str) -> str:
    """Return a caption as a query, without a full stop that the encoder adds."""
    adds = searcher.encoder.vocabulary.normalise.full_stop == "add"
    return text.removesuffix(" .") if adds else text


def _found(parts: Parts, hit: PictureHit) -> dict[str, Any]:
    """Describe a picture that was found."""
    return {**about(parts, hit.row), "score": hit.score, "share": round(hit.share, 4)}


def about(parts: Parts, row: int) -> dict[str, Any]:
    """Describe the picture in a row; without the key ``split``, it is not read yet."""
    catalogue = parts.searcher.catalogue
    picture = catalogue.pictures[row]
    return {
        "id": picture,
        "image": f"/pictures/{row}" if parts.thumbnails is not None and picture in parts.thumbnails else "",
        "split": catalogue.splits.get(picture, ""),
        "captions": [shown(text) for text in catalogue.captions_of.get(picture, [])],
    }


def _examples(searcher: Searcher) -> list[str]:
    """Return short captions, spread evenly over those of test, else of all; without captions, readable sentences."""
    splits = searcher.catalogue.splits
    short = [one for one in searcher.catalogue.captions if 10 <= len(one.text) <= _EXAMPLE]
    short = [one for one in short if splits.get(one.pictures[0]) == "test"] or short
    step = max(1, len(short) // _EXAMPLES)
    vocabulary = searcher.encoder.vocabulary
    known = {*vocabulary.tokens}
    general = [one for one in _SENTENCES if known.issuperset(split(vocabulary.normalise(one), vocabulary.unit))]
    return [one.text for one in short[step // 2 :: step][:_EXAMPLES]] or general
