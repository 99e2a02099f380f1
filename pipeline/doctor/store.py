"""Check that a store in object storage can be reached, read and written."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, failure, good
from sightword import machine
from sightword.errors import SetupError, StoreError


def check_store(_context: Context) -> Iterator[Finding]:
    """Try out a store at an address; the check of disks is that of a store in a folder."""
    try:
        store = machine.current().store
    except SetupError:
        return  # the check of settings reports the error
    if not machine.is_address(store):
        yield good(f"the store is the folder {store}")
        return
    from sightword.places.requests import Requests

    try:
        objects, name = Requests(store), f"probe-{secrets.token_hex(6)}"
        objects.folders("features")
        objects.put_and_compare(name, secrets.token_bytes(64))
        objects.remove(name)
    except (SetupError, StoreError) as error:
        yield failure(error, "Correct SIGHTWORD_STORE.")
    else:
        yield good(f"the store {store} answers, and can be written")
