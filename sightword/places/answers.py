"""Checks the answers of object storage, and turns its errors into messages with a remedy.

A status of success is not trusted: an answer must have the fields of its kind, so that a web server's page is no empty
listing. Messages never contain credentials: only the error code and a redacted text.
"""

from __future__ import annotations

import errno
import os
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sightword.errors import PictureError, SightwordError, StoreError
from sightword.machine import CREDENTIALS
from sightword.messages import first_line, short


class Use(NamedTuple):
    """What objects are used for, in the words of messages."""

    name: str
    setting: str
    """The setting with the address."""
    error: type[SightwordError]
    stays: str
    """What a failure in the middle does not undo."""

    @property
    def check(self) -> str:
        """The remedy for a wrong address."""
        return f"Check the address ({self.setting}, AWS_ENDPOINT_URL) and the network."


STORE = Use("the store", "SIGHTWORD_STORE", StoreError, "Stored features stay, and the next run continues with them.")
PICTURES = Use("the pictures", "corpus.pictures", PictureError, "Run the command again when the server answers.")

_FIELDS = {"ListObjectsV2": ("IsTruncated", "KeyCount", "MaxKeys", "Name"), "PutObject": ("ETag",)}
"""Fields of S3's answers; a server gives at least one of them."""
_UNKNOWN_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidClientTokenId")
_NO_KEYS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound")
_CLOCK = ("RequestTimeTooSkewed", "RequestExpired")
_REGION = ("PermanentRedirect", "TemporaryRedirect", "Redirect", "301", "307", "AuthorizationHeaderMalformed")
_TEMPORARY = (408, 425, 429)
_FINAL = (errno.EINVAL, errno.EPERM, errno.ENOSYS, getattr(errno, "EREMCHG", errno.ENOENT))


class OtherAnswerError(ValueError):
    """The answer of a server of another kind."""


def check_answers(client: Any) -> None:
    """Let a client of botocore raise OtherAnswerError for an answer that is none of S3; may be called again."""
    events = {f"after-call.s3.{operation}": _check_answer for operation in _FIELDS}
    for event, check in {**events, "response-received.s3.HeadBucket": _check_redirect}.items():
        client.meta.events.register(event, check, unique_id=f"sightword-{event}")


def _check_answer(http_response: Any, parsed: dict[str, Any], model: Any, **_: Any) -> None:
    if not parsed.keys() & {*_FIELDS[model.name], "Error"}:
        kind = short(http_response.headers.get("content-type") or "a text of no type")
        what = "listing" if model.name == "ListObjectsV2" else "confirmation of a write"
        raise OtherAnswerError(f"the answer is {kind}, not S3's {what}")


def _check_redirect(parsed_response: dict[str, Any] | None, **_: Any) -> None:
    """Refuse a redirect of a bucket that names no region: botocore asks the bucket again and again then."""
    found = (parsed_response or {}).get("ResponseMetadata", {})
    if found.get("HTTPStatusCode") in (301, 302, 307) and "x-amz-bucket-region" not in found["HTTPHeaders"]:
        raise OtherAnswerError("the answer is a redirect that names neither region nor place")


def is_final(error: Exception) -> bool:
    """Return whether a request is never tried again; a ValueError is of the settings, such as the address."""
    wrong = isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno in _FINAL)
    status = getattr(error, "status", 0)  # of a web server
    wrong = wrong or (isinstance(status, int) and 400 <= status < 500 and status not in _TEMPORARY)
    return wrong or type(error).__name__ in _NO_KEYS or code(error) in _CLOCK


def refused(use: Use, address: str, done: str, error: PermissionError) -> SightwordError:
    """Return the error of objects that may not be ``done``: read, written or changed."""
    if found := _clock_or_region(use, address, error):
        return found
    why, todo = code(error) or "access denied", _credentials(address)
    if why in _UNKNOWN_KEYS:
        what = f"the server does not accept the credentials ({why})"
        return use.error(what, where=address, todo=f"Check {todo}.")
    todo = f"Ask for the permission, or give other credentials: {todo}."
    return use.error(f"{use.name} may not be {done} with these credentials ({why})", where=address, todo=todo)


def failed(
    use: Use, address: str, done: str, error: Exception, seconds: float = 0.0, *, answered: bool = False
) -> SightwordError:
    """Return the error of objects that cannot be ``done``; ``answered`` says that earlier requests went well."""
    if type(error).__name__ in _NO_KEYS:
        todo = f"Set {_credentials(address)}."
        return use.error(f"there are no credentials for {use.name}", where=address, todo=todo)
    if found := _clock_or_region(use, address, error):
        return found
    tried = f", tried for {seconds:.0f} s" if seconds >= 1 else ""
    what = f"{use.name} cannot be {done} ({told(error)}{tried})"
    todo = use.stays if answered and not isinstance(error, OtherAnswerError) else use.check
    return use.error(what, where=address, todo=todo)


def _clock_or_region(use: Use, address: str, error: Exception) -> SightwordError | None:
    """Return the error of a wrong clock, or of a bucket in another region; None for others."""
    why, response = code(error), _response(error)
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    text = str(response.get("Error", {}).get("Message", ""))
    if why in _CLOCK:
        here = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        there = f", the server's {short(headers['date'])}" if headers.get("date") else ""
        what = f"this machine's clock is wrong ({why}): it says {here}{there}"
        return use.error(what, where=address, todo="Set the clock (`timedatectl set-ntp true`).")
    if why not in _REGION or (why == "AuthorizationHeaderMalformed" and "region" not in text):
        return None
    expecting = re.search(r"expecting '([\w-]+)'", text)
    region = headers.get("x-amz-bucket-region") or (expecting[1] if expecting else "")
    what = f"the bucket is in {f'the region {short(region)}' if region else 'another region'} ({why})"
    todo = f"Set AWS_DEFAULT_REGION{f'={short(region)}' if region else ' to that of the bucket'}; AWS_ENDPOINT_URL, "
    return use.error(what, where=address, todo=f"{todo}if it is set, must be of this region too.")


def told(error: Exception) -> str:
    """Return what an error says, without credentials."""
    if isinstance(error, OtherAnswerError):
        return str(error)
    why, said = code(error), _response(error).get("Error", {}).get("Message") or getattr(error, "strerror", None)
    text = short(without_credentials(first_line(said or error)), 200).rstrip(".")
    return f"{why}: {text}" if why and why not in text else text


def code(error: BaseException) -> str:
    """Return the service's code of an error, such as ``AccessDenied``; empty without one."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def _response(error: BaseException) -> dict[str, Any]:
    """Return the service's answer that was an error; empty without one."""
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None)
    return response if isinstance(response, dict) else {}


def _credentials(address: str) -> str:
    protocol = address.partition("://")[0]
    return CREDENTIALS.get(protocol, "an address that needs no credentials")


def without_credentials(text: str) -> str:
    """Return a text without the credentials in addresses and in this process's variables."""
    text = re.sub(r"(\w+://)[^/@\s]*@", r"\1***@", text)
    text = re.sub(r"(\w+://[^\s?]*)\?[^\s\"']*", r"\1", text)
    secret = re.compile(r"(ACCESS_KEY|SECRET|TOKEN|PASSWORD|ACCOUNT_KEY|CONNECTION_STRING)")
    for name, value in os.environ.items():
        if len(value) > 3 and secret.search(name):
            text = text.replace(value, "***")
    return text
