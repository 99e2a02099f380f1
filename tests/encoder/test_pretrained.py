"""Encoders by name, from a folder and from an address."""

from __future__ import annotations

import functools
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from blocks import blocks
from small_encoder import TEXTS, made

import sightword
from pipeline import cli
from sightword.encoder.by_name import open_encoder, open_with_pictures
from sightword.encoder.pretrained import PACKAGED, packaged
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import DownloadError, EncoderError


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The store, where archives are kept; also the working folder is empty."""
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "store"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "store"


@pytest.fixture
def site(tmp_path):
    """A server of this machine, its folder, and the paths that were asked for."""
    folder, asked = tmp_path / "site", []
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder, asked
    server.shutdown()
    server.server_close()
    thread.join()


def packed(kind, below, path, encoder=None):
    """Write an archive of an encoder's folder; return its sha256."""
    folder = path.parent / "unpacked"
    (encoder or made()).save(folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in files:
                archive.write(file, f"{below}{file.relative_to(folder)}")
    else:
        with tarfile.open(path, "w:gz") as archive:
            for file in files:
                archive.add(file, f"{below}{file.relative_to(folder)}")
    shutil.rmtree(folder)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left(store):
    return sorted(path.name for path in (store / "encoders").iterdir()) if (store / "encoders").exists() else []


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("below", ["", "an-encoder/"])
def test_an_archive_is_downloaded_once(store, site, kind, below):
    address, folder, asked = site
    digest = packed(kind, below, folder / f"e.{kind}")
    first = SentenceEncoder.from_pretrained(f"{address}/e.{kind}", sha256=digest.upper())
    np.testing.assert_array_equal(first.encode(TEXTS), made().encode(TEXTS))
    again = SentenceEncoder.from_pretrained(f"{address}/e.{kind}#sha256={digest}")
    np.testing.assert_array_equal(again.encode(TEXTS), made().encode(TEXTS))
    assert asked == [f"/e.{kind}"]
    assert left(store) == [digest]


def test_every_command_takes_an_address(store, site):
    address, folder, _ = site
    name = f"{address}/e.zip#sha256={packed('zip', '', folder / 'e.zip')}"
    np.testing.assert_array_equal(open_encoder(name)(TEXTS), made().encode(TEXTS))
    assert open_with_pictures(name).width == made().width


def test_an_archive_of_this_machine(store, tmp_path):
    digest = packed("zip", "", tmp_path / "e.zip")
    assert SentenceEncoder.from_pretrained((tmp_path / "e.zip").as_uri(), sha256=digest).width == made().width


def test_a_damaged_copy_is_downloaded_again(store, site, caplog):
    address, folder, asked = site
    whole = made()
    digest = packed("zip", "", folder / "e.zip", whole)
    SentenceEncoder.from_pretrained(f"{address}/e.zip", sha256=digest)
    (store / "encoders" / digest / "part-1.safetensors").write_bytes(b"damaged")
    found = SentenceEncoder.from_pretrained(f"{address}/e.zip", sha256=digest)
    np.testing.assert_array_equal(found.encode(TEXTS), whole.encode(TEXTS))
    assert len(asked) == 2
    damaged = f"{store / 'encoders' / digest}: is damaged; the encoder is downloaded again"
    assert [text for text in caplog.messages if "damaged" in text] == [damaged]


def test_another_hash_is_refused_and_leaves_nothing(store, site):
    address, folder, _ = site
    found = packed("zip", "", folder / "e.zip")
    with pytest.raises(DownloadError, match=f"its sha256 {found} does not begin with {'0' * 64}"):
        SentenceEncoder.from_pretrained(f"{address}/e.zip", sha256="0" * 64)
    assert left(store) == []


@pytest.mark.parametrize("hashed", [None, "", "abc", "z" * 64])
def test_an_address_needs_a_hash(store, site, hashed):
    address, _, asked = site
    with pytest.raises(EncoderError, match=r"e\.zip: the sha256 of the archive is .*expected 64 hex digits"):
        SentenceEncoder.from_pretrained(f"{address}/e.zip", sha256=hashed)
    assert asked == []


def truncated(path):
    packed("zip", "", path)
    path.write_bytes(path.read_bytes()[:-200])


def without_weights(path):
    packed("zip", "", path)
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if "part-2" not in name}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)


def leaving_the_folder(path):
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("../encoder.json")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"{}"))


def without_an_encoder(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (truncated, "is not a whole archive"),
        (without_weights, "is missing"),
        (leaving_the_folder, "would leave the folder"),
        (without_an_encoder, "holds no encoder"),
    ],
)
def test_a_broken_archive_leaves_nothing(store, site, make, what):
    address, folder, _ = site
    make(folder / "e.zip")
    digest = hashlib.sha256((folder / "e.zip").read_bytes()).hexdigest()
    with pytest.raises(EncoderError, match=rf"e\.zip: holds no whole encoder \(.*{what}"):
        SentenceEncoder.from_pretrained(f"{address}/e.zip", sha256=digest)
    assert left(store) == []
    assert not (store.parent / "encoder.json").exists()


def test_an_address_without_the_file(store, site):
    with pytest.raises(DownloadError, match="404"):
        SentenceEncoder.from_pretrained(f"{site[0]}/none.zip", sha256="0" * 64)
    assert left(store) == []


def test_a_folder(store, tmp_path):
    made().save(tmp_path / "e")
    for name in (tmp_path / "e", str(tmp_path / "e"), "../e"):
        np.testing.assert_array_equal(SentenceEncoder.from_pretrained(name).encode(TEXTS), made().encode(TEXTS))
    with pytest.raises(EncoderError, match="sha256 is for an archive at an address"):
        SentenceEncoder.from_pretrained(tmp_path / "e", sha256="0" * 64)


def test_an_unknown_name(store):
    for use in (SentenceEncoder.from_pretrained, open_encoder, open_with_pictures):
        with pytest.raises(
            EncoderError, match=r"flickr8: no such encoder; expected flickr8k, .*Did you mean flickr8k\?"
        ):
            use("flickr8")
    for name in ("", "a" * 5000, "a\0b", "\ud800"):
        with pytest.raises(EncoderError, match="no such encoder"):
            SentenceEncoder.from_pretrained(name)
    for name in (None, 5, b"flickr8k", ["flickr8k"]):
        with pytest.raises(EncoderError, match="expected the path of a folder"):
            SentenceEncoder.from_pretrained(name)


def test_pack_writes_a_folder_to_pass_on(store, tmp_path, capsys):
    made().save(tmp_path / "e")
    (tmp_path / "e/README.md").write_text("# A card\n")
    assert cli.main(["pack", str(tmp_path / "e"), "out", "--half"]) == 0
    assert capsys.readouterr().out.startswith("out: ")
    card = Path("out/README.md").read_text()  # of no project
    head, _, text = card.partition("---\n\n")
    assert head.endswith(
        'license: "other"\nlicense_name: "terms-of-captions-pictures-and-image-network"\n'
        'license_link: "LICENSE"\ntags: ["sentence-transformers", "sentence-similarity", "feature-extraction"]\n'
    )
    assert text == "# A card\n\n## Weights\n\nStored in half precision (float16), loaded as float32.\n"
    np.testing.assert_allclose(SentenceEncoder.load("out").encode(TEXTS), made().encode(TEXTS), atol=2e-3)
    assert cli.main(["pack", str(tmp_path / "e"), "whole"]) == 0
    np.testing.assert_array_equal(SentenceEncoder.load("whole").encode(TEXTS), made().encode(TEXTS))
    assert cli.main(["pack", "out", "again", "--half"]) == 0
    assert cli.main(["pack", "out", "in-full"]) == 0
    assert [Path(name, "README.md").read_text() for name in ("again", "in-full")] == [card, f"{head}---\n\n# A card\n"]
    assert cli.main(["pack", "out", "eight", "--int8"]) == 0
    assert Path("eight/README.md").read_text() == card.replace(
        "in half precision (float16)", "as 8-bit integers with a scale for each row"
    )
    capsys.readouterr()
    assert cli.main(["pack", str(tmp_path / "e"), "out"]) == 1
    assert capsys.readouterr().err == "sightword: out: exists. Name a new folder.\n"


@pytest.mark.parametrize("name", packaged())
def test_an_encoder_of_the_package(store, name):
    """The name wins over a folder; ``./NAME`` is the folder."""
    folder = PACKAGED / name
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in sums}
    assert set(sums) == {"encoder.json", "vocabulary.json", "part-1.safetensors", "part-2.safetensors"}
    assert {path.name for path in folder.iterdir()} == {*sums, "SHA256SUMS", "modules.json", "README.md", "LICENSE"}
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 12_000_000
    card = (folder / "README.md").read_text()
    for heading in ("Retrieval scores", "Lineage", "Terms"):
        assert f"## {heading}\n" in card
    made().save(name)
    assert SentenceEncoder.from_pretrained(name).width != made().width
    assert SentenceEncoder.from_pretrained(f"./{name}").width == made().width
    assert SentenceEncoder.from_pretrained(Path(name)).width == made().width


PROGRAM = """
import numpy, sys
from sightword import SentenceEncoder
encoder = SentenceEncoder.from_pretrained("flickr8k")
vectors = encoder.encode(sys.argv[1:])
print(*encoder.similarity(vectors, vectors)[0])
images = encoder.encode_images(numpy.zeros((2, encoder.features_width)))
assert encoder.similarity(vectors, images).shape == (len(sys.argv) - 1, 2)
"""


def test_paraphrases_are_closer_than_other_sentences(tmp_path):
    texts = [
        "A brown dog runs through the snow .",
        "A dog is running in snow .",
        "The brown puppy is playing in the snow .",
        "Two women sit in a restaurant .",
        "A man on a surfboard rides a wave .",
    ]
    folder = Path(sightword.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *texts],
        capture_output=True, text=True, cwd=tmp_path, env={"PATH": "", "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    same, first, second, *unrelated = map(float, done.stdout.split())
    assert same == pytest.approx(1)
    assert min(first, second) > max(unrelated) + 0.3


def test_the_first_example_of_the_readme_works_on_a_fresh_machine(tmp_path, repository):
    first = next(one for one in blocks(repository / "README.md") if one.language == "python")
    assert not first.why
    done = subprocess.run(
        [sys.executable, "-c", f"{first.text}\nassert vectors.shape == (3, 1280)"],
        env={"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(repository)},
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
