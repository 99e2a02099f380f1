"""The card of a packed encoder names the corpus and its terms, and has the scores on the test split first."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from small_card import head as head_of
from small_card import made as choice_of

from pipeline import cli
from pipeline.lineage.files import Ignored, hash_path
from sightword.encoder.pretrained import PACKAGED, packaged
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.vse.selection.model_card import model_card
from sightword.vse.selection.settings import SelectSettings

ENTRY = {"r1": 17.46, "r5": 44.26, "r10": 58.12} | {f"r{k}_ci95": 1.25 for k in (1, 5, 10)} | {"median_rank": 7.0}


METRICS = {"test": {"full": {"caption_to_image": ENTRY, "image_to_caption": ENTRY, "rsum": 1}, "lengths": {}}}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project whose lock names the encoder, its corpus, and the metrics of the stage retrieval."""
    monkeypatch.chdir(tmp_path)
    choice, amount = choice_of(features={"backbone": "", "transform": "{}", "origin": "precomputed: f.npy"})
    choice.encoder.save("models/encoder")
    Path("models/encoder/README.md").write_text(model_card(choice, SelectSettings(), amount))
    Path("metrics").mkdir()
    Path("metrics/retrieval.json").write_text(json.dumps(METRICS))
    Path("dvc.yaml").write_text("stages: {}\n")
    write_lock()
    return tmp_path


def write_lock() -> None:
    """Write the lock that has the encoder as it lies here."""
    wrote = hashlib.md5(Path("metrics/retrieval.json").read_bytes(), usedforsecurity=False).hexdigest()
    encoder = hash_path(Path("models/encoder").absolute(), Ignored(Path.cwd())).md5
    Path("dvc.lock").write_text(f"""schema: '2.0'
stages:
  corpus:
    cmd: python -m stages corpus
    deps: [{{path: data/raw/flickr8k, md5: aaaa.dir}}]
    params: {{params.yaml: {{corpus: {{format: flickr8k}}}}}}
    outs: [{{path: data/corpus, md5: cccc.dir}}]
  select:
    cmd: python -m stages select
    deps: [{{path: data/corpus, md5: cccc.dir}}]
    outs: [{{path: models/encoder, md5: {encoder}}}]
  retrieval:
    cmd: python -m stages retrieval
    deps: [{{path: models/encoder, md5: {encoder}}}]
    outs: [{{path: metrics/retrieval.json, md5: {wrote}}}]
""")


def sections_of(card: str) -> list[str]:
    return re.findall(r"(?m)^## (.*)$", card)


def check_names_corpus_and_terms(card: str, name: str, corpus: str = "Flickr8k") -> None:
    fields = head_of(card)
    assert (fields["license"], fields["license_name"]) == ("other", "non-commercial-research")
    [index] = fields["model-index"]
    assert index["name"] == name
    datasets = [one["dataset"] for one in index["results"]]
    *tested, chosen = [(one["type"], one["split"]) for one in datasets]
    assert (set(tested), chosen) == ({(corpus.lower(), "test")}, (corpus.lower(), "dev"))
    assert all(one["name"].startswith(f"{corpus}, ") for one in datasets)
    sections = sections_of(card)
    assert sections.index("Retrieval scores") < sections.index("Scores on dev")
    assert "non-commercial research and education" in card[card.index("## Terms") :]
    assert f"- Corpus: {corpus}." in card
    for wrong in ("'own'", '"own"', "as-the-captions", "corpus's name is not", "look up those of your corpus"):
        assert wrong not in card


def test_a_packed_encoder_of_a_known_corpus_has_its_terms_and_test_scores_first(project) -> None:
    assert cli.main(["pack", "models/encoder", "passed-on", "--half"]) == 0
    card = Path("passed-on/README.md").read_text()
    check_names_corpus_and_terms(card, "passed-on")
    tested = head_of(card)["model-index"][0]["results"][0]["metrics"]
    assert [one["value"] for one in tested] == [17.46, 44.26, 58.12] * 2
    assert "those on the test split are above" in card
    assert 'SentenceEncoder.from_pretrained("passed-on")' in card
    assert 'SentenceTransformer("passed-on", trust_remote_code=True)' in card
    assert sections_of(card)[-3:] == ["Terms", "Weights", "Lineage"]
    assert Path("passed-on/LICENSE").read_text().startswith("The weights were trained on Flickr8k, whose terms go")


def test_an_encoder_of_the_package_is_used_by_its_name(project, monkeypatch) -> None:
    monkeypatch.setattr("sightword.encoder.pretrained.PACKAGED", project / "pretrained")
    (project / "pretrained").mkdir()
    assert cli.main(["pack", "models/encoder", "pretrained/flickr8k"]) == 0
    card = Path("pretrained/flickr8k/README.md").read_text()
    check_names_corpus_and_terms(card, "flickr8k")
    assert 'SentenceEncoder.from_pretrained("flickr8k")' in card
    assert "modules=[SightwordModule(encoder)]" in card
    assert "in the folder above" not in card


@pytest.mark.parametrize(
    "head",
    [
        *("license: other", "tags:\n- a", "", 'model-index: [{"results": []}]', f"license: {'[' * 9999}"),
        'license: "a"\nmodel-index: [{"results": [{"dataset": {}}]}]',
    ],
)
def test_a_card_whose_head_sightword_did_not_write_is_refused_in_one_sentence(project, capsys, head) -> None:
    Path("models/encoder/README.md").write_text(f"---\n{head}\n---\n# Mine\n")
    write_lock()
    assert cli.main(["pack", "models/encoder", "passed-on"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "the encoder's README.md: has a head that Sightword did not write" in said
    assert not Path("passed-on").exists()


def test_a_card_of_no_project_keeps_its_words_and_gets_the_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    choice, amount = choice_of()
    choice.encoder.save("mine")
    text = model_card(choice, SelectSettings(), amount)
    Path("mine/README.md").write_text(text)
    assert cli.main(["pack", "mine", "other"]) == 0
    packed = Path("other/README.md").read_text()
    assert re.sub(r"license_\w+: .*\n|Of the Hugging .*\n\n", "", packed) == text.replace('("encoder"', '("other"')
    assert "Flickr8k: for non-commercial research" in Path("other/LICENSE").read_text()


@pytest.mark.parametrize("name", packaged())
def test_the_card_of_an_encoder_of_the_package(name) -> None:
    """As `sightword pack` writes it; the package's LICENSE has the same terms."""
    card = (PACKAGED / name / "README.md").read_text()
    check_names_corpus_and_terms(card, name, name.capitalize())
    assert f'SentenceEncoder.from_pretrained("{name}")' in card
    assert "in the folder above" not in card
    assert "non-commercial research and education" in (PACKAGED / name / "LICENSE").read_text()


@pytest.mark.parametrize("name", packaged())
def test_the_program_on_the_card_runs(name) -> None:
    card = (PACKAGED / name / "README.md").read_text()
    program = card[card.index("```python") :].partition("\n")[2].partition("```")[0]
    encoder = SentenceEncoder.from_pretrained(name)
    values = {"features": np.ones((3, encoder.features_width))}
    exec(program, values)
    assert values["captions"].shape == (2, encoder.width)
    assert values["encoder"].similarity(values["captions"], values["pictures"]).shape == (2, 3)
