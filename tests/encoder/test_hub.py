"""Encoders of the Hugging Face hub, played by a server of this machine: packed, uploaded, loaded by their name."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import httpx2
import huggingface_hub as hub
import numpy as np
import pytest
from huggingface_hub import constants
from small_encoder import TEXTS, made

from pipeline import cli
from sightword.encoder.by_name import open_encoder
from sightword.encoder.pretrained import PACKAGED
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import DownloadError, EncoderError, SetupError


def oid(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:40]


class Hub(BaseHTTPRequestHandler):
    """The endpoints of the hub that ``upload_folder`` and downloads use; one repository a class, a dict a commit."""

    name: str
    commits: dict[str, dict[str, bytes]]
    tags: dict[str, str]
    asked: list[str]
    gated: bool = False

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def answer(self, value: object, code: int = 200, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for key, one in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(key.replace("_", "-"), one)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if self.path == "/api/repos/create":
            return self.answer({"url": f"http://{self.headers['Host']}/{self.name}"})
        if "/preupload/" in self.path:
            files = [one["path"] for one in json.loads(sent)["files"]]
            return self.answer({"files": [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in files]})
        assert "/commit/" in self.path
        values = [one["value"] for line in sent.splitlines() if (one := json.loads(line))["key"] == "file"]
        commit = f"{len(self.commits) + 1:040x}"
        self.commits[commit] = {one["path"]: base64.b64decode(one["content"]) for one in values}
        self.tags["main"] = commit
        return self.answer(
            {
                "success": True,
                "commitOid": commit,
                "commitUrl": f"http://{self.headers['Host']}/{self.name}/commit/{commit}",
            }
        )

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        found = re.fullmatch(r"/(?:api/models/)?(\w+/[\w-]+)/(\w+)/(\w+)/?([^?]*)(?:\?.*)?", self.path)
        if found is None or found[1] != self.name:
            return self.answer({}, 404, X_Error_Code="RepoNotFound")
        commit = self.tags.get(found[3], found[3])
        files = self.commits.get(commit)
        if self.gated or files is None:
            return self.answer({}, 403, X_Error_Code="GatedRepo" if self.gated else "RevisionNotFound")
        if found[2] == "revision":
            siblings = [{"rfilename": path} for path in files]
            return self.answer({"id": self.name, "sha": commit, "siblings": siblings})
        if found[2] == "tree":
            return self.answer(
                [{"type": "file", "path": path, "size": len(data), "oid": oid(data)} for path, data in files.items()]
            )
        data = files.get(found[4])
        if data is None:
            return self.answer({}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        return self.answer(data, X_Repo_Commit=commit, ETag=f'"{oid(data)}"')


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[type[Hub]]:
    kind = type("OneHub", (Hub,), {"name": "someone/small", "commits": {}, "tags": {}, "asked": []})
    running = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    here = f"http://127.0.0.1:{running.server_port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, here)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", here)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield kind
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def uploaded(server) -> type[Hub]:
    """The hub with a packed encoder, which ``upload_folder`` took as it is."""
    made().save("e")
    assert cli.main(["pack", "e", "small"]) == 0
    hub.HfApi(endpoint=constants.ENDPOINT).upload_folder(repo_id=server.name, folder_path="small", token="x")
    assert set(server.commits[server.tags["main"]]) == {path.name for path in Path("small").iterdir()}
    return server


def test_an_uploaded_encoder_by_its_name_is_the_packed_one(uploaded, monkeypatch) -> None:
    first = uploaded.tags["main"]
    uploaded.commits["f" * 40] = uploaded.commits[first] | {"other.bin": b"large"}
    uploaded.tags["v2"] = "f" * 40
    expected = made().encode(TEXTS)
    for name, revision in (("someone/small", None), ("someone/small", "v2"), (f"someone/small@{first}", None)):
        found = SentenceEncoder.from_pretrained(name, revision=revision)
        np.testing.assert_array_equal(found.encode(TEXTS), expected)
    np.testing.assert_array_equal(open_encoder("someone/small@v2")(TEXTS), expected)
    assert not any("other.bin" in path for path in uploaded.asked)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    uploaded.asked.clear()
    np.testing.assert_array_equal(SentenceEncoder.from_pretrained("someone/small@v2").encode(TEXTS), expected)
    assert uploaded.asked == []
    with pytest.raises(EncoderError, match=r"small: revision is for an encoder of the hub; expected .* owner/name"):
        SentenceEncoder.from_pretrained("small", revision="main")


def test_the_packed_card_is_one_of_the_hub(uploaded) -> None:
    card = hub.ModelCard(Path("small/README.md").read_text())
    card.validate()  # the hub's own check is the server's, of this machine; the rest is huggingface_hub's
    assert (card.data.license, card.data.license_link) == ("other", "LICENSE")
    assert "terms go with them" in Path("small/LICENSE").read_text()
    assert "`OWNER/small`" in card.text
    packed = hub.ModelCard((PACKAGED / "flickr8k/README.md").read_text()).data
    assert [one.dataset_split for one in packed.eval_results[::6]] == ["test", "dev"]


@pytest.mark.parametrize(
    ("name", "change", "kind", "said"),
    [
        ("no/one", {}, EncoderError, "no/one: is neither a folder nor a repository of the hub. Correct the name"),
        ("someone/small@no", {}, EncoderError, "someone/small: has no revision 'no'; expected a branch, a tag"),
        ("someone/small", {"gated": True}, EncoderError, "someone/small: is open only to accounts that its owner"),
        ("someone/small", {}, EncoderError, r"is no encoder of Sightword \(encoder.json is missing\). For a model of "),
        ("someone/small", {"name": ""}, DownloadError, "the hub cannot be reached, and the hub's cache has no copy"),
    ],
)
def test_what_the_hub_has_not_is_one_sentence(server, monkeypatch, name, change, kind, said) -> None:
    server.commits["a" * 40] = {"config.json": b"{}"}
    server.tags["main"] = "a" * 40
    for key, value in change.items():
        setattr(server, key, value)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", kind is DownloadError)
    with pytest.raises(kind, match=said):
        SentenceEncoder.from_pretrained(name)


@pytest.mark.parametrize("error", ["ProxyError", "RemoteProtocolError"])
def test_fault_of_the_connection_is_one_sentence(server, monkeypatch, error) -> None:
    monkeypatch.setattr(hub, "hf_hub_download", Mock(side_effect=getattr(httpx2, error)("no")))
    with pytest.raises(DownloadError, match=r"someone/small: cannot be downloaded \(no\)"):
        SentenceEncoder.from_pretrained("someone/small")


def test_without_the_extra_its_name_is_told(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for use in (SentenceEncoder.from_pretrained, open_encoder):
        with pytest.raises(SetupError, match=r"^BAAI/bge-small-en-v1\.5: is no folder, .*Install the extra hub:"):
            use("BAAI/bge-small-en-v1.5")
    with pytest.raises(EncoderError, match=r"from_pretrained\('a/b'\) loads the encoder of this name"):
        SentenceEncoder.load("a/b")
