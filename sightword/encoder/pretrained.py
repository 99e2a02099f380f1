"""Encoders by name: those of the package, folders, and names of the Hugging Face hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sightword.errors import DownloadError, EncoderError, SetupError
from sightword.io.files import Pathish
from sightword.io.saved import Format
from sightword.messages import did_you_mean, first_line, install_extra, quote

PACKAGED = Path(__file__).parents[1] / "pretrained"
"""The encoders of the package, each a folder."""
HUB_FILES = ("*.json", "*.safetensors", "SHA256SUMS", "README.md", "LICENSE")
"""The files of an encoder's folder; others of a repository of the hub are not downloaded."""
WHOLE = "Take the folder whole: run `dvc checkout` in its project, or copy it again."
ENCODER = Format("encoder.json", 5, WHOLE)
"""The format of the folders of encoders."""
_MADE = "`dvc repro` makes models/encoder; the name flickr8k stands for an encoder that comes with Sightword."
_GROUNDED = "`make grounded` makes it (without make: `rm -f grounded/.dvcignore && dvc repro grounded/dvc.yaml`)."


def packaged() -> list[str]:
    """Return the names of the encoders of the package."""
    return sorted(path.parent.name for path in PACKAGED.glob("*/encoder.json"))


def is_named(name: str) -> bool:
    """Return whether a text is the name of an encoder of the package or of the hub."""
    return name in packaged() or is_hub_name(name)


def find_encoder(name: Pathish, revision: str | None = None) -> Path:
    """Return the folder of an encoder.

    Args:
        name: the name of an encoder of the package, which comes before a folder of this name (``./flickr8k`` is the
            folder, and so is a :class:`~pathlib.Path`); a folder; or ``owner/name`` or ``owner/name@revision`` of the
            Hugging Face hub, where neither this path nor its first part is a folder.
        revision: a branch, a tag or a commit of the hub's repository; None: its branch ``main``.

    Raises:
        EncoderError: there is no such name, or the repository holds no encoder.
        DownloadError: the hub cannot be reached, and its cache has no copy.
        SetupError: huggingface_hub is not installed.
    """
    hub = isinstance(name, str) and name not in packaged() and is_hub_name(name)
    if revision is not None and not hub:
        what, expected = "revision is for an encoder of the hub", "a name such as owner/name"
        raise EncoderError(what, where=quote(str(name))[1:-1], expected=expected)
    if not isinstance(name, str):
        return Path(name)
    if name in packaged():
        return PACKAGED / name
    if hub:
        return from_hub(name, revision)
    if "/" in name or os.path.exists(name):  # noqa: PTH110 - False for a text that is no path at all
        return Path(name)
    raise no_such_encoder(name, "the folder of an encoder, or owner/name of the hub")


def no_such_encoder(name: str, others: str) -> EncoderError:
    """Return the error of an unknown name, with the names of the package; ``others`` says what else is accepted."""
    names = packaged()
    todo = did_you_mean(name, names) or None
    return EncoderError("no such encoder", where=name or "''", expected=", ".join([*names, others]), todo=todo)


def require_encoder(place: Path) -> None:
    """Raise EncoderError, which says where encoders come from, if a folder holds none."""
    if (place / "encoder.json").is_file():
        return
    what, todo = "is no folder of an encoder", _MADE
    if place.is_dir():
        what = "holds no encoder (encoder.json is missing)"
    elif not place.exists():
        made = place.parts[:1] == ("models",)
        what = f"does not exist{' yet' * made}"
        todo = _GROUNDED if place.parts[:2] == ("models", "grounded") else _MADE
        if str(place) in packaged() or is_hub_name(str(place)):
            todo = f"SentenceEncoder.from_pretrained({str(place)!r}) loads the encoder of this name."
    raise EncoderError(what, where=place, todo=todo)


def is_hub_name(name: str) -> bool:
    """Return whether a text is like a name of the hub, in ASCII and short, and its first part is no folder."""
    found = re.fullmatch(r"(\w[\w.-]{,95})/\w[\w.-]{,95}(@\S+)?", name, re.ASCII)
    return found is not None and found[1] != "models" and not Path(found[1]).is_dir()


def from_hub(name: str, revision: str | None = None) -> Path:
    """Return the folder of an encoder of the hub, from the hub's cache or downloaded.

    Args:
        name: ``owner/name``, or ``owner/name@revision``.
        revision: a branch, a tag or a commit; None: that of the name, or the branch ``main``. Without a network, or
            with ``HF_HUB_OFFLINE=1``, the copy of the cache is taken.

    Raises:
        EncoderError: there is no such repository or revision, or it holds no encoder of Sightword.
        DownloadError: the hub cannot be reached, and the cache has no copy.
        SetupError: huggingface_hub is not installed.
    """
    try:
        import httpx2
        from huggingface_hub import errors, hf_hub_download, snapshot_download
    except ModuleNotFoundError:
        what = "is no folder, and huggingface_hub is not installed, which encoders of the Hugging Face hub need"
        raise SetupError(what, where=name, todo=install_extra("hub")) from None
    repository, _, version = name.partition("@")
    version = revision or version or "main"
    try:
        # One small file first: other models of the hub are large, and are refused before they are downloaded.
        first = Path(hf_hub_download(repository, "encoder.json", revision=version))
        return Path(snapshot_download(repository, revision=first.parent.name, allow_patterns=[*HUB_FILES]))
    except errors.GatedRepoError:
        todo = "Ask for access on its page, then run `hf auth login`."
        raise EncoderError("is open only to accounts that its owner admits", where=name, todo=todo) from None
    except errors.RepositoryNotFoundError:
        todo = "Correct the name, or run `hf auth login` if the repository is private."
        raise EncoderError("is neither a folder nor a repository of the hub", where=name, todo=todo) from None
    except errors.RevisionNotFoundError:
        expected = "a branch, a tag or a commit of the repository"
        raise EncoderError(f"has no revision {quote(version)}", where=repository, expected=expected) from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        what = "is no folder, the hub cannot be reached, and the hub's cache has no copy"
        raise DownloadError(what, where=name, todo="Repeat with a network, without HF_HUB_OFFLINE.") from None
    except errors.EntryNotFoundError:
        todo = f"For a model of sentence-transformers, use sentence_transformers.SentenceTransformer({repository!r})."
        raise EncoderError("is no encoder of Sightword (encoder.json is missing)", where=name, todo=todo) from None
    except errors.HFValidationError as error:
        raise EncoderError(f"is no name of the hub ({first_line(error)})", where=name) from None
    except (httpx2.HTTPError, OSError) as error:
        raise DownloadError(f"cannot be downloaded ({first_line(error)})", where=name) from None
