"""The errors that Sightword raises on purpose, as one tree.

The command line and the stages catch :class:`SightwordError` and print its message instead of a traceback. A message
states the problem, the place, the expected value and the remedy.
"""

from __future__ import annotations

import re

from sightword.messages import bounded, short, without_credentials


class SightwordError(Exception):
    """The root of the tree; its text is meant for the user: bounded whatever a file holds, and without credentials.

    Args:
        what: the problem, as one short sentence without a full stop.
        where: the file, row or key with the problem.
        expected: an acceptable value.
        todo: the remedy, as a full sentence.
    """

    def __init__(
        self, what: str, *, where: object = None, expected: str | None = None, todo: str | None = None
    ) -> None:
        self.what = bounded(without_credentials(what))
        self.where, self.expected, self.todo = (
            None if part is None else bounded(without_credentials(str(part))) for part in (where, expected, todo)
        )
        text = self.what if self.where is None else f"{self.where}: {self.what}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.todo is not None:
            text += f". {self.todo}".replace(". \n", ".\n")
        super().__init__(text)


def message_of(error: BaseException) -> SightwordError | None:
    """Return the message of an error of this tree, or of a library that memory does not suffice; else None."""
    if isinstance(error, SightwordError):
        return error
    said = " ".join(str(error).rpartition("Allocator: ")[2].split())
    told = "can't allocate memory|not enough memory|out of memory|Storage size calculation overflowed"
    if not isinstance(error, MemoryError) and not re.search(told, str(error)):
        return None
    todo = "Choose smaller widths or batches, or take a machine with more memory."
    return SetupError(f"memory does not suffice ({short(said) or 'of Python'})", todo=todo)


class ParamsError(SightwordError):
    """A parameter file has unknown, missing or wrong entries."""


class SetupError(SightwordError):
    """This machine lacks something: a package, a device, disk space, a setting."""


class FileFormatError(SightwordError):
    """A file is missing, damaged, half-written or of another format."""


class CorpusError(SightwordError):
    """A published corpus cannot be read."""


class PictureError(SightwordError):
    """A picture cannot be decoded, or too many were rejected."""


class WeightsError(SightwordError):
    """The weights of a backbone are missing or differ from the requested weights."""


class FeaturesError(SightwordError):
    """Features are missing, incomplete, or belong to other pictures."""


class StoreError(SightwordError):
    """The feature store cannot be read or written."""


class CaptionsError(SightwordError):
    """Captions do not fit their vocabulary, pictures or encoder."""


class TrainingError(SightwordError):
    """A training run cannot start or continue."""


class EncoderError(SightwordError):
    """A saved encoder or snapshot cannot be used, or its input cannot be encoded."""


class ScoringError(SightwordError):
    """Embeddings cannot be scored."""


class SemanticsError(SightwordError):
    """A semantic data set cannot be read, or an encoder's embeddings cannot be evaluated."""


class LineageError(SightwordError):
    """The history of a number is unknown: the result does not exist, or a lock file cannot be read."""


class DownloadError(SightwordError):
    """A published file cannot be downloaded, has the wrong hash, or is an unsafe archive."""


class SweepError(SightwordError):
    """A sweep cannot start, or its experiments cannot be kept."""


class SearchError(SightwordError):
    """A query cannot be answered."""


class ReportError(SightwordError):
    """A report cannot be made from the results present."""
