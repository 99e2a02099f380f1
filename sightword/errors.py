"""Every error Sightword raises on purpose: one tree, one sentence a class.

A user's mistake never shows a traceback: the command line and the stages catch
:class:`SightwordError` and print its message, which says what is wrong, where,
what was expected and what to do.
"""

from __future__ import annotations


class SightwordError(Exception):
    """The root of the tree; its text is meant for the user.

    Args:
        what: what is wrong, one short sentence without a full stop.
        where: the file, row or key it is about.
        expected: what would have been accepted.
        todo: what to do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object | None = None,
        expected: str | None = None,
        todo: str | None = None,
    ) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.expected = expected
        self.todo = todo
        text = what if self.where is None else f"{self.where}: {what}"
        if expected is not None:
            text += f"; expected {expected}"
        if todo is not None:
            text += f". {todo}"
        super().__init__(text)


class ParamsError(SightwordError):
    """A parameter file has unknown, missing or wrong entries."""


class SetupError(SightwordError):
    """This machine lacks something: a package, a device, disk space, a setting."""


class FileFormatError(SightwordError):
    """A file is missing, damaged, half-written or of another format."""


class CorpusError(SightwordError):
    """A corpus as its publishers ship it cannot be read."""


class PictureError(SightwordError):
    """A picture cannot be decoded, or too many were rejected."""


class WeightsError(SightwordError):
    """Weights of a backbone are missing or not those that were asked for."""


class FeaturesError(SightwordError):
    """Features are missing, incomplete, or do not belong to these pictures."""


class StoreError(SightwordError):
    """The store of features cannot be read or written."""


class CaptionsError(SightwordError):
    """Captions or their vocabulary do not fit what they are used with."""


class TrainingError(SightwordError):
    """A training cannot start or cannot go on."""


class EncoderError(SightwordError):
    """A saved encoder or snapshot cannot be used, or what it was given cannot be encoded."""


class ScoringError(SightwordError):
    """Embeddings cannot be scored."""


class SemanticsError(SightwordError):
    """A semantic data set cannot be read, or an encoder's answer cannot be judged."""


class LineageError(SightwordError):
    """The history of a number cannot be told: no such result, or a lock file that cannot be read."""


class DownloadError(SightwordError):
    """A published file cannot be had, is another one than it should be, or is an archive that may not be unpacked."""


class SweepError(SightwordError):
    """A sweep cannot start from what is there, or its experiments cannot be kept."""


class SearchError(SightwordError):
    """A query cannot be answered, or what it asks for is not there."""


class ReportError(SightwordError):
    """A report cannot be made from what is there."""
