"""The stage train in a folder of its own: outputs, equal bytes, a killed run, and inputs that do not fit."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from small_ground import COLOURS, TEXTS, VOCABULARY, rows, saved_start, textual

from sightword.captions.table import CaptionTable, write_captions
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import ParamsError
from sightword.features.tables.table import Origin, write_features
from sightword.grounded.skipthought.network import save
from sightword.grounded.training.settings import GroundSettings
from sightword.io.files import atomic_folder
from sightword.text.storage import write_text
from stages.grounded import train

COMMON = {"batch": 4, "steps": 6, "hidden": 16, "width": 4, "rate": 0.01, "validate_every": 3}
SCENARIOS = {
    "t": {},
    "cg-pg": {"cluster": 1.0, "perceptual": 1.0, "judged": "grounded"},
    "seq": {"sequential": True, "judged": "visual"},
    "other": {"start": "mine", "text": 0, "cluster": 1.0},
}
NAMES = [f"{number:02d}" for number in range(len(TEXTS) // 2)]


def settings(**changes):
    return GroundSettings.model_validate(
        {"run": ["t"], "seeds": [0, 3], "encoders": "encoders", "common": COMMON | changes, "scenarios": SCENARIOS}
    )


def captions(splits=None, each=2):
    pictures = [NAMES[number // each] for number in range(len(NAMES) * each)]
    splits = splits or ["dev" if name in NAMES[::4] else "train" for name in pictures]
    ids = [row.astype(np.int32) for row in rows(TEXTS[: len(pictures)])]
    return CaptionTable(pictures, [n % each for n in range(len(pictures))], splits, TEXTS[: len(pictures)], ids)


def features(names=NAMES, values=None):
    if values is None:
        colours = np.arange(len(names)) * len(COLOURS) // len(names)
        values = 3 * np.eye(len(COLOURS), 7)[colours] + np.random.default_rng(0).random((len(names), 7))
    origin = Origin("made_up", "last", "none", "", "{}", "fp32", "precomputed")
    block = (np.arange(len(names)), np.asarray(values, np.float32))
    write_features("data/features/features.h5", names, [""] * len(names), block[1].shape[1], [block], origin)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ground")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with atomic_folder("data/text") as place:
            lengths = [len(row) for row in rows(TEXTS)]
            nothing = np.zeros(len(TEXTS))
            write_text(place, VOCABULARY, rows(TEXTS), lengths, nothing, nothing)
            write_captions(place / "captions.parquet", captions())
        (folder / "data/features").mkdir()
        features()
        with atomic_folder("models/skipthought") as place:
            save(place, textual().network, VOCABULARY)
        saved_start(folder / "encoders/mine")
    return folder


@pytest.fixture
def here(inputs, tmp_path, monkeypatch):
    shutil.copytree(inputs, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setenv("SIGHTWORD_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    return tmp_path / "run"


def files(folder):
    places = [folder / kind / "grounded" for kind in ("models", "plots", "metrics")]
    return {
        path.relative_to(folder): path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()
    }


def test_a_scenario_is_written_whole_and_twice_the_same(here):
    train.work(settings(), scenario="cg-pg", seed=3)()
    first = files(here)
    assert sorted({str(path.parent) for path in first}) == [
        f"{kind}/grounded/cg-pg-3" for kind in ("metrics", "models", "plots")
    ]
    shutil.rmtree(here / "models/grounded")
    train.work(settings(), scenario="cg-pg", seed=3)()
    assert files(here) == first
    metrics = json.loads((here / "metrics/grounded/cg-pg-3/train.json").read_text())
    assert metrics.pop("loss").keys() == {"text", "cluster", "perceptual"}
    assert metrics.pop("dev").keys() == {"cluster", "perceptual"}
    assert metrics.pop("weights") > 1000
    assert metrics == {
        "scenario": "cg-pg", "seed": 3, "start": "skipthought", "judged": "grounded", "batches": 6, "device": "cpu",
        "spaces": {"sentence": 8, "grounded": 4}, "pictures": 12, "copies": 0, "single_caption": 0, "captions": 24,
        "long_captions": 0, "features": "made_up, none; precomputed",
    }  # fmt: skip
    curves = (here / "plots/grounded/cg-pg-3/loss.tsv").read_text().splitlines()
    assert (curves[0].split("\t"), len(curves)) == (["batch", "text", "cluster", "perceptual"], 2)
    assert (here / "plots/grounded/cg-pg-3/norms.tsv").read_text().startswith("batch\ttext\tgrounded\n6\t")
    encoder = SentenceEncoder.load("models/grounded/cg-pg-3")
    assert (encoder.default, encoder.notes["scenario"], encoder.notes["seed"]) == ("grounded", "cg-pg", 3)


def test_the_scenario_t_is_the_encoder_of_text_to_the_bit(here):
    train.work(settings(), scenario="t", seed=0)()
    one, other = here / "models/grounded/t-0", here / "models/skipthought/encoder"
    assert (one / "part-1.safetensors").read_bytes() == (other / "part-1.safetensors").read_bytes()
    assert (here / "plots/grounded/t-0/loss.tsv").read_text() == "batch\n"


@pytest.mark.parametrize(("name", "width"), [("seq", 7), ("other", 12)])
def test_other_kinds_of_scenarios(here, name, width):
    train.work(settings(), scenario=name, seed=0)()
    assert SentenceEncoder.load(f"models/grounded/{name}-0").encode(TEXTS).shape == (len(TEXTS), width)


def test_wrong_names(here):
    with pytest.raises(ParamsError, match=r"no scenario is called 'cg'.*known: t, cg-pg"):
        train.work(settings(), scenario="cg", seed=0)
    with pytest.raises(ParamsError, match=r"the seed is 7; expected one of train.seeds \(0, 3\)"):
        train.work(settings(), scenario="t", seed=7)
