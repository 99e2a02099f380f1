"""Sections, equations, tables and figures of the three papers are cited by the papers' own numbers."""

from __future__ import annotations

import csv
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PAPERS = {"Merkx": r"Merkx (?:&amp;|&) Frank", "Vendrov": r"Vendrov et al\.", "Bordes": r"Bordes et al\."}
YEAR = r",? \(?(?:19|20)\d\d\)?"
OURS = "|".join(f"(?P<{paper}>{name}(?:{YEAR})?)" for paper, name in PAPERS.items())
AUTHORS = r"[A-Z][\w'-]+(?:, [A-Z][\w'-]+)*(?: (?:&amp;|&) [A-Z][\w'-]+| et al\.)?"
WORK = re.compile(rf"{OURS}|{AUTHORS}{YEAR}|RFC \d+|PNG specification")
"""A source; the name of the group is one of ``PAPERS``, None for any other source."""
NUMBER = r"\d+(?:\.\d+)*"
CITATION = re.compile(
    r"(?<![\w-])(?P<supplement>supplement, )?(?P<kind>sections?|equations?|eq\.|tables?|figures?|fig\.) "
    rf"(?P<numbers>{NUMBER}(?:(?:,| and| to) {NUMBER})*)(?![\w-])",
    re.IGNORECASE,
)
LEFT_OUT = re.compile(r"LICENSE|.*\.lock|tests/papers\.csv|tests/test_citations\.py")
"""Terms of a licence, recorded commands and hashes, and the two files that hold wrong numbers or all of them."""


class Citation(NamedTuple):
    """A place of a paper that a text names."""

    paper: str
    """A key of ``PAPERS``, or why the citation belongs to none of them: ``other``, or ``nobody``."""
    kind: str
    number: str
    around: str
    """The line of the citation, with two lines before and after it."""


class Place(NamedTuple):
    """A row of papers.csv."""

    title: str
    words: re.Pattern[str]


@pytest.fixture(scope="module")
def places() -> dict[tuple[str, str, str], Place]:
    lines = Path(__file__).with_name("papers.csv").read_text("utf-8").splitlines()
    return {
        (row["paper"], row["kind"], row["number"]): Place(row["title"], re.compile(row["words"], re.IGNORECASE))
        for row in csv.DictReader(line for line in lines if not line.startswith("#"))
    }


def citations(text: str, *, markdown: bool) -> Iterator[Citation]:
    """Yield the citations of a text.

    A place is of the paper that follows ('Figure 2 of Vendrov et al.'), else of the last source that stands before it
    in its paragraph, else of the paper in the heading, else of the only one of the three papers that the text names.
    """
    if markdown:
        text = re.sub(r"^(?=\||- )", "\n", text, flags=re.MULTILINE)  # rows and points are paragraphs of their own
    raw = text.splitlines()
    lines = [re.sub(r"^[\s#/]+", "", line).rstrip() for line in raw]
    named = {found.lastgroup for found in WORK.finditer(" ".join(lines))} - {None}
    default = next(iter(named)) if len(named) == 1 else "nobody"
    heading, level, start = None, 0, 0
    for end, line in enumerate([*lines, ""]):
        if line:
            continue
        block, first, start = lines[start:end], start, end + 1
        if markdown and block and raw[first].startswith("#"):
            depth = len(raw[first]) - len(raw[first].lstrip("#"))
            if (found := WORK.search(block[0])) or depth <= level:
                heading, level = found and found.lastgroup, depth
        joined = " ".join(block)
        for found in CITATION.finditer(joined):
            before = [name.lastgroup or "other" for name in WORK.finditer(joined[: found.start()])]
            after = re.match(rf"\** (?:of|in) (?:{WORK.pattern})", joined[found.end() :])
            paper = (after.lastgroup or "other") if after else next(iter(before[::-1]), heading or default)
            kind = re.sub(r"^eq\.|^fig\.", "equation" if found["kind"][0] in "eE" else "figure", found["kind"].lower())
            kind = ("supplement " if found["supplement"] else "") + kind.removesuffix("s")
            place = first + next(n for n in range(len(block)) if len(" ".join(block[: n + 1])) >= found.start())
            around = " ".join(lines[max(place - 2, 0) : place + 3])
            yield from (Citation(paper, kind, number, around) for number in re.findall(NUMBER, found["numbers"]))


def fault(citation: Citation, places: dict[tuple[str, str, str], Place]) -> str:
    """Return what is wrong with a citation; empty if nothing is."""
    cited = f"{citation.kind} {citation.number}"
    if citation.paper == "other":
        return ""
    if citation.paper == "nobody":
        return f"{cited}: name the paper beside the number"
    place = places.get(citation[:3])
    if place is None:
        return f"{cited}: {citation.paper} has no such place in papers.csv"
    if not place.words.search(citation.around):
        return f"{cited} of {citation.paper} is about '{place.title}', the text about something else: {citation.around}"
    return ""


def test_cited_place_exists_and_has_the_subject_of_the_text(repository, places):
    command = ["git", "-C", str(repository), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    faults, papers = [], Counter[str]()
    for name in names:
        path = repository / name
        if not path.is_file() or LEFT_OUT.fullmatch(name):
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture, weights
        for citation in citations(text, markdown=path.suffix == ".md"):
            papers[citation.paper] += 1
            faults += [f"{name}: {found}" for found in [fault(citation, places)] if found]
    assert not faults, "\n".join(faults)
    assert min(papers[paper] for paper in PAPERS) > 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The choice of snapshots; as Merkx & Frank (2019), section 3.4.", "is about 'Semantic evaluation'"),
        ("The hinge loss of Merkx & Frank (2019), equation 1", "no such place"),
        ("Smallest side, pixels (the paper, section 3.1)", "name the paper"),
    ],
)
def test_citation_of_a_wrong_place_is_a_fault(text, words, places):
    (found,) = citations(text, markdown=False)
    assert words in fault(found, places)


def test_version_and_date_agree_in_all_places(repository):
    version = re.findall(r'^version = "(.+)"', (repository / "pyproject.toml").read_text(), re.MULTILINE)[0]
    citation, changes = ((repository / name).read_text() for name in ("CITATION.cff", "CHANGELOG.md"))
    date = re.findall(rf"^## \[{re.escape(version)}\] - (\S+)$", changes, re.MULTILINE)[0]
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation
