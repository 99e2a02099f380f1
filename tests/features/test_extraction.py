"""Extraction: the same numbers whatever is around a picture, torchvision's crops, and clear refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from extracting import extract
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import sightword
from sightword.errors import FeaturesError, PictureError, SetupError, WeightsError
from sightword.features.compute import ResizedCorpus, Summary
from sightword.features.extractor import CROPS, corners, cut, normalise, positions
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.table import read_features
from sightword.features.vision import models, torchvision
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings
from sightword.io.files import sha256_file, write_table
from sightword.storage import store as store_module
from sightword.storage.store import Store

SMALL = FeaturesSettings(backbone="squeezenet1_1", weights="random", weights_seed=1, crop=48)


RESIZE = ResizeSettings(side=56, shards=3)


CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")


@pytest.fixture
def sources(tmp_path) -> list[Source]:
    rng = np.random.default_rng(0)
    found = []
    for number in range(7):
        path = tmp_path / f"{number}.png"
        blocks = rng.integers(0, 256, (4, 4 + number, 3), np.uint8).repeat(20, 0).repeat(20, 1)
        Image.fromarray(blocks).save(path)
        found.append(Source(f"id-{number}", str(path)))
    return found


def resized(folder: Path, sources: list[Source], settings: FeaturesSettings = SMALL, **options) -> ResizedCorpus:
    """A corpus with a store in its own folder, unless another is given."""
    write_resized(folder / "resized", sources, RESIZE)
    ids = [source.image_id for source in sources]
    options = {"store": Store(folder / "store"), "device": CPU} | options
    return ResizedCorpus(ids, folder / "resized", settings, **options)


def run(folder: Path, sources: list[Source], settings: FeaturesSettings = SMALL, **options) -> bytes:
    resized(folder, sources, settings, **options).write(folder / "f.h5")
    return (folder / "f.h5").read_bytes()


def counts(summary: Summary) -> tuple[int, int, int]:
    return summary.pictures, summary.computed, summary.stored


def test_the_function_gives_the_numbers_that_the_stage_stores(tmp_path, sources) -> None:
    run(tmp_path, sources)
    found = sightword.extract([source.path for source in sources], SMALL, RESIZE)
    stored = read_features(tmp_path / "f.h5")
    assert found.dtype == np.float32
    assert np.array_equal(found, stored.features[stored.rows(source.image_id for source in sources)])
    assert stored.attributes["weights"] == "random:1"
    assert '"interpolation":"lanczos"' in stored.attributes["transform"]
    assert '"resize":56' in stored.attributes["transform"]


def test_company_does_not_change_a_feature(tmp_path, sources, monkeypatch) -> None:
    together = run(tmp_path, sources)
    paths = [source.path for source in sources]
    options = {"weights_seed": 1, "resize": 56, "crop": 48}
    stored = read_features(tmp_path / "f.h5").features
    assert np.array_equal(extract(paths[2:3], "squeezenet1_1", "random", **options)[0], stored[2])
    assert np.array_equal(extract(paths[::-1], "squeezenet1_1", "random", **options)[::-1], stored)
    assert run(tmp_path, sources[::-1], store=Store(tmp_path / "another")) == together


@pytest.mark.parametrize("backbone", ["shufflenet_v2_x0_5", "alexnet"])
def test_the_number_of_threads_does_not_change_a_bit(sources, backbone) -> None:
    paths = [source.path for source in sources]
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(extract(paths, backbone, "random", resize=72, crop=64, device="cpu"))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_several_threads_may_extract_at_the_same_time(sources) -> None:
    """Each builds, seeds and traces a network, and sets torch up for it, beside the others and whatever else runs."""
    paths = [source.path for source in sources[:2]]

    def work(seed: int) -> np.ndarray:
        return extract(paths, "shufflenet_v2_x0_5", "random", weights_seed=seed, resize=72, crop=64, device="cpu")

    expected = [work(seed) for seed in (0, 1, 2)]
    state = torch.get_rng_state()
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, (0, 1, 2)))
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.are_deterministic_algorithms_enabled()
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)
    assert np.abs(found[0] - found[1]).max() > 0


def test_a_picture_is_computed_once(tmp_path, sources) -> None:
    first = resized(tmp_path, sources[:-1]).write(tmp_path / "f.h5")
    assert counts(first) == (6, 6, 0)
    assert counts(resized(tmp_path, sources).write(tmp_path / "f.h5")) == (7, 1, 6)
    warm = (tmp_path / "f.h5").read_bytes()
    assert run(tmp_path, sources, store=Store(tmp_path / "cold")) == warm
    another = SMALL.model_copy(update={"l2": True})
    assert counts(resized(tmp_path, sources, another).write(tmp_path / "f.h5")) == (7, 7, 0)


def test_copies_of_a_picture_are_computed_once(tmp_path, sources) -> None:
    copies = [Source(f"copy-{number}", sources[3].path) for number in range(3)]
    summary = resized(tmp_path, sources + copies).write(tmp_path / "f.h5")
    assert (*counts(summary), summary.copies) == (10, 7, 0, 3)
    found = read_features(tmp_path / "f.h5")
    values = found.features[found.rows(["id-3", "copy-0", "copy-1", "copy-2"])]
    assert np.array_equal(values, values[[0] * 4])
    paths = [source.path for source in [sources[3], *copies, sources[0]]]
    listed = extract(paths, "squeezenet1_1", "random", weights_seed=1, resize=56, crop=48)
    assert np.array_equal(listed, found.features[found.rows(["id-3", "copy-0", "copy-1", "copy-2", "id-0"])])


def test_with_all_in_the_store_the_weights_are_not_needed(tmp_path, sources) -> None:
    network = models.squeezenet1_1(weights=None)
    torch.save(network.state_dict(), tmp_path / "net.pth")
    known = {"weights_sha256": sha256_file(tmp_path / "net.pth"), "resize": 56, "crop": 48, "store": tmp_path / "store"}
    first = extract([sources[0].path], "squeezenet1_1", tmp_path / "net.pth", **known)
    (tmp_path / "net.pth").unlink()
    assert np.array_equal(extract([sources[0].path], "squeezenet1_1", tmp_path / "net.pth", **known), first)
    with pytest.raises(WeightsError, match="does not exist"):
        extract([sources[1].path], "squeezenet1_1", tmp_path / "net.pth", **known)


def test_a_feature_that_is_alone_and_damaged_is_computed_again(tmp_path, sources, monkeypatch, caplog) -> None:
    monkeypatch.setattr(store_module, "FIRST", 0.0)
    monkeypatch.setattr(store_module, "SHARE", 0.0)
    wanted = run(tmp_path, sources)
    segments = sorted((tmp_path / "store").rglob("*.parquet"))
    assert len(segments) == 7
    for path in segments:  # each byte of the only feature
        data = path.read_bytes()
        path.write_bytes(data[:200] + bytes(byte ^ 1 for byte in data[200:400]) + data[400:])
    assert counts(resized(tmp_path, sources).write(tmp_path / "f.h5")) == (7, 7, 0)
    assert (tmp_path / "f.h5").read_bytes() == wanted
    assert "store prune" in caplog.text


def test_the_callers_settings_of_torch_are_neither_used_nor_changed(sources) -> None:
    paths, options = [sources[0].path], {"resize": 72, "crop": 64, "device": "cpu"}
    wanted = extract(paths, "alexnet", "random", **options)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert np.array_equal(extract(paths, "alexnet", "random", **options), wanted)
        assert torch.get_float32_matmul_precision() == "medium"
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.equal(torch.rand(2), expected)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("crops", "count"), [("five", 5), ("one", 1)])
def test_fewer_crops_and_post_processing(sources, crops, count) -> None:
    paths = [source.path for source in sources[:3]]
    options = {"weights_seed": 1, "resize": 56, "crop": 48}
    plain = extract(paths, "squeezenet1_1", "random", crops=crops, **options)
    assert np.abs(plain - extract(paths, "squeezenet1_1", "random", **options)).max() > 0
    scaled = extract(paths, "squeezenet1_1", "random", crops=crops, l2=True, **options)
    np.testing.assert_allclose(scaled, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-5)
    shifted = extract(paths, "mnasnet0_5", "random", crops=crops, relu=True, **options)
    assert shifted.min() >= 0


def test_no_pictures_is_an_error_and_not_an_empty_file(tmp_path) -> None:
    with pytest.raises(FeaturesError, match="no pictures to extract features from"):
        run(tmp_path, [Source("a", None)])
    assert not (tmp_path / "f.h5").exists()


def test_pictures_of_another_corpus_are_noticed(tmp_path, sources) -> None:
    write_resized(tmp_path / "resized", sources, RESIZE)
    ids = [source.image_id for source in sources]
    for wrong, message in (
        (ids[:-1], "1 pictures are not of the corpus: id-6"),
        ([*ids, "x"], "1 pictures .* not there: x"),
    ):
        with pytest.raises(FeaturesError, match=message):
            ResizedCorpus(wrong, tmp_path / "resized", SMALL, store=Store(tmp_path / "store"), device=CPU)


def test_the_function_refuses_by_name(tmp_path, sources) -> None:
    (tmp_path / "text.jpg").write_text("no picture")
    first = sources[0].path
    for pictures, error, message in (
        ([first, tmp_path / "text.jpg"], PictureError, r"text\.jpg: cannot be used \(not_a_picture"),
        (["a\0b.png"], PictureError, "its name holds a NUL character"),
        (first, FeaturesError, "pictures are str; expected a list of paths"),
    ):
        with pytest.raises(error, match=message):
            extract(pictures, "squeezenet1_1", resize=56, crop=48)
    with pytest.raises(FeaturesError, match="does not take crops of 5 pixels"):
        extract([first], "squeezenet1_1", crop=5)
    with pytest.raises(SetupError, match="no such device"):
        extract([first], "squeezenet1_1", device="mps")


def test_the_stage_writes_its_folder_and_its_last_line(tmp_path, sources, monkeypatch, caplog) -> None:
    from stages.features import work

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "store"))
    caplog.set_level("INFO")
    ids = pa.array([source.image_id for source in sources])
    rows = {"image_id": ids, "split": ["train"] * len(ids), "position": range(len(ids))}
    write_table("data/corpus/images.parquet", pa.table(rows))
    write_resized("data/resized", sources, RESIZE)
    assert work(SMALL)["stored"] == "0 of 7 features from the store"
    assert [path.name for path in Path("data/features").iterdir()] == ["features.h5"]
    assert caplog.messages[-1] == "features: 7 pictures: 7 computed"
    assert work(SMALL)["stored"] == "7 of 7 features from the store"
    np.save("x.npy", np.zeros((7, 2), np.float32))
    Path("x.txt").write_text("\n".join(source.image_id for source in sources))
    work(FeaturesSettings(source="precomputed", inputs=".", precomputed="x.npy", precomputed_ids="x.txt"))
    assert read_features("data/features/features.h5").features.shape == (7, 2)


def test_pictures_that_could_not_be_decoded_are_named_in_the_file(tmp_path, sources) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    broken = Source("broken", str(tmp_path / "broken.jpg"))
    write_resized(tmp_path / "resized", [*sources, broken], RESIZE.model_copy(update={"max_rejects": 1}))
    ids = [source.image_id for source in [*sources, broken]]
    made = ResizedCorpus(ids, tmp_path / "resized", SMALL, store=Store(tmp_path / "store"), device=CPU)
    summary = made.write(tmp_path / "f.h5")
    found = read_features(tmp_path / "f.h5")
    assert found.rejected == {"broken"}
    assert len(found.image_ids) == summary.computed == 7
    assert (summary.pictures, summary.rejected) == (8, 1)


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def ours(pictures: list[np.ndarray], crop: int, crops: str) -> torch.Tensor:
    pixels = torch.cat([torch.from_numpy(picture).view(-1, 3) for picture in pictures])
    out = torch.empty(len(pictures) * CROPS[crops], crop, crop, 3)
    places = positions([picture.shape[:2] for picture in pictures], crop, crops)
    cut(normalise(pixels, torch.tensor(MEAN), torch.tensor(STD)), places, out)
    return out.permute(0, 3, 1, 2)


def theirs(pixels: np.ndarray, crop: int, crops: str) -> torch.Tensor:
    transforms = torchvision.transforms
    cut = {"ten": transforms.TenCrop, "five": transforms.FiveCrop, "one": transforms.CenterCrop}[crops](crop)
    found = cut(Image.fromarray(pixels))
    to_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    return torch.stack([to_tensor(one) for one in (found if crops != "one" else [found])])


SIDES = st.tuples(st.integers(16, 40), st.integers(16, 40))


@settings(max_examples=40, deadline=None)
@given(st.lists(SIDES, min_size=1, max_size=3), st.integers(8, 16), st.sampled_from(["ten", "five", "one"]))
def test_crops_of_several_pictures_are_torchvisions(sizes: list[tuple[int, int]], crop: int, crops: str) -> None:
    rng = np.random.default_rng(len(sizes))
    pictures = [rng.integers(0, 256, (*size, 3), np.uint8) for size in sizes]
    wanted = torch.cat([theirs(picture, crop, crops) for picture in pictures])
    assert torch.equal(ours(pictures, crop, crops), wanted)


@pytest.mark.parametrize(("width", "left"), [(224, 0), (225, 0), (226, 1), (227, 2), (341, 58)])
def test_the_centre_is_rounded_half_to_even(width: int, left: int) -> None:
    assert corners(256, width, 224, "one") == [(16, left)]


DENSENET_SHA256 = "40b3c33734bf54aa10661f2c5ff688964b68ac37ce0ba3f98a75a15b57a4a9aa"


def reference(paths: list[Path], weights: Path) -> np.ndarray:
    """The published way: Pillow, torchvision's TenCrop, the model as is, one picture at a time; (N, 10, D)."""
    from safetensors.torch import load_file

    transforms = torchvision.transforms
    network = models.densenet169(weights=None)
    network.load_state_dict(load_file(weights), strict=False)
    network.classifier = torch.nn.Identity()
    network.eval()
    resize = transforms.Resize(256, transforms.InterpolationMode.LANCZOS)
    normal = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    )
    rows = []
    for path in paths:
        with Image.open(path) as picture:
            crops = transforms.TenCrop(224)(resize(picture.convert("RGB")))
        with torch.no_grad():
            rows.append(network(torch.stack([normal(crop) for crop in crops])).numpy())
    return np.stack(rows)


def disagreement(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


@pytest.mark.slow
def test_real_photographs_agree_with_the_reference(real_data) -> None:
    weights = real_data / "weights/densenet169_imagenet.safetensors"
    # The first is mostly black: rounded to bfloat16 it alone would shift the features.
    names = ("1045521051_108ebc19be.jpg", "1000268201_693b08cb0e.jpg")
    paths = [real_data / "flickr8k/images" / name for name in names]
    crops = reference(paths, weights)
    expected = crops.mean(1)
    found = extract(paths, "densenet169", weights, weights_sha256=DENSENET_SHA256)
    assert disagreement(found, expected) < 1e-4
    # The control: the same check must fail when features stand beside other pictures.
    assert disagreement(found[::-1], expected) > 1
    middle = crops[0, 4]
    fast = extract(paths[:1], "densenet169", weights, precision="bf16", crops="one")[0]
    assert fast @ middle / np.linalg.norm(fast) / np.linalg.norm(middle) >= 0.999
    assert disagreement(fast, middle) > 0
