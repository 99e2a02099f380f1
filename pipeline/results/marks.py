"""The marks behind the names of rows in tables of results, and the lines that explain the marks."""

from __future__ import annotations

from pipeline.results.published_rows import PublishedScores
from pipeline.results.records import Row
from sightword.messages import and_more

EARLIER = "Earlier code:"
"""The beginning of the note of a row that today's code does not make by the row's recipe: the reason, then after
a semicolon what else the reader needs."""
UNHASHED = "§ No hashes of inputs and outputs: made before rows kept them, or by no run of a pipeline."
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Legend:
    """Gives marks to rows, and explains the marks that it gave."""

    def __init__(self, *, on: bool = True) -> None:
        self._on = on
        self._private: dict[str, dict[str, None]] = {}
        self._earlier: dict[str, None] = {}
        self._unhashed = False
        self._notes: dict[str, None] = {}

    def marks(self, *sources: Row | PublishedScores | None) -> str:
        """Return the marks behind the name of one row, or of several in one line."""
        marks = dict.fromkeys(mark for source in sources for mark in self._marks_of(source))
        return f" {''.join(marks)}" if marks else ""

    def _marks_of(self, source: Row | PublishedScores | None) -> list[str]:
        found: list[str] = []
        if not self._on or source is None:
            return found
        if isinstance(source, Row) and source.private:
            for path, why in source.private.items():
                self._private.setdefault(why, {})[f"`{path}`"] = None
            found.append("†")
        note = source.note or ""
        if note.startswith(EARLIER):
            why, _, note = note.removeprefix(EARLIER).strip().partition("; ")
            self._earlier[why] = None
            found.append("‡")
        if isinstance(source, Row) and not source.hashed:
            self._unhashed = True
            found.append("§")
        if note:
            unmade = "No recipe makes the row. " if isinstance(source, Row) and source.recipe is None else ""
            note = unmade + _sentence(note)
            self._notes[note] = None
            found.append(str([*self._notes].index(note) + 1).translate(_RAISED))
        return found

    def lines(self) -> list[str]:
        """Return a paragraph for each mark."""
        private = [_sentence(f"{and_more(paths, 1)}: {why}") for why, paths in self._private.items()]
        earlier = [_sentence(why) for why in self._earlier]
        found = [f"† Neither git nor `sightword fetch` has these inputs. {' '.join(private)}"] if private else []
        found += [f"‡ Today's code gives other numbers by the same recipe. {' '.join(earlier)}"] if earlier else []
        found += [UNHASHED] if self._unhashed else []
        found += [f"{str(number).translate(_RAISED)} {note}" for number, note in enumerate(self._notes, 1)]
        return [f"\n{one}" for one in found]


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
