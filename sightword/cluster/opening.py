"""Opens Ray: the cluster that ``RAY_ADDRESS`` names, or a local cluster that ends with the run."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sightword.cluster.nodes import SAME_VERSIONS
from sightword.cluster.workers import Cluster, Size
from sightword.errors import SetupError
from sightword.machine import Machine
from sightword.messages import first_line, install_extra, plural
from sightword.messages import size as amount

log = logging.getLogger(__name__)

ANSWER = 10.0
"""The longest wait for an answer of a cluster's address, in seconds."""
OBJECTS = 1 << 28
"""Bytes of shared memory in a local cluster, for results on their way."""
SHARED = "/dev/shm"  # noqa: S108 - no file of a guessed name is made there
"""Where Ray takes these bytes; it takes them in its temporary folder where there are fewer."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # as Ray 3 will do; without the variable Ray warns
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_gcs_rpc_server_connect_timeout_s": "10",
}
_LOCAL = {"RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0", "RAY_preallocate_plasma_memory": "1"}
"""A local cluster takes work from this process alone, by a token, its workers have the priority of this process, and
its shared memory is taken at once: others that fill /dev/shm later would end Ray's processes without a word."""


@contextlib.contextmanager
def opened(machine: Machine, size: Size) -> Iterator[Cluster]:
    """Yield the cluster, for workers of this size; leave or end it at exit.

    A local cluster has as many CPUs as ``machine`` has workers, at least enough for one worker of this size.

    Raises:
        SetupError: Ray is not installed, or there is no cluster of this version at the address.
        KeyboardInterrupt: after SIGTERM while Ray starts; later the handler from before is there.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    # Ray reads the variables when it is imported, and its processes inherit them.
    for name, value in (_QUIET if address else _QUIET | _LOCAL | {"RAY_AUTH_TOKEN": secrets.token_hex()}).items():
        os.environ.setdefault(name, value)
    with contextlib.ExitStack() as stack:
        ray = _imported()
        options: dict[str, Any] = {"configure_logging": False, "log_to_driver": False, "logging_level": logging.ERROR}
        if address:
            _check_answer(address)
        else:
            _check_room(SHARED, tempfile.gettempdir())
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True))
            cpus = max(machine.workers, size.cpus)
            options |= {"num_cpus": cpus, "object_store_memory": OBJECTS, "_temp_dir": folder}
            options |= {"include_dashboard": False}
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # such as that a task is tried again
        handler = signal.getsignal(signal.SIGTERM)
        _connect(ray, address or "local", options)
        stack.callback(ray.shutdown)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # at Ray's own the process aborts with frames of C++
        cluster = Cluster(ray, address, size, machine.ray_workers)
        log.info("%s, with room for %s", cluster, plural(cluster.slots(), "worker"))
        yield cluster


def _imported() -> Any:
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise SetupError("the engine ray: Ray is not installed", todo=install_extra("ray")) from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _check_room(*folders: str) -> None:
    """Raise SetupError unless a folder that Ray may take has room for :data:`OBJECTS`: Ray itself does not look."""
    free = {folder: shutil.disk_usage(folder).free for folder in folders if Path(folder).is_dir()}
    if max(free.values()) < OBJECTS:
        what = f"Ray on this machine: {' and '.join(f'{one} has {amount(free[one])}' for one in free)} free"
        raise SetupError(what, expected=f"{amount(OBJECTS)} in one of them", todo="Make room there, or set TMPDIR.")


def _check_answer(address: str) -> None:
    """Raise SetupError unless something answers at an address: Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise SetupError(
            f"RAY_ADDRESS={address}: not an address of a cluster", expected="HOST:PORT, as `ray start --head` prints it"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER) as connection:
            if not connection.recv(1):  # a server of gRPC, as Ray's is, speaks first
                raise OSError("the connection was closed")
    except (OSError, OverflowError) as error:
        raise _silent(address, getattr(error, "strerror", None) or error) from None


def _connect(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    with _standard_error() as said:
        try:
            ray.init(address=address, **options)
            return
        except SystemExit:  # of Ray's handler of SIGTERM
            raise KeyboardInterrupt from None
        except Exception as error:  # the class of what Ray raises for a node that does not start
            named = isinstance(error, (OSError, RuntimeError, ValueError, ray.exceptions.RayError))
            if not named and type(error) is not Exception:  # a fault of our own
                raise
            failure, where = error, f"RAY_ADDRESS={address}"
        said.seek(0)
        refused = b"InvalidAuthToken" in said.read()
    if address == "local":
        todo = "Run the stage again when the machine has less to do, or without SIGHTWORD_ENGINE."
        raise SetupError(f"Ray cannot be started on this machine ({first_line(failure).rstrip('.')})", todo=todo)
    if refused:
        todo = "Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN (or the file ~/.ray/auth_token) to that of the cluster."
        raise SetupError("the cluster refuses the token of this process", where=where, todo=todo)
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", str(failure))
    if len(versions) == 2:  # of the cluster, and of this process
        theirs, own = (f"Ray {version} and Python {python}" for version, python in versions)
        raise SetupError(f"the cluster has {theirs}", where=where, expected=f"{own}, as here", todo=SAME_VERSIONS)
    raise _silent(address, first_line(failure))


@contextlib.contextmanager
def _standard_error() -> Iterator[BinaryIO]:
    """Yield a file that takes standard error: Ray's C++ alone knows that a token is wrong, and says so each second."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _silent(address: str, why: object) -> SetupError:
    todo = "Start the cluster (`ray start --head`), run on one of its nodes, or unset RAY_ADDRESS for a local cluster."
    return SetupError(f"no cluster of Ray answers ({why})", where=f"RAY_ADDRESS={address}", todo=todo)
