"""Every command of the pages is typed as a reader would, in a copy of the sample; those that are not say why."""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import page_runner
import pytest
from blocks import BEFORE, COMMANDS, SHOWN, blocks, pages, to_run, write_senteval
from checkout import Checkout

from pipeline import cli
from pipeline.params import reference
from pipeline.pipelines import pipelines

REPOSITORY = Path(__file__).resolve().parent.parent
ALL = [one for page in pages(REPOSITORY) for one in blocks(page)]
RUN = [page.stem for page in pages(REPOSITORY) if to_run(page)]


def test_block_of_a_page_has_a_language_and_a_reason_where_not_run():
    marks = sum(page.read_text().count("<!-- not run") for page in pages(REPOSITORY))
    assert marks == sum(bool(one.why) for one in ALL), "a mark stands on the line before its block"
    for page in pages(REPOSITORY):
        fences = len(re.findall(r"^\s*```", page.read_text(), re.MULTILINE))
        assert fences == 2 * len(blocks(page)), f"{page.name}: a fence is indented or not closed"
    for one in ALL:
        assert one.language in (*COMMANDS, *SHOWN) or one.language.startswith("{"), one.place
        assert not one.why or one.language in COMMANDS, one.place
        assert not one.who or one.page.stem == "lab", f"{one.place}: only tests/sharing/test_lab.py knows people"


@pytest.mark.parametrize("one", [one for one in ALL if one.language in COMMANDS], ids=lambda one: one.place)
def test_block_of_commands_is_parsed_with_known_options_and_names(one, parameters, targets, capsys):
    """Also in those that are not run: the language, options of ``sightword``, names of parameters, targets of make."""
    if one.language == "python":
        ast.parse(one.text, one.place)
        return
    checked = subprocess.run(["bash", "-n"], input=one.text, capture_output=True, text=True)
    assert not checked.stderr
    for line in one.text.replace("\\\n", "").splitlines():
        if not line.startswith(("sightword ", "dvc ", "make ")):
            continue
        program, *words = itertools.takewhile(lambda word: word not in ("|", "&&"), shlex.split(line, comments=True))
        if program == "sightword":
            try:
                cli._parser().parse_args(words)
            except SystemExit:
                pytest.fail(f"{line}: {capsys.readouterr().err}")
        if program == "make":
            assert {word for word in words if "=" not in word} <= targets  # the others set variables
        settings = [word for before, word in itertools.pairwise(words) if before == "-S"]
        assert {word.lstrip("+").split("=")[0] for word in settings} <= parameters


@pytest.fixture(scope="module")
def parameters():
    return {one.name for section in reference.sections() for one in section.parameters}


@pytest.fixture(scope="module")
def targets(repository):
    return set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def done(small_run, tmp_path_factory) -> Checkout:
    """The sample on a few pictures, computed and committed; its copies share one cache."""
    folder = tmp_path_factory.mktemp("pages")
    checkout = small_run.copy(folder / "sightword", folder / "store", Checkout)
    (checkout.folder / ".git/info/exclude").write_text(".venv\n")
    activate = checkout.folder / ".venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"export PATH={shlex.quote(checkout.environment['PATH'])}\n")
    (checkout.folder / ".dvc/cache").rename(folder / "cache")
    checkout.run("dvc", "cache", "dir", "--local", str(folder / "cache"))
    return checkout


@pytest.mark.full
def test_clone_of_the_pages_has_all_committed_files_and_pipelines(done):
    """A visitor has all pipelines, also those that never run on a page."""
    first = done.run("git", "rev-list", "--max-parents=0", "HEAD").stdout.strip()
    assert not done.run("git", "diff", "--name-only", "--diff-filter=D", first).stdout
    assert [one.folder for one in pipelines(done.folder)] == ["", "entailment", "grounded", "hypernyms"]


@pytest.mark.full
@pytest.mark.parametrize("page", RUN)
def test_commands_of_a_page_end_without_an_error(done, page, repository, tmp_path):
    path = next(one for one in pages(repository) if one.stem == page)
    copy = done.copy(tmp_path / "sightword")
    write_senteval(copy.folder / "data/corpus/senteval", copy.folder / "data/raw/senteval")
    todo = [(f"before {page}", language, text) for language, text in BEFORE.get(page, [])]
    todo += [(one.place, one.language, one.text) for one in to_run(path)]
    (tmp_path / "blocks.json").write_text(json.dumps(todo))
    paths = f"{copy.folder}{os.pathsep}{Path(page_runner.__file__).parent}"
    ran = copy.run("python", "-m", "page_runner", str(tmp_path / "blocks.json"), PYTHONPATH=paths)
    said = ran.stdout
    if page == "tutorial":
        photos = tmp_path / "photos"
        assert not copy.run("git", "-C", str(photos), "status", "--porcelain", "--untracked-files=no").stdout
        for kept in ("models/encoder/encoder.json", "report/index.html", "plots/train/loss.tsv"):
            assert (photos / kept).is_file()
        assert "0 problems, 0 warnings" in said
        assert "data/retrieval: the same bytes" in said
        assert "(2, 1280)" in said
        assert "train differs by parameters (train." in said
