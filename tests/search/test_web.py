"""The page's application, asked directly: what it answers, and all that it refuses."""

from __future__ import annotations

import csv
import io
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from PIL import Image
from search_world import EVIL, INJECTION, bomb

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.search.collection import PictureFolder
from sightword.search.networks import NamedNetwork
from sightword.search.query import shown
from sightword.search.searcher import WEAK, Searcher
from sightword.search.serving import MAX_BYTES, keep_reading
from sightword.search.thumbnails import open_pictures
from sightword.search.web import Parts, create_app
from sightword.storage.store import Store

HOST = {"Host": "localhost:8377"}
UPLOAD = "application/octet-stream"


def get(client, path: str, **headers: str):
    return client.get(path, headers={**HOST, **headers})


def post(client, data: bytes, kind: str = UPLOAD, **headers: str):
    return client.post("/api/picture", data=data, content_type=kind, headers={**HOST, **headers})


def test_a_sentence_finds_what_the_searcher_finds(client, searcher):
    found = get(client, "/api/pictures?q=a+red+circle").get_json()
    expected = searcher.pictures("a red circle", 5)
    assert [picture["id"] for picture in found["pictures"]] == [hit.picture for hit in expected.hits]
    assert [picture["score"] for picture in found["pictures"]] == [hit.score for hit in expected.hits]
    assert (found["of"], found["weak"]) == (30, expected.weak)
    assert found["note"] == WEAK * expected.weak
    first = found["pictures"][0]
    assert first["captions"] == [shown(text) for text in searcher.catalogue.captions_of[first["id"]]]
    shares = [picture["share"] for picture in found["pictures"]]
    assert shares == sorted(shares, reverse=True) or searcher.encoder.similarity_name == "dot"
    assert all(0 <= share <= 1 for share in shares)
    assert first["split"] in ("train", "dev", "test")
    assert len(get(client, "/api/pictures?q=a&top=3").get_json()["pictures"]) == 3
    assert len(get(client, "/api/pictures?q=a&top=-3").get_json()["pictures"]) == 1
    assert len(get(client, "/api/pictures?q=a&top=many").get_json()["pictures"]) == 5


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "The query is empty"),
        ("a" * 100_000, "The query has 100,000 characters"),
        ("%D0%B4%D0%BE%D0%BC", "“д”"),
        ("%FF%FE", "No character of the query is known"),
    ],
)
def test_a_query_that_cannot_be_answered_is_told(client, query, said):
    answer = get(client, f"/api/pictures?q={query}")
    assert answer.status_code == 422
    assert answer.get_json()["error"].startswith(said) or said in answer.get_json()["error"]


def test_a_picture_of_the_collection_finds_captions(client, searcher):
    row = searcher.catalogue.find("scene-005.png")
    found = get(client, "/api/picture?picture=scene-005.png").get_json()
    expected = searcher.captions(searcher.embedding(row), 10)
    assert [caption["query"] for caption in found["captions"]] == [caption.text for caption, _ in expected]
    assert [caption["text"] for caption in found["captions"]] == [shown(caption.text) for caption, _ in expected]
    own = searcher.catalogue.captions_of["scene-005.png"]
    assert all(caption["own"] == (caption["query"] in own) for caption in found["captions"])
    alike = searcher.combined([row], 8, how="max")
    assert [picture["id"] for picture in found["pictures"]] == [hit.picture for hit in alike]
    assert "scene-005.png" not in [hit.picture for hit in alike]
    assert found["picture"]["row"] == row
    assert found["read"] == found["of"] == len(searcher.catalogue.captions)
    answer = get(client, "/api/picture?picture=scene-05.png")
    assert answer.status_code == 422
    assert "scene-005.png" in answer.get_json()["todo"]


def test_captions_are_shown_and_found_in_one_language(world):
    captions = world.captions()
    spoken = replace(captions, languages=["en" if number == 0 else "de" for number in captions.captions])
    searcher = Searcher(world.encoder(), world.table(), spoken)
    searcher.read_captions()
    client = create_app(Parts(searcher, None)).test_client()
    page = get(client, "/").get_data(as_text=True)
    assert all(f'<option value="{code}">{code} (' in page for code in ("de", "en"))
    for path in ("pictures?q=a+red+circle&", "some?"):
        found = get(client, f"/api/{path}language=de").get_json()["pictures"]
        assert all([text.startswith("there is") for text in picture["captions"]] == [True] for picture in found)
    row = searcher.catalogue.find("scene-005.png")
    ranked = [one for one, _ in searcher.captions(searcher.embedding(row), 1000) if "de" in one.languages]
    found = get(client, "/api/picture?picture=scene-005.png&language=de").get_json()
    assert [caption["query"] for caption in found["captions"]] == [one.text for one in ranked[:10]]
    table = get(client, "/api/captions.csv?picture=scene-005.png&language=de").get_data(as_text=True)
    assert [row["caption"] for row in csv.DictReader(io.StringIO(table))] == [one.text for one in ranked[:10]]
    refused = get(client, "/api/some?language=fr")
    assert (refused.status_code, refused.get_json()["error"]) == (
        422, "No caption is in the language 'fr'; expected de or en."
    )  # fmt: skip


def test_an_uploaded_picture_finds_what_its_features_find(client, world, searcher):
    data = (world.files / "scene-007.png").read_bytes()
    known = post(client, data).get_json()
    assert known["picture"]["id"] == "scene-007.png"
    with Image.open(io.BytesIO(data)) as image:
        buffer = io.BytesIO()
        image.save(buffer, "BMP")  # another file, the same pixels
    new = post(client, buffer.getvalue()).get_json()
    assert new["picture"] is None
    assert [caption["text"] for caption in new["captions"]] == [caption["text"] for caption in known["captions"]]
    alike = [picture["id"] for picture in known["pictures"]]
    others = [picture["id"] for picture in new["pictures"] if picture["id"] != "scene-007.png"]
    assert others == alike[: len(others)]
    assert len(others) >= 7


def test_uploads_that_are_too_large_no_picture_or_a_bomb_are_refused(client):
    assert post(client, b"0" * (MAX_BYTES + 1)).status_code == 413
    for data in (b"", b"GIF89a", bomb(30_000), b"<script>alert(1)</script>"):
        answer = post(client, data)
        assert answer.status_code == 422, data[:10]
        assert "cannot be used" in answer.get_json()["error"]
    for kind in ("multipart/form-data; boundary=x", "text/plain", "application/x-www-form-urlencoded", "image/png"):
        assert post(client, b"x", kind).status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "/pictures/../../etc/passwd", "/pictures/..%2f..%2fetc%2fpasswd", "/pictures/%2e%2e/1", "/pictures/-1",
        "/pictures/999999", "/pictures/99999999999999999999999999", "/pictures/1.0", "/pictures/",
        "/pictures/scene-001.png", "/static/../web.py", "/static/..%2fweb.py", "/static/%2e%2e/web.py",
        "/static//etc/passwd", "/static/", "/templates/search.html", "/etc/passwd", "//etc/passwd", "/api/", "/..",
    ],
)  # fmt: skip
def test_no_path_leads_to_another_file(client, path):
    answer = get(client, path)
    assert answer.status_code in (308, 404)
    assert b"root:" not in answer.data
    assert b"import" not in answer.data


@pytest.mark.parametrize("path", ["/", "/api/pictures?q=a", "/pictures/1", "/static/search.js", "/nowhere"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8377"},
        {**HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {**HOST, "Origin": "http://evil.example"},
    ],
)
def test_strangers_get_nothing(client, path, headers):
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    assert "error" in answer.get_json()


def test_a_stranger_cannot_upload(client, world):
    data = (world.files / "scene-007.png").read_bytes()
    assert post(client, data, Origin="http://evil.example").status_code == 403
    assert post(client, data, Origin="http://localhost:8377").status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/pictures?q=a", "/pictures/1", "/static/search.js", "/nowhere"])
def test_every_answer_keeps_the_browser_on_a_short_lead(client, path):
    answer = get(client, path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers
    answer.close()


def test_captions_notes_and_ids_stand_in_the_page_as_text(client, searcher):
    page = get(client, "/").get_data(as_text=True)
    assert "a &lt;b&gt;note&lt;/b&gt;" in page
    assert "<script>document" not in page
    found = get(client, f"/api/picture?picture={EVIL}")
    assert found.mimetype == "application/json"
    assert found.get_json()["picture"]["captions"][0] == INJECTION
    assert "http:" not in page.replace("http://www.w3.org", "")
    assert "https:" not in page


def test_pictures_are_shown_by_their_row(client, searcher):
    answer = get(client, f"/pictures/{searcher.catalogue.find(EVIL)}")
    with Image.open(io.BytesIO(answer.data)) as image:
        assert (image.format, min(image.size)) == ("WEBP", 64)


def test_without_captions_or_pictures_it_still_searches(world):
    bare = Searcher(world.encoder(), world.table())
    client = create_app(Parts(bare, None)).test_client()
    found = get(client, "/api/pictures?q=a").get_json()
    assert len(found["pictures"]) == 24
    assert not any(picture["captions"] or picture["shown"] for picture in found["pictures"])
    assert get(client, "/pictures/1").status_code == 404
    found = get(client, "/api/picture?picture=scene-001.png").get_json()
    assert (found["captions"], len(found["pictures"])) == ([], 8)
    assert "no captions to find" in get(client, "/api/captions.csv?picture=scene-001.png").get_json()["error"].lower()
    assert "<select" not in get(client, "/").get_data(as_text=True)
    assert get(client, "/").status_code == 200


def test_the_answer_says_while_captions_are_still_being_read(world):
    fresh = Searcher(world.encoder(), world.table(), world.captions())
    client = create_app(Parts(fresh, None)).test_client()
    found = get(client, "/api/picture?picture=scene-001.png").get_json()
    assert (found["read"], found["captions"]) == (0, [])
    fresh.read_captions()
    assert get(client, "/api/progress").get_json() == {
        "captions": {"read": found["of"], "of": found["of"]},
        "pictures": {"read": 30, "left": 0},
        "unusable": 0,
        "problem": "",
    }


def test_a_first_upload_beside_queries_and_the_reading_of_captions_changes_none_of_them(world, searcher):
    """The network of a first upload is built and traced while other threads run theirs."""
    expected = [[hit.score for hit in searcher.pictures(text, 5).hits] for text in ("a red circle", "a dog")]
    buffer = io.BytesIO()
    with Image.open(world.files / "scene-007.png") as image:
        image.save(buffer, "BMP")
    for _ in range(3):
        fresh = Searcher(world.encoder(), world.table(), world.captions())
        app = create_app(Parts(fresh, None, top=5))
        reader = threading.Thread(target=keep_reading, args=[fresh, threading.Event()])
        reader.start()
        with ThreadPoolExecutor(3) as pool:
            upload = pool.submit(lambda app=app: post(app.test_client(), buffer.getvalue()).status_code)
            queries = []
            while not upload.done() or not queries:
                both = [get(app.test_client(), f"/api/pictures?q={text}") for text in ("a+red+circle", "a+dog")]
                queries.append([[picture["score"] for picture in found.get_json()["pictures"]] for found in both])
        reader.join()
        assert upload.result() == 200
        assert all(query == expected for query in queries)
        assert fresh.captions_read == len(fresh.catalogue.captions)


def test_an_error_while_captions_are_read_is_reported_and_the_reading_goes_on(world, monkeypatch, caplog):
    fresh = Searcher(world.encoder(), world.table(), world.captions())
    encode, calls = SentenceEncoder.encode, []

    def failing(self, *arguments, **options):
        calls.append(True)
        if len(calls) in (2, 3):
            raise RuntimeError("no luck")
        return encode(self, *arguments, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", failing)
    monkeypatch.setattr("sightword.search.searcher._AT_ONCE", 10)
    reader = threading.Thread(target=keep_reading, args=[fresh, threading.Event()], kwargs={"pause": 0.01})
    reader.start()
    reader.join(30)
    assert get(create_app(Parts(fresh, None)).test_client(), "/api/progress").get_json()["captions"]["read"] == 25
    assert "failed at 10 of 25 (RuntimeError: no luck); trying again" in caplog.text
    assert fresh.problem == ""  # captions are read again
    assert len(calls) == 5


def test_an_unforeseen_fault_shows_nothing_of_the_inside(world, searcher, monkeypatch):
    monkeypatch.setattr(Searcher, "pictures", lambda *_: 1 / 0)
    app = create_app(Parts(searcher, None))
    answer = get(app.test_client(), "/api/pictures?q=a")
    assert answer.status_code == 500
    assert "ZeroDivision" not in json.dumps(answer.get_json())


@pytest.mark.parametrize("top", [1, 4, 30])
def test_a_split_has_the_best_of_its_own_pictures(client, searcher, top):
    every = searcher.pictures("a red circle", 30).hits
    for split in ("train", "dev", "test"):
        found = get(client, f"/api/pictures?q=a+red+circle&split={split}&top={top}").get_json()
        expected = [hit for hit in every if searcher.catalogue.splits[hit.picture] == split][:top]
        assert [picture["id"] for picture in found["pictures"]] == [hit.picture for hit in expected]
        assert [picture["score"] for picture in found["pictures"]] == [hit.score for hit in expected]
        assert found["of"] == 10
        some = get(client, f"/api/some?split={split}&top=3").get_json()
        assert {picture["split"] for picture in some["pictures"]} == {split}
    answer = get(client, "/api/pictures?q=a&split=val")
    assert answer.status_code == 422
    assert "expected train or dev or test" in answer.get_json()["error"]


def test_tables_are_csv_that_quotes_what_needs_it(client, searcher):
    answer = get(client, "/api/pictures.csv?q=a+%22red%22%2C+circle&top=30")
    assert answer.mimetype == "text/csv"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="pictures.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
    hits = searcher.pictures('a "red", circle', 30).hits
    assert [(row["picture"], float(row["score"])) for row in rows] == [(hit.picture, hit.score) for hit in hits]
    assert {row["query"] for row in rows} == {'a "red", circle'}
    assert [int(row["rank"]) for row in rows] == list(range(1, 31))
    evil = next(row for row in rows if row["picture"] == EVIL)
    assert evil["captions"].split(" | ") == searcher.catalogue.captions_of[EVIL]
    answer = get(client, "/api/captions.csv?picture=scene-005.png&top=60")
    captions = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
    found = searcher.captions(searcher.embedding(searcher.catalogue.find("scene-005.png")), 60)
    assert [row["caption"] for row in captions] == [caption.text for caption, _ in found]
    own = searcher.catalogue.captions_of["scene-005.png"]
    assert [row["caption"] in own for row in captions] == [row["own"] == "1" for row in captions]
    assert get(client, "/api/pictures.csv?q=").status_code == 422


def test_a_folder_is_searched_while_its_pictures_are_read(world, tmp_path):
    files = ["scene-003.png", "scene-004.png", "scene-005.png"]
    for name in files:
        shutil.copy(world.files / name, tmp_path)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    place = PictureFolder(
        tmp_path,
        NamedNetwork(world.encoder().notes["features"]),
        device=torch.device("cpu"),
        store=Store(tmp_path / ".store"),
    )
    fresh = Searcher(world.encoder(), place)
    client = create_app(Parts(fresh, open_pictures(tmp_path))).test_client()
    assert "4 pictures" in get(client, "/").get_data(as_text=True)
    assert get(client, "/api/pictures?q=a").get_json()["pictures"] == []
    assert get(client, "/api/some").get_json() == {"of": 0, "pictures": []}
    fresh.read_pictures()
    found = get(client, "/api/pictures?q=a").get_json()["pictures"]
    assert sorted(picture["id"] for picture in found) == files
    assert all(picture["shown"] and get(client, f"/pictures/{picture['row']}").status_code == 200 for picture in found)
    progress = get(client, "/api/progress").get_json()
    assert (progress["pictures"], progress["unusable"]) == ({"read": 3, "left": 0}, 1)
    assert get(client, "/api/picture?picture=scene-004.png").get_json()["picture"]["id"] == "scene-004.png"


def test_a_folder_whose_pictures_are_all_damaged_is_told_once(world, tmp_path, caplog):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    network, store = NamedNetwork(world.encoder().notes["features"]), Store(tmp_path / ".store")
    fresh = Searcher(world.encoder(), PictureFolder(tmp_path, network, device=torch.device("cpu"), store=store))
    keep_reading(fresh, threading.Event(), pause=3600)
    progress = get(create_app(Parts(fresh, None)).test_client(), "/api/progress").get_json()
    assert (progress["pictures"], progress["unusable"]) == ({"read": 0, "left": 0}, 1)
    assert "none of its pictures can be used" in progress["problem"]
    assert caplog.text.count("none of its pictures") == 1
