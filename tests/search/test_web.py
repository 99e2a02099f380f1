"""The page's application and its thumbnails, asked directly: what they answer, and all that they refuse."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from search_world import EVIL, INJECTION, bomb

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import SearchError
from sightword.search.collection import PictureFolder, Reading
from sightword.search.networks import NamedNetwork
from sightword.search.picture_files import SIDE, Thumbnails, list_pictures
from sightword.search.query import shown
from sightword.search.searcher import WEAK, Searcher
from sightword.search.serving import MAX_BYTES, keep_reading
from sightword.search.web import Parts, about, create_app
from sightword.storage.store import Store

HOST = {"Host": "localhost:8377"}
UPLOAD = "application/octet-stream"


def get(client, path: str, **headers: str):
    return client.get(path, headers={**HOST, **headers})


def post(client, data: bytes, kind: str = UPLOAD, **headers: str):
    return client.post("/api/picture", data=data, content_type=kind, headers={**HOST, **headers})


def test_sentence_finds_what_the_searcher_finds(client, searcher):
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


def test_picture_of_the_collection_finds_captions(client, searcher):
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
    assert found["picture"]["image"] == f"/pictures/{row}"
    assert found["read"] == found["of"] == len(searcher.catalogue.captions)
    answer = get(client, "/api/picture?picture=scene-05.png")
    assert answer.status_code == 422
    assert "scene-005.png" in answer.get_json()["todo"]


def test_uploaded_picture_finds_what_its_features_find(client, world, searcher):
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


def test_uploads_too_large_or_no_picture_are_refused(client):
    assert post(client, b"0" * (MAX_BYTES + 1)).status_code == 413
    for data in (b"", b"GIF89a", bomb(30_000), b"<script>alert(1)</script>"):
        answer = post(client, data)
        assert answer.status_code == 422, data[:10]
        assert "cannot be used" in answer.get_json()["error"]
    for kind in ("multipart/form-data; boundary=x", "text/plain", "application/x-www-form-urlencoded", "image/png"):
        assert post(client, b"x", kind).status_code == 415


def test_no_path_leads_to_another_file(client):
    for path in (
        "/pictures/../../etc/passwd", "/pictures/..%2f..%2fetc%2fpasswd", "/pictures/-1", "/pictures/999999",
        "/static/../web.py", "/static/..%2fweb.py", "/static//etc/passwd", "/templates/search.html", "//etc/passwd",
    ):  # fmt: skip
        answer = get(client, path)
        assert answer.status_code in (308, 404)
        assert b"root:" not in answer.data
        assert b"import" not in answer.data


@pytest.mark.parametrize("path", ["/", "/api/pictures?q=a", "/static/search.js"])
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


@pytest.mark.parametrize("path", ["/", "/pictures/1", "/static/search.js", "/nowhere"])
def test_every_answer_has_the_headers_of_the_policy(client, path):
    answer = get(client, path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers
    answer.close()


def test_captions_notes_and_ids_are_text_in_the_page(client, searcher):
    page = get(client, "/").get_data(as_text=True)
    assert "a &lt;b&gt;note&lt;/b&gt;" in page
    assert "<script>document" not in page
    found = get(client, f"/api/picture?picture={EVIL}")
    assert found.mimetype == "application/json"
    assert found.get_json()["picture"]["captions"][0] == INJECTION
    assert "http:" not in page.replace("http://www.w3.org", "")
    assert "https:" not in page
    answer = get(client, f"/pictures/{searcher.catalogue.find(EVIL)}")
    with Image.open(io.BytesIO(answer.data)) as image:
        assert (image.format, min(image.size)) == ("WEBP", 64)


def test_first_upload_changes_no_query_of_other_threads(world, searcher):
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


def test_unforeseen_fault_shows_nothing_of_the_inside(world, searcher, monkeypatch):
    monkeypatch.setattr(Searcher, "pictures", lambda *_: 1 / 0)
    app = create_app(Parts(searcher, None))
    answer = get(app.test_client(), "/api/pictures?q=a")
    assert answer.status_code == 500
    assert "ZeroDivision" not in json.dumps(answer.get_json())


def folder_of(world, folder) -> PictureFolder:
    network, reading = (
        NamedNetwork(world.encoder().notes["features"]),
        Reading(torch.device("cpu"), Store(folder / ".s")),
    )
    return PictureFolder(str(folder), list_pictures(folder), network, reading)


def test_folder_is_searched_while_it_is_read(world, tmp_path):
    files = ["scene-003.png", "scene-004.png", "scene-005.png"]
    for name in files:
        shutil.copy(world.files / name, tmp_path)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    fresh = Searcher(world.encoder(), folder_of(world, tmp_path))
    client = create_app(Parts(fresh, Thumbnails(tmp_path))).test_client()
    assert "4 pictures" in get(client, "/").get_data(as_text=True)
    assert get(client, "/api/pictures?q=a").get_json()["pictures"] == []
    unread = get(client, "/api/some").get_json()["pictures"]
    assert [picture["id"] for picture in unread] == ["broken.png", *files]
    assert not any("split" in picture for picture in unread)
    assert [get(client, picture["image"]).status_code for picture in unread] == [404, 200, 200, 200]
    assert "is not read yet" in get(client, f"/api/picture?picture={files[0]}").get_data(as_text=True)
    fresh.read_pictures()
    assert "cannot be used" in get(client, "/api/picture?picture=broken.png").get_data(as_text=True)
    assert get(client, "/api/some").get_json()["pictures"] == [
        about(Parts(fresh, Thumbnails(tmp_path)), n) for n in range(3)
    ]
    found = get(client, "/api/pictures?q=a").get_json()["pictures"]
    assert sorted(picture["id"] for picture in found) == files
    assert all(get(client, picture["image"]).status_code == 200 for picture in found)
    progress = get(client, "/api/progress").get_json()
    assert (progress["pictures"], progress["unusable"]) == ({"read": 3, "left": 0}, 1)
    assert get(client, "/api/picture?picture=scene-004.png").get_json()["picture"]["id"] == "scene-004.png"


def test_examples_have_letters_that_the_encoder_knows(world, tmp_path, monkeypatch):
    shutil.copy(world.files / "scene-003.png", tmp_path)
    fresh = Searcher(world.encoder(), folder_of(world, tmp_path))
    page = create_app(Parts(fresh, None)).test_client()
    assert get(page, "/").get_data(as_text=True).count("data-query") == 5
    monkeypatch.setattr(type(fresh.encoder), "vocabulary", Vocabulary.build(["a man climbs a rock", "犬が走る"]))
    assert re.findall('data-query="(.*?)"', get(page, "/").get_data(as_text=True)) == ["a man climbs a rock"]


def test_folder_of_damaged_pictures_is_told_once(world, tmp_path, caplog):
    (tmp_path / "phone.HEIC").write_bytes(b"no picture")
    fresh = Searcher(world.encoder(), folder_of(world, tmp_path))
    keep_reading(fresh, threading.Event())
    progress = get(create_app(Parts(fresh, None)).test_client(), "/api/progress").get_json()
    assert (progress["pictures"], progress["unusable"]) == ({"read": 0, "left": 0}, 1)
    assert "none of its pictures can be used" in progress["problem"]
    assert caplog.text.count("none of its pictures") == 1


SECRET = Image.new("RGB", (9, 9), "red")


@pytest.fixture
def folder(tmp_path):
    """A folder of pictures, with one next to it that nobody may see."""
    pictures = tmp_path / "pictures"
    (pictures / "deeper").mkdir(parents=True)
    SECRET.save(tmp_path / "secret.png")
    Image.linear_gradient("L").resize((900, 300)).save(pictures / "wide.png")
    (pictures / "broken.png").write_bytes(b"\x89PNG and no more")
    (pictures / "large.png").write_bytes(bomb(30_000))
    os.mkfifo(pictures / "pipe.png")
    return pictures


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(io.BytesIO(data))


def test_shards_and_files_show_the_same_picture(world, tmp_path):
    shards, files = Thumbnails(world.folder / "data/resized"), Thumbnails(world.files)
    for picture in (EVIL, "scene-005.png"):
        one, other = (opened(kind.get(picture)).convert("L").resize((16, 16)) for kind in (shards, files))
        assert np.abs(np.asarray(one, float) - np.asarray(other, float)).mean() < 6
        assert picture in shards
        assert picture in files
    assert "scene-999.png" not in shards
    assert shards.get("scene-999.png") is None
    shutil.copytree(world.folder / "data/resized", tmp_path / "resized")
    replaced = Thumbnails(tmp_path / "resized")
    for path in (tmp_path / "resized").glob("shard-*"):
        path.write_bytes(b"another")
    assert replaced.get("scene-005.png") is None


def test_thumbnail_is_small_and_of_pictures_alone(folder, tmp_path):
    files = Thumbnails(folder)
    assert opened(files.get("wide.png")).size == (SIDE, round(SIDE / 3))
    for picture in ("broken.png", "large.png", "pipe.png", "absent", "deeper", "", "n" * 5000):
        assert files.get(picture) is None
    with pytest.raises(SearchError, match="there is no such folder; expected the shards"):
        Thumbnails(tmp_path / "none")


@given(st.lists(st.sampled_from(["..", "/", "\\", ".", "deeper", "secret", ".png", "%2e", "\0", "//"]), max_size=7))
def test_no_id_leads_out_of_the_folder(tmp_path_factory, parts):
    folder = tmp_path_factory.getbasetemp() / "outside" / "pictures"
    (folder / "deeper").mkdir(parents=True, exist_ok=True)
    SECRET.save(folder.parent / "secret.png")
    files = Thumbnails(folder)
    assert files.get("".join(parts)) is None
    assert files.get(str(folder.parent / "secret.png")) is None
