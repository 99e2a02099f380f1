"""Reads ordered text, one sentence a line, from a file or the files of a folder; and makes the sample's stories.

The stories are about objects of ``scenes.yaml``. Each sentence is of one kind, at one place. Kind and place follow a
Markov chain; shape, number and background stay and are in every sentence; size and colour stay, and are in the
sentences of the kind ``seen`` only, of which no two are neighbours: text cannot tell colours apart.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from sightword.corpus.sample.scene import World, load_world, stream
from sightword.errors import CorpusError
from sightword.io.opening import files_in, lines
from sightword.io.tables import Table, whole
from sightword.messages import and_more, short
from sightword.settings import LONGEST_TEXT
from sightword.text.settings import TextSettings

SAME, PASSAGE, BOOK = 0, 1, 2
"""A sentence begins nothing, a passage, or a book and its first passage."""
BOOKS = "books.csv"
MARKED = 0.01
"""The share of lines with markup from which a text is refused."""
NARROWEST, WIDEST = 40, 120
"""Widths at which texts are broken."""
ROOM = 15
"""Letters by which most broken lines are shorter than the width: the next word had no room."""
LEAST = 50
"""Lines from which the shape can be told."""
SHARE = 0.7
"""The least share of lines that are nearly as long as the width. Broken text has 0.99; of texts with one sentence a
line, SNLI's short hypotheses have most, 0.47, and novels 0.17."""
LENGTHS = range(8, 13)
"""Sentences in a story; each number is as likely as the others."""
KINDS = {
    "seen": {"stays": 0.5, "moves": 0.5},
    "stays": {"seen": 0.25, "stays": 0.25, "moves": 0.5},
    "moves": {"seen": 0.25, "stays": 0.5, "moves": 0.25},
}
"""Probabilities of the next sentence's kind. A story begins with ``seen``, at any place."""
ONWARD = 0.75
"""The probability that an object moves to the next place of the world's list, not to the one before."""

_ENDINGS = (".txt", ".txt.gz")
_BOOKS = Table(("file", "first_line"), CorpusError, optional=("file",), empty=("file",))
_CHECKED = 10_000
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|<!|<\?xml|&(?:[a-z]{2,8}|#\d+);")
_TODO = "Put the text there, one sentence a line (data/raw/text/README.md), or set text.path."


class Sentences:
    """The sentences of a text in their order; iterated over once, in constant memory."""

    def __init__(self, settings: TextSettings) -> None:
        """Find the files; CorpusError if there are none, or ``books.csv`` is wrong."""
        self._settings = settings
        self._path = Path(settings.path)
        self.files = [] if settings.format == "sample" else _files(self._path)
        self._books = _books(self._path, self.files) if settings.format == "lines" and self._path.is_dir() else {}
        self.lines = 0
        """Lines read so far."""
        self.marked = 0
        """Lines with markup, such as ``<p>`` or ``&amp;``."""
        self.first_marked = ""
        """The place of the first of them."""
        self.wrapped = 0
        """Lines that look broken at a width (:func:`wrapped`)."""
        self.first_wrapped = ""
        """The first file with such lines."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield each sentence, and :data:`SAME`, :data:`PASSAGE` or :data:`BOOK`.

        CorpusError: a file cannot be read, or ends early; a line is not UTF-8, has a NUL, or is too long; lines
        end in CR; or many lines have markup.
        """
        if self._settings.format == "sample":
            for number, story in enumerate(
                stories(load_world(self._path), self._settings.stories, self._settings.seed)
            ):
                yield story[0], PASSAGE if number else BOOK
                yield from ((sentence, SAME) for sentence in story[1:])
            return
        for file in self.files:
            yield from self._read(file)
        self._check_markup()

    def _read(self, file: Path) -> Iterator[tuple[str, int]]:
        breaks, books = self._settings.format == "lines", self._books.get(file.name, set())
        begins, last, before = BOOK, 0, 0
        followed: Counter[int] = Counter()  # lengths of lines before a line that is not blank
        for last, line in _lines(file):
            self.lines += 1
            if last in books:
                begins = BOOK
            if not line or line.isspace():
                begins, before = max(begins, PASSAGE) if breaks else begins, 0
                continue
            followed[before] += 1
            before = len(line)
            if ("<" in line or "&" in line) and _MARKUP.search(line):
                self.marked += 1
                self.first_marked = self.first_marked or f"{file}, line {last}"
            if self.lines % _CHECKED == 0:
                self._check_markup()
            yield line, begins
            begins = SAME
        if count := wrapped(followed):
            self.wrapped += count
            self.first_wrapped = self.first_wrapped or str(file)
        if books and max(books) > last:
            what = f"has a book whose first_line is {max(books)}, but {file.name} has {last} lines"
            raise CorpusError(what, where=file.with_name(BOOKS))

    def _check_markup(self) -> None:
        if self.marked > MARKED * self.lines:
            what = f"has markup ({self.marked} of the first {self.lines} lines do)"
            todo = "Take the markup out: convert the files to plain text, one sentence a line."
            raise CorpusError(what, where=self.first_marked, expected="plain text", todo=todo)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = files_in(path, *(f"*{ending}" for ending in _ENDINGS))
        if not files:
            raise CorpusError("has no text file", where=path, expected=" or ".join(_ENDINGS), todo=_TODO)
        names = {file.name for file in files}
        if both := [name for name in sorted(names) if f"{name}.gz" in names]:
            raise CorpusError(f"has {both[0]} and {both[0]}.gz", where=path, expected="one of both")
        return files
    if not path.exists():
        raise CorpusError("does not exist", where=path, todo=_TODO)
    return [path]


def _books(folder: Path, files: list[Path]) -> dict[str, set[int]]:
    """Return the first lines of books by file, from ``books.csv``; none without one."""
    place = folder / BOOKS
    if not place.is_file():
        return {}
    names = [file.name for file in files]
    books: dict[str, set[int]] = {}
    for where, (name, first) in _BOOKS.rows(place):
        name = name or (names[0] if len(names) == 1 else "")
        if name not in names:
            expected = f"a column file: {and_more(names, 5)}"
            raise CorpusError(f"names the file {short(name)}", where=where, expected=expected)
        books.setdefault(name, set()).add(whole(first, where, "first_line", CorpusError, low=1))
    return books


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line; lines end in LF or CR LF."""
    expected = "one sentence a line"
    for number, text in lines(path, CorpusError, longest=4 * LONGEST_TEXT, expected=expected):
        if len(text) > LONGEST_TEXT:
            what, todo = f"has more than {LONGEST_TEXT} characters", "Cut the text into sentences."
            raise CorpusError(what, where=f"{path}, line {number}", expected=expected, todo=todo)
        yield number, text


def wrapped(lengths: Mapping[int, int]) -> int:
    """Return how many lines look broken at a width, as in Project Gutenberg's files; 0 if the text has another shape.

    Args:
        lengths: how often each length occurs among the lines before a line that is not blank; the key 0 is passed over.
    """
    total = sum(count for length, count in lengths.items() if length)
    if total < LEAST:
        return 0
    near = 0
    for width in range(NARROWEST, WIDEST + 1):
        near = max(near, sum(lengths.get(length, 0) for length in range(width - ROOM, width + 1)))
    return near if near >= SHARE * total else 0


def stories(world: World, count: int, seed: int) -> Iterator[list[str]]:
    """Yield stories, each as the list of its sentences, which end in `` .``."""
    for number in range(count):
        yield _story(world, stream(world, "story", seed, number))


def _story(world: World, rng: random.Random) -> list[str]:
    shape = world.shapes[rng.choice(list(world.shapes))]
    colour = world.colours[rng.choice(list(world.colours))]
    size = world.size_words[rng.choice(list(world.size_words))]
    background = rng.choice(list(_backgrounds(world).values()))
    count = rng.choice(list(world.counts))
    places = list(world.places.values())
    place, kind, sentences = rng.randrange(len(places)), "seen", []
    for _ in range(rng.choice(LENGTHS)):
        thing = rng.choice(shape.one if count == 1 else shape.many)
        be = "is" if count == 1 else "are"
        if kind == "seen":
            words = [rng.choice(size.words), rng.choice(colour.words), thing]
            number = rng.choice(world.counts[count])
            if number == "a" and words[0][0] in "aeiou":
                number = "an"
            start = ["There", be, number, *words]
        else:
            # Behind `the` one object has no number.
            numerals = [""] if count == 1 else [words.removeprefix("a ") for words in world.counts[count]]
            start = ["The", rng.choice(numerals), thing, be, "still" if kind == "stays" else "now"]
        end = [rng.choice(places[place].words), rng.choice(background), "."]
        sentences.append(" ".join(word for word in [*start, *end] if word))
        kind = rng.choices(list(KINDS[kind]), list(KINDS[kind].values()))[0]
        if kind == "moves":
            place = (place + (1 if rng.random() < ONWARD else -1)) % len(places)
    return sentences


def _backgrounds(world: World) -> dict[str, list[str]]:
    """Return the words of each background that name no colour, such as `green hills`; all if each of them does."""
    colours = {word for colour in world.colours.values() for word in colour.words}
    scenes = {}
    for name, background in world.backgrounds.items():
        plain = [words for words in background.words if colours.isdisjoint(words.split())]
        scenes[name] = plain or background.words
    return scenes
