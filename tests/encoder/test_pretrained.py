"""Encoders by name, and from a folder."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_encoder import TEXTS, made

import sightword
from pipeline import cli
from sightword.encoder.by_name import open_encoder, open_with_pictures
from sightword.encoder.pretrained import PACKAGED, packaged
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty working folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_an_unknown_name(store):
    for use in (SentenceEncoder.from_pretrained, open_encoder, open_with_pictures):
        with pytest.raises(
            EncoderError, match=r"flickr8: no such encoder; expected flickr8k, .*Did you mean flickr8k\?"
        ):
            use("flickr8")
    for name in ("", "a" * 5000, "a\0b", "\ud800"):
        with pytest.raises(EncoderError, match="no such encoder"):
            SentenceEncoder.from_pretrained(name)
    for name in (f"{'a' * 300}/b", f"{'a' * 300}.txt", f"{'a' * 300}:b"):
        for use in (SentenceEncoder.from_pretrained, open_encoder, open_with_pictures):
            with pytest.raises(EncoderError):
                use(name)
    for name in (None, 5, b"flickr8k", ["flickr8k"]):
        with pytest.raises(EncoderError, match="expected the path of a folder"):
            SentenceEncoder.from_pretrained(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [("models/encoder", "flickr8k stands for an encoder"), ("models/grounded/cg-0", "`make grounded` makes it")],
)
def test_missing_folder_is_not_taken_for_a_hub_name(store, name, said):
    with pytest.raises(EncoderError, match=rf"does not exist.*{said}") as caught:
        SentenceEncoder.from_pretrained(name)
    assert "hub" not in str(caught.value)
    with pytest.raises(EncoderError, match=r"SentenceEncoder\.from_pretrained\('flickr8k'\) loads"):
        SentenceEncoder.load("flickr8k")


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
