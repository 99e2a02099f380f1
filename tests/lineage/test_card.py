"""The sections that a model card gets of a project: only of this encoder, and only as the stages wrote them."""

from __future__ import annotations

import hashlib
import json
import subprocess

import pytest

from pipeline.lineage.card import corpus, sections
from pipeline.lineage.files import hash_listing
from sightword.errors import EncoderError

WEIGHTS = b"weights"
ENCODER = hash_listing({"weights": hashlib.md5(WEIGHTS).hexdigest()})
RECALL = {f"r{k}": 10.0 * k for k in (1, 5, 10)} | {f"r{k}_ci95": 1.25 for k in (1, 5, 10)} | {"median_rank": 7.0}
SHORT = {"map": 26.94, "map_ci95": 2.5, "first_right": 45.0, "first_right_ci95": 5.6, "queries": 300}
FULL = {"caption_to_image": RECALL, "image_to_caption": RECALL, "rsum": 1}
METRICS = {"test": {"full": FULL, "lengths": {}, "short_queries": {"one_word": SHORT}}}


def text_of(project, encoder):
    scores, _, lineage = sections(project, encoder)
    return scores + lineage


@pytest.fixture
def project(tmp_path):
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    for folder in ("models/encoder", "models/entailment"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "weights").write_bytes(WEIGHTS)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/retrieval.json").write_text(json.dumps(METRICS))
    wrote = hashlib.md5((tmp_path / "metrics/retrieval.json").read_bytes()).hexdigest()
    (tmp_path / "dvc.lock").write_text(f"""schema: '2.0'
stages:
  corpus:
    cmd: python -m stages corpus
    deps:
    - path: data/raw/flickr8k
      md5: aaaa.dir
    - path: sightword/corpus
      md5: bbbb.dir
    params:
      params.yaml:
        corpus:
          format: flickr8k
          file:
    outs:
    - path: data/corpus
      md5: cccc.dir
  select:
    cmd: python -m stages select
    deps:
    - path: data/corpus
      md5: cccc.dir
    params:
      params.yaml:
        select:
          members: 1
    outs:
    - path: models/encoder
      md5: {ENCODER}
  retrieval:
    cmd: python -m stages retrieval
    deps:
    - path: models/encoder
      md5: {ENCODER}
    outs:
    - path: metrics/retrieval.json
      md5: {wrote}
""")
    return tmp_path


def test_scores_raw_data_and_parameters(project):
    text = text_of(project, "models/encoder")
    assert "| test, full | caption to picture | 10.0 ± 1.2 | 50.0 ± 1.2 | 100.0 ± 1.2 | 7 |" in text
    assert "| `data/raw/flickr8k` | `aaaa.dir` |" in text
    assert "bbbb" not in text  # code, which the commit names
    assert "| `corpus.file` |  |" in text
    assert "| `select.members` | `1` |" in text
    assert "Made by the stages corpus, select of Sightword" in text
    assert corpus(project, "models/encoder") == "flickr8k"


@pytest.mark.parametrize("place", ["metrics/retrieval.json", "dvc.lock"])
def test_scores_of_another_encoder_or_edited_ones_are_left_out(project, place):
    path, text = project / place, (project / place).read_text()
    before, _, after = text.rpartition(ENCODER)
    path.write_text(f"{before}eeee.dir{after}" if place == "dvc.lock" else f"{text} ")
    assert "Retrieval scores" not in text_of(project, "models/encoder")
    assert "## Lineage" in text_of(project, "models/encoder")


def test_a_stage_that_ran_anew_since_is_told(project):
    """Its raw data and parameters in the lock are no longer those of the encoder."""
    lock = project / "dvc.lock"
    lock.write_text(lock.read_text().replace("md5: cccc.dir", "md5: ffff.dir", 1))
    with pytest.raises(EncoderError, match="the stage select read another data/corpus than corpus has written since"):
        text_of(project, "models/encoder")


def test_the_commit_is_one_that_recorded_the_run(project):
    def git(*words):
        name = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(["git", *name, *words], cwd=project, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    assert "in a state that no commit has recorded" in text_of(project, "models/encoder")
    for path, text in (("dvc.lock", None), ("README.md", ""), ("dvc.lock", "md5: gggg.dir")):  # another raw folder
        if text is not None:
            (project / path).write_text((project / path).read_text().replace("md5: aaaa.dir", text) if text else text)
        git("add", "-A")
        git("commit", "-qm", "state")
    assert "in a state" not in text_of(project, "models/encoder")
    recorded, _, newest = git("rev-list", "--reverse", "HEAD").split()
    assert f"commit `{newest}`" in text_of(project, "models/encoder")
    git("checkout", "-q", recorded, "--", "dvc.lock")
    assert f"commit `{recorded}`" in text_of(project, "models/encoder")


def test_short_queries_stand_below_the_recalls(project):
    assert "\n\n| split | query | mean" in text_of(project, "models/encoder")
    assert "| test | one word | 26.9 ± 2.5 | 45.0 ± 5.6 | 300 |\n" in text_of(project, "models/encoder")


UNDEFINED = {
    "STSSample": {"mean": {"pearson": None, "spearman": None}},
    "SICKRelatedness": {"cosine": {"pearson": 0.5, "spearman": 0.25}},
}


@pytest.mark.parametrize("scores", [UNDEFINED, {"skipped": {"STS12": "no file"}, "controls": {}}])
def test_semantic_scores_stand_in_a_section_if_any(project, scores):
    path, lock = project / "metrics/semantics.json", project / "dvc.lock"
    path.write_text(json.dumps(scores))
    lock.write_text(f"""{lock.read_text()}  semantics:
    cmd: python -m stages semantics
    deps:
    - path: models/encoder
      md5: {ENCODER}
    outs:
    - path: metrics/semantics.json
      md5: {hashlib.md5(path.read_bytes()).hexdigest()}
""")
    text = text_of(project, "models/encoder")
    assert ("## Semantic scores" in text) is (scores is UNDEFINED)
    assert ("| STSSample | mean over subtasks, cosine | undefined | undefined |" in text) is (scores is UNDEFINED)
    assert ("| SICKRelatedness | cosine | 50.0 | 25.0 |" in text) is (scores is UNDEFINED)


@pytest.mark.parametrize("name", ["weights", "more"])
def test_an_encoder_that_is_not_the_one_of_the_lock_is_refused(project, name):
    (project / "models/encoder" / name).write_bytes(b"others")
    with pytest.raises(EncoderError, match=r"models/encoder: is not what the stage select wrote, .* `dvc checkout "):
        sections(project, "models/encoder")
