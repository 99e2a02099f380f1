"""A feature's key: what is documented, and every ingredient of it; what of the section does not fit together."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import re
import shutil

import pytest
import torch
from pydantic import ValidationError

from sightword.errors import SetupError
from sightword.features import norms
from sightword.features.extraction import Extraction
from sightword.features.identity import CODE, Cropping, Identity, Transform, code_sha256
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD, FeaturesSettings
from sightword.io.modules import hash_sources

CROPPING = Cropping("ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, True)


TRANSFORM = Transform(**vars(CROPPING), resize=256, interpolation="lanczos", exif=False)


KIND = Identity("resnet152", "avgpool", CROPPING, "0" * 64, "fp32", "cpu", "1" * 64)


def test_a_key_is_the_sha256_of_the_documented_json() -> None:
    record = {
        "backbone": "resnet152",
        "code": "1" * 64,
        "cropping": {
            "crop": 224,
            "crops": "ten",
            "l2": True,
            "mean": [0.485, 0.456, 0.406],
            "relu": False,
            "std": [0.229, 0.224, 0.225],
        },
        "feature_point": "avgpool",
        "kernel": "cpu",
        "precision": "fp32",
        "weights_sha256": "0" * 64,
    }
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    assert KIND.as_json() == text
    assert KIND.name == hashlib.sha256(text.encode()).hexdigest()[:32]
    whole = json.dumps({**record, "pixels": "a" * 64}, sort_keys=True, separators=(",", ":"))
    assert KIND.key("a" * 64) == hashlib.sha256(whole.encode()).digest()


IN_CROPPING = {
    "crops": "one", "crop": 223, "mean": (0.485, 0.456, 0.4061), "std": (0.229, 0.224, 0.2251), "relu": True,
    "l2": False,
}  # fmt: skip


IN_IDENTITY = {
    "backbone": "resnet101", "feature_point": "layer4", "weights_sha256": "0" * 63 + "1", "precision": "bf16",
    "kernel": "cpu-plain", "code": "1" * 63 + "2",
}  # fmt: skip


def test_each_ingredient_is_in_the_key() -> None:
    """Whatever field is added to the records must be in this list, and so in the key."""
    assert set(IN_CROPPING) == {field.name for field in dataclasses.fields(Cropping)}
    assert {*IN_IDENTITY, "cropping"} == {field.name for field in dataclasses.fields(Identity)}
    kinds = [KIND, *(dataclasses.replace(KIND, **{name: value}) for name, value in IN_IDENTITY.items())]
    for name, value in IN_CROPPING.items():
        kinds.append(dataclasses.replace(KIND, cropping=dataclasses.replace(CROPPING, **{name: value})))
    assert len({kind.name for kind in kinds}) == len(kinds) == 13
    pictures = ["a" * 64, "b" * 64]
    assert len({kind.key(picture) for kind in kinds for picture in pictures}) == 2 * len(kinds)
    assert dataclasses.replace(KIND).key("a" * 64) == KIND.key("a" * 64)


def test_the_documentation_lists_what_is_in_the_key(repository) -> None:
    text = (repository / "docs/features.md").read_text()
    _, _, table = text.partition("| in the key |")
    told = {name for row in table.split("\n\n")[0].splitlines() for name in re.findall("`(\\w+)`", row.split(" | ")[0])}
    assert told == {"pixels", *IN_IDENTITY, *IN_CROPPING}


CHANGES_NO_NUMBER = (
    "__init__", "compute.__init__", "errors", "features.__init__", "features.settings",
    "features.tables", "images.__init__", "images.settings", "io", "machine", "messages", "places",
    "settings", "storage",
)  # fmt: skip
"""Modules and rooms on the way to a feature: values that are in the key themselves, files, messages, times."""


def test_all_code_that_computes_is_in_the_key(repository) -> None:
    """Whoever lets the computation import one more module adds it to ``CODE``, or to the list above."""
    waiting, reached = [f"sightword/{name}" for name in CODE], set()
    while waiting:
        path = waiting.pop()
        name = path.removeprefix("sightword/").removesuffix(".py").replace("/", ".")
        if path in reached or any(f"{name}.".startswith(f"{one}.") for one in CHANGES_NO_NUMBER):
            continue
        reached.add(path)
        for node in ast.walk(ast.parse((repository / path).read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                start = getattr(node, "module", None)
                names = [f"{start}.{one.name}" if start else one.name for one in node.names]
                files = [
                    f"{one.replace('.', '/')}{end}" for one in [start or "", *names] for end in (".py", "/__init__.py")
                ]
                waiting += [file for file in files if file.startswith("sightword/") and (repository / file).is_file()]
    assert {path.removeprefix("sightword/") for path in reached} == {*CODE}


def test_an_edit_of_any_computing_file_changes_the_hash(repository, tmp_path) -> None:
    for name in CODE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / "sightword" / name, tmp_path / name)
    found = [hash_sources(tmp_path, CODE)]
    for name in CODE:
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(before + b"# more\n")
        found.append(hash_sources(tmp_path, CODE))
        (tmp_path / name).write_bytes(before.replace(b"\n", b"\r\n"))  # as git may check out
        assert hash_sources(tmp_path, CODE) == found[0] == code_sha256()
    assert len({*found}) == len(CODE) + 1


def kind_on_gpu(precision: str = "fp32") -> str:
    settings = FeaturesSettings(backbone="squeezenet1_1", weights="random", crop=48, precision=precision)
    transform = {"resize": 56, "interpolation": "lanczos", "exif": False}
    return Extraction(settings, transform, device=torch.device("cuda"), store=None).identity.name


def test_kinds_of_gpu_have_keys_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = set()
    for name, capability in (("H100", (9, 0)), ("RTX 4090", (8, 9)), ("H100", (9, 0)), ("RTX 4090", (8, 0))):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, capability=capability: capability)
        found.add(kind_on_gpu())
    assert len(found) == 3


def test_bfloat16_features_of_a_gpu_without_triton_have_a_key_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    found = {}
    for usable in (True, False):
        monkeypatch.setattr(norms, "usable", lambda device, usable=usable: usable)
        found[usable] = [kind_on_gpu("bf16"), kind_on_gpu("fp32")]
    assert found[True][0] != found[False][0]
    assert found[True][1] == found[False][1]


def test_features_of_a_gpu_are_refused_where_none_names_the_kind(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SetupError, match="this machine has no GPU, and keys of features name the kind of GPU"):
        kind_on_gpu()


SHA = "0" * 64


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights": "mine.safetensors"}, "weights_sha256 must hold its sha256"),
        ({"weights": "../mine.pth", "weights_sha256": SHA}, "inside the folder"),
        ({"weights": "random", "weights_sha256": SHA}, "random weights have no file"),
        ({"std": [1.0, 0.0, 1.0]}, "not above zero"),
        ({"source": "precomputed"}, "it must name a file ending in"),
        ({"source": "precomputed", "precomputed": "x.mat"}, r"x\.mat is not a file ending in"),
        ({"source": "precomputed", "precomputed": "x.npy"}, "needs a text file"),
    ],
)
def test_contradictions(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FeaturesSettings(**values)
