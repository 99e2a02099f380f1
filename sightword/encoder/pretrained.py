"""Encoders by name: those of the package, folders, names of a hub, and archives at an address, kept in the cache."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path

from sightword import machine
from sightword.errors import DownloadError, EncoderError, SetupError
from sightword.io.files import Pathish, atomic_folder
from sightword.io.saved import Format
from sightword.messages import did_you_mean, first_line, install_extra, quote

log = logging.getLogger(__name__)

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
    """Return whether a text is the name of an encoder of the package or of the hub, or an address."""
    return name in packaged() or "://" in name or is_hub_name(name)


def find_encoder(name: Pathish, sha256: str | None = None, revision: str | None = None) -> Path:
    """Return the folder of an encoder.

    Args:
        name: the name of an encoder of the package, which comes before a folder of this name (``./flickr8k`` is the
            folder, and so is a :class:`~pathlib.Path`); a folder; ``owner/name`` or ``owner/name@revision`` of the
            Hugging Face hub, where neither this path nor its first part is a folder; or the address (``https://``,
            ``http://``, ``file://``) of a zip, tar or tar.gz archive that holds such a folder.
        sha256: of the archive at an address, where the address does not end in ``#sha256=...``. The archive is
            downloaded once: ``SIGHTWORD_STORE`` keeps it unpacked.
        revision: a branch, a tag or a commit of the hub's repository; None: its branch ``main``.

    Raises:
        EncoderError: there is no such name, the hash is missing or is none, or the archive or the repository holds no
            whole encoder.
        DownloadError: the encoder cannot be downloaded, or the archive has another hash.
        SetupError: the packages for downloads are not installed.
    """
    hub = isinstance(name, str) and "://" not in name and name not in packaged() and is_hub_name(name)
    if revision is not None and not hub:
        what, expected = "revision is for an encoder of the hub", "a name such as owner/name"
        raise EncoderError(what, where=quote(str(name))[1:-1], expected=expected)
    if isinstance(name, str) and "://" in name:
        return _at_address(name, sha256)
    if sha256 is not None:
        todo = "Leave sha256 out: the SHA256SUMS of the folder are checked."
        raise EncoderError("sha256 is for an archive at an address", where=name, todo=todo)
    if not isinstance(name, str):
        return Path(name)
    if name in packaged():
        return PACKAGED / name
    if hub:
        return from_hub(name, revision)
    if "/" in name or os.path.exists(name):  # noqa: PTH110 - False for a text that is no path at all
        return Path(name)
    raise no_such_encoder(name, "the folder of an encoder, or an address")


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
    """Return whether a text is like a name of the hub, and no path: its first part is no folder."""
    found = re.fullmatch(r"(\w[\w.-]*)/\w[\w.-]*(@\S+)?", name)
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
    except (errors.HfHubHTTPError, OSError) as error:
        raise DownloadError(f"cannot be downloaded ({first_line(error)})", where=name) from None


def _at_address(address: str, sha256: str | None) -> Path:
    """Return the unpacked archive of an address, from the cache or downloaded."""
    url, _, fragment = address.partition("#")
    digest = (sha256 or fragment.removeprefix("sha256=")).lower()
    if not re.fullmatch("[0-9a-f]{64}", digest):
        found = f"the sha256 of the archive is {quote(digest)}" if digest else "the sha256 of the archive is missing"
        todo = f"Give sha256=..., or {url}#sha256=..., with the hash that its publisher names."
        raise EncoderError(found, where=url, expected="64 hex digits", todo=todo)
    downloaded = machine.current().local_store / "encoders"
    place, archive = downloaded / digest, downloaded / f"{digest}.archive"
    if kept := _kept(place):
        return kept
    try:
        from filelock import FileLock

        from sightword.io.transfer import retrieve, writing
        from sightword.io.unpacking import unpack
    except ModuleNotFoundError as error:
        what = f"{error.name} is not installed, which downloads need"
        raise SetupError(what, todo=install_extra("pipeline")) from None
    lock = downloaded / f"{digest}.lock"
    with writing(downloaded), contextlib.ExitStack() as stack:
        downloaded.mkdir(parents=True, exist_ok=True)
        stack.enter_context(FileLock(lock))
        stack.callback(lock.unlink, missing_ok=True)
        if kept := _kept(place):  # another process has finished meanwhile
            return kept
        if place.is_dir():
            log.warning("%s: is damaged; the encoder is downloaded again", place)
        log.info("downloading %s", url)
        retrieve(url, archive, begins=digest)
        stack.callback(archive.unlink, missing_ok=True)
        try:
            with atomic_folder(place) as folder:
                unpack(archive, folder, {"/**": "."})
                _whole(folder)
        except (DownloadError, EncoderError) as error:
            todo = "The hash is right: ask its publisher for another archive."
            raise EncoderError(f"holds no whole encoder ({error.what})", where=url, todo=todo) from None
    return _whole(place)


def _kept(place: Path) -> Path | None:
    """Return the folder of an encoder in the cache; None if it is absent or damaged."""
    with contextlib.suppress(EncoderError):
        return _whole(place)
    return None


def _whole(place: Path) -> Path:
    """Return the folder of the encoder in an unpacked archive, all of whose listed files are the saved ones."""
    found = [place / "encoder.json", *sorted(place.glob("*/encoder.json"))]
    folder = next((path.parent for path in found if path.is_file()), place)
    require_encoder(folder)
    ENCODER.read(folder)
    return folder
