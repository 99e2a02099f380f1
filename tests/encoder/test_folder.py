"""The folder of an encoder: what is refused, and how it is said."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from sums import renew

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

MODEL = ModelSettings(embedding=5, hidden=6, attention=4)


@pytest.fixture
def folder(tmp_path):
    """A saved encoder of two members."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(["a dog runs in the snow ."])
    members = [Encoders(len(vocabulary), 7, MODEL) for _ in range(2)]
    SentenceEncoder(members, vocabulary, MODEL, notes={"epochs": [8, 4]}).save(tmp_path / "encoder")
    return tmp_path / "encoder"


def change(folder, *, meant=True, **entries):
    """Other entries of ``encoder.json``, with the sums of who means it."""
    about = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**about, **entries}))
    if meant:
        renew(folder)


def refusal(folder):
    with pytest.raises(EncoderError) as stopped:
        SentenceEncoder.load(folder)
    return str(stopped.value)


def test_one_from_a_newer_version_says_so(folder):
    change(folder, schema=4)
    assert refusal(folder) == (
        f"{folder}/encoder.json: has the format 4, from a newer Sightword; expected 3. Update Sightword."
    )


def test_one_from_before_ngrams_says_so(folder):
    model = {key: value for key, value in MODEL.model_dump().items() if "ngram" not in key}
    change(folder, schema=1, model=model)
    assert refusal(folder) == (
        f"{folder}/encoder.json: has the format 1, from an earlier Sightword; expected 3. "
        "Run `dvc repro` in its project, or take a newer copy."
    )


@pytest.mark.parametrize("schema", [0, None, "3", True, 3.0, [3]])
def test_what_is_no_format_is_of_no_version(folder, schema):
    change(folder, schema=schema)
    assert f"has the format {schema!r}; expected 3. Take the folder whole" in refusal(folder)


@pytest.mark.parametrize("name", ["encoder.json", "vocabulary.json", "member-2.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    message = refusal(folder)
    assert name in message
    assert "is missing" in message


def test_no_folder_at_all(tmp_path):
    message = refusal(tmp_path / "nothing")
    assert "nothing: does not exist. `dvc repro` makes models/encoder, and `make grounded` (without make:" in message
    assert "the name flickr8k stands for an encoder" in message
    (tmp_path / "file").write_text("")
    assert "file: is no folder of an encoder. `dvc repro` makes" in refusal(tmp_path / "file")
    assert "holds no encoder (encoder.json is missing)" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["encoder.json", "vocabulary.json", "member-1.safetensors"])
def test_one_changed_byte_is_found(folder, name):
    data = bytearray((folder / name).read_bytes())
    saved = hashlib.sha256(data).hexdigest()
    data[-3] ^= 1
    (folder / name).write_bytes(bytes(data))
    assert refusal(folder) == (
        f"{folder / name}: is not the file that was saved with this encoder: its sha256 is "
        f"{hashlib.sha256(data).hexdigest()}; expected {saved}, as SHA256SUMS says. Take the folder whole: "
        "run `dvc checkout` in its project, or copy it again. If the change is intended, write the sums anew: "
        "`sha256sum encoder.json member-1.safetensors member-2.safetensors vocabulary.json > SHA256SUMS`."
    )


@pytest.mark.parametrize(
    "entries",
    [
        {"renormalise": True},
        {"model": {**MODEL.model_dump(), "mask_padding": False}},
        {"similarity": "order", "model": {**MODEL.model_dump(), "similarity": "order"}},
        {"features": {"backbone": "other"}},
    ],
)
def test_an_edited_description_is_found_and_may_be_meant(folder, entries):
    change(folder, **entries, meant=False)
    assert "encoder.json: is not the file that was saved" in refusal(folder)
    command = "sha256sum encoder.json member-1.safetensors member-2.safetensors vocabulary.json > SHA256SUMS"
    assert f"`{command}`" in refusal(folder)
    subprocess.run(command, shell=True, cwd=folder, check=True)
    SentenceEncoder.load(folder)


def test_a_folder_without_the_sum_of_a_file_is_not_whole(folder):
    lines = (folder / "SHA256SUMS").read_text().splitlines(keepends=True)
    (folder / "SHA256SUMS").write_text("".join(line for line in lines if "encoder.json" not in line))
    assert "SHA256SUMS: does not list encoder.json: an earlier Sightword wrote the folder" in refusal(folder)
    (folder / "SHA256SUMS").write_bytes(b"\xff")
    assert "SHA256SUMS: is not UTF-8 text (byte 0). Take the folder whole" in refusal(folder)
    (folder / "SHA256SUMS").unlink()
    assert "SHA256SUMS: does not exist. Take the folder whole" in refusal(folder)


def state(encoder):
    arrays = [encoder.encode(["a dog", "the snow ."]), encoder.encode_images(np.eye(3, 7))]
    return [array.tobytes() for array in arrays], encoder.similarity_name, encoder.notes


def load_flipped(folder, count):
    """With a bit of one file flipped, the folder is refused or loads as the same encoder."""
    expected, rng = state(SentenceEncoder.load(folder)), random.Random(0)
    for path in sorted(folder.iterdir()):
        if path.name == "modules.json":  # for another library: it is not read here
            continue
        whole = path.read_bytes()
        bits = range(8 * len(whole))
        for bit in bits if count is None or count > len(bits) else rng.sample(bits, count):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with contextlib.suppress(EncoderError):
                assert state(SentenceEncoder.load(folder)) == expected, (path.name, bit)
        path.write_bytes(whole)


def test_a_flipped_bit_is_never_loaded(folder):
    load_flipped(folder, 60)


@pytest.mark.full
def test_no_flipped_bit_of_thousands_is_loaded(folder):
    load_flipped(folder, 1000)


def test_the_sums_are_those_of_the_usual_program(folder):
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    text = (folder / "SHA256SUMS").read_text()
    assert f"{hashlib.sha256((folder / 'vocabulary.json').read_bytes()).hexdigest()}  vocabulary.json\n" in text


@pytest.mark.parametrize("text", ["", "{", "[1]", '"encoder"'])
def test_an_encoder_json_that_is_none_is_damaged(folder, text):
    (folder / "encoder.json").write_text(text)
    assert "encoder.json: is not the file that was saved" in refusal(folder)
    renew(folder)
    assert "encoder.json" in refusal(folder)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"model": {"hidden": 0}}, "model.hidden is 0"),
        ({"model": {**MODEL.model_dump(), "hidden": 8}}, "belongs to another network"),
        ({"model": {**MODEL.model_dump(), "heads": 4}}, "model.heads is unknown"),
        ({"members": []}, "members is []"),
        ({"members": "member-1.safetensors"}, "members is 'member-1"),
        ({"members": ["../encoder/member-1.safetensors"]}, "expected a list of names of files beside it"),
        ({"members": [3]}, "members is [3]"),
        ({"members": [1] * 999}, f"members is {str([1] * 999)[:76]} ...; expected"),
        ({"similarity": "o" * 999}, f"similarity '{'o' * 75} ..., the model"),
        ({"features_width": 8}, "belongs to another network"),
        ({"features_width": "7"}, "features_width is '7'"),
        ({"renormalise": "no"}, "renormalise 'no'"),
        ({"similarity": "order"}, "similarity 'order', the model has 'cosine'"),
    ],
)
def test_wrong_entries_are_named(folder, entries, message):
    change(folder, **entries)
    assert message in refusal(folder)


def test_a_missing_entry_is_named(folder):
    about = json.loads((folder / "encoder.json").read_text())
    del about["renormalise"]
    (folder / "encoder.json").write_text(json.dumps(about))
    renew(folder)
    assert "is damaged (it has no renormalise)" in refusal(folder)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {"model": {**MODEL.model_dump(), "hidden": 10**9}},
            "too small for the network that encoder.json describes",
        ),
        ({"model": {**MODEL.model_dump(), "embedding": 10**40}}, "too small"),
        ({"model": {**MODEL.model_dump(), "attention": 10**12}}, "too small"),
        ({"features_width": 10**12}, "too small"),
        ({"model": {**MODEL.model_dump(), "cell": "ngrams", "ngram_buckets": 10**12}}, "too small"),
        ({"features_width": True}, "features_width is True"),
    ],
)
def test_a_size_that_no_memory_holds_is_refused_before_any_is_taken(folder, entries, said):
    change(folder, **entries)
    assert said in refusal(folder)


def rewritten(folder, name, make):
    """Another value for one tensor of the first member, with sums that fit."""
    path = folder / "member-1.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors[name] = make(tensors[name].clone())
    safetensors.torch.save_file(tensors, path)
    renew(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder, value):
    rewritten(folder, "captions.embedding.weight", lambda tensor: tensor.index_fill(0, torch.tensor([3]), value))
    assert "member-1.safetensors: holds values that are not finite (in captions.embedding.weight)" in refusal(folder)


def test_a_feature_may_be_left_out_by_an_infinite_deviation_but_not_by_none(folder):
    rewritten(folder, "images.deviation", lambda tensor: tensor.index_fill(0, torch.tensor([2]), float("inf")))
    SentenceEncoder.load(folder)
    rewritten(folder, "images.deviation", lambda tensor: tensor.index_fill(0, torch.tensor([2]), float("nan")))
    assert "(in images.deviation)" in refusal(folder)


def test_weights_of_whole_numbers_are_damaged_and_short_ones_are_lengthened(folder):
    expected = SentenceEncoder.load(folder).encode(["a dog"])
    for name in safetensors.torch.load_file(folder / "member-1.safetensors"):
        rewritten(folder, name, torch.Tensor.half)
    loaded = SentenceEncoder.load(folder)
    assert {weights.dtype for weights in loaded.members[0].state_dict().values()} == {torch.float32}
    assert np.abs(loaded.encode(["a dog"]) - expected).max() < 1e-2
    rewritten(folder, "images.linear.bias", lambda tensor: tensor.to(torch.int8))
    assert "images.linear.bias is torch.int8; expected float32" in refusal(folder)


def test_loading_draws_no_random_numbers(folder):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    SentenceEncoder.load(folder)
    assert torch.equal(torch.rand(4), expected)


def test_loading_and_encoding_leave_torchs_compiler_alone(folder):
    """The compiler takes seconds to import; torch loads it for a network of random weights without memory."""
    code = (
        "import sys; from sightword import SentenceEncoder; SentenceEncoder.load(sys.argv[1]).encode(['a dog']); "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_loaded_weights_do_not_change_with_the_file(folder):
    encoder = SentenceEncoder.load(folder)
    expected = encoder.encode(["a dog"])
    path = folder / "member-1.safetensors"
    path.write_bytes(path.read_bytes()[:500] + b"\x7f" * (path.stat().st_size - 500))
    assert np.array_equal(encoder.encode(["a dog"]), expected)


def test_vectors_that_are_not_scaled_stay_so(folder):
    scaled = SentenceEncoder.load(folder)
    assert "scaled" not in json.loads((folder / "encoder.json").read_text())
    lengths = np.linalg.norm(scaled.encode(["a dog", "snow"], normalize_embeddings=True), axis=1)
    for member in scaled.members:
        member.captions.scaled = False
    scaled.save(folder)
    found = SentenceEncoder.load(folder)
    assert np.array_equal(found.encode(["a dog"]), scaled.encode(["a dog"]))
    assert np.abs(np.linalg.norm(found.encode(["a dog", "snow"]), axis=1) - lengths).max() > 0.05
    change(folder, scaled="no")
    assert "scaled is 'no'; expected true or false" in refusal(folder)
