"""Encoders of the Hugging Face hub, by ``owner/name`` or ``owner/name@revision``, in the hub's own cache."""

from __future__ import annotations

import re
from pathlib import Path

from sightword.errors import DownloadError, EncoderError, SetupError
from sightword.messages import first_line, install_extra, quote

FILES = ("*.json", "*.safetensors", "SHA256SUMS", "README.md", "LICENSE")
"""The files of an encoder's folder; others of a repository are not downloaded."""


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
        return Path(snapshot_download(repository, revision=first.parent.name, allow_patterns=[*FILES]))
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
