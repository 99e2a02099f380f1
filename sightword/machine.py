"""Settings of the machine, from environment variables: they change speed and at most the last bits of results.

The settings are not hashed parameters, so machines with different settings share their results.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from sightword.errors import SetupError

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""The variables with the credentials of a store, by the protocol of its address."""


@dataclass(frozen=True)
class Machine:
    """The device, process and thread counts, and folders of this machine."""

    device: str
    """``SIGHTWORD_DEVICE``: ``auto`` (CUDA where there is one), ``cpu``, ``cuda`` or ``cuda:N``."""
    workers: int
    """``SIGHTWORD_WORKERS``: processes that read pictures; default: the cores available to this process."""
    threads: int
    """``SIGHTWORD_THREADS``: threads of one tensor operation; in extraction, pictures computed in parallel; default:
    the cores available to this process."""
    store: str
    """``SIGHTWORD_STORE``: the feature store: a folder, or an address such as ``s3://bucket/prefix``; default: a folder
    in the user's cache."""
    cache: Path
    """``SIGHTWORD_CACHE``: the folder of copies from a store in object storage; default: in the user's cache."""
    scratch: Path
    """``SIGHTWORD_SCRATCH``: the folder of unfinished training runs; default: in the user's cache."""
    engine: str = "torch"
    """``SIGHTWORD_ENGINE``: what computes features: ``torch``, on a CPU ``openvino``, or ``ray``."""

    @property
    def local_store(self) -> Path:
        """A folder for files beside the features: the store, or the cache of a store in object storage."""
        return self.cache if is_address(self.store) else Path(self.store)


def current() -> Machine:
    """Read the machine's settings from the environment. SetupError: a variable has an invalid value."""
    device = os.environ.get("SIGHTWORD_DEVICE") or "auto"
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise SetupError(f"SIGHTWORD_DEVICE={device}: no such device", expected="auto, cpu, cuda or cuda:N")
    engine = os.environ.get("SIGHTWORD_ENGINE") or "torch"
    if engine not in ("torch", "openvino", "ray"):
        raise SetupError(f"SIGHTWORD_ENGINE={engine}: no such engine", expected="torch, openvino or ray")
    return Machine(
        device=device,
        workers=_count("SIGHTWORD_WORKERS", cores(), least=0),
        threads=threads(),
        store=_store("SIGHTWORD_STORE"),
        cache=_folder("SIGHTWORD_CACHE", "copies"),
        scratch=_folder("SIGHTWORD_SCRATCH", "scratch"),
        engine=engine,
    )


def processor() -> str:
    """Return the processor's name, family and model, where known: one name may stand for several models."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:  # no Linux
        text = ""
    found = {name.strip(): value.strip() for name, _, value in (one.partition(":") for one in text.splitlines())}
    name = found.get("model name") or platform.processor() or platform.machine()
    kind = [f"{word} {found[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in found]
    return f"{name} ({', '.join(kind)})" if kind else name


def threads() -> int:
    """Return the number of threads: as set, or the number of cores."""
    return _count("SIGHTWORD_THREADS", cores(), least=1)


def cores() -> int:
    """Return the number of cores available to this process: the least of its affinity and its quota, whole ones."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(able, quota())))


def quota(root: Path = Path("/")) -> float:
    """Return how many CPUs Linux's control groups (cgroups, version 1 and 2) give this process; infinity without limit.

    The limit of each group above holds too, so the least counts. A container sees its group at the top.

    Args:
        root: the root of the file system.
    """
    try:
        lines = os.fsdecode((root / "proc/self/cgroup").read_bytes()).split("\n")
    except OSError:  # no Linux
        return math.inf
    least = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2) if line.count(":") > 1 else ("", "none", "")
        if not controllers or "cpu" in controllers.split(","):
            top = root / ("sys/fs/cgroup/cpu" if controllers else "sys/fs/cgroup")
            parts = [] if ".." in path.split("/") else path.strip("/").split("/")
            least = min([least, *(_limit(top.joinpath(*parts[:depth])) for depth in range(len(parts) + 1))])
    return least


def _limit(group: Path) -> float:
    """Return the limit of one control group, in CPUs; infinity where none can be read."""
    unreadable = (OSError, ValueError, ZeroDivisionError)
    with contextlib.suppress(*unreadable):
        allowed, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        return math.inf if allowed == "max" else int(allowed) / int(period)
    with contextlib.suppress(*unreadable):
        files = [group / f"cpu.cfs_{name}_us" for name in ("quota", "period")]
        time, every = (int(file.read_text(encoding="utf-8")) for file in files)
        return time / every if time > 0 else math.inf
    return math.inf


def _count(variable: str, default: int, *, least: int) -> int:
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise SetupError(f"{variable}={text}: not a usable number", expected=f"a whole number of at least {least}")
    return int(text)


def is_address(text: str) -> bool:
    """Return whether a text is an address, such as ``s3://bucket/prefix``, and no path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def split_address(address: str) -> tuple[str, str]:
    """Return the protocol of a store's address, and its bucket and prefix.

    SetupError: the address is of another kind, or holds credentials, which the message does not repeat.
    """
    protocol, _, path = address.partition("://")
    place = "CONTAINER/PREFIX" if protocol == "az" else "BUCKET/PREFIX"
    if protocol not in CREDENTIALS:
        expected = "a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
        raise SetupError(f"{protocol}:// is no address of a store", expected=expected)
    if re.search("[@?#]", path):
        what = f"the address of the store ({protocol}://...) holds more than a bucket and a prefix"
        todo = f"Credentials are given by {CREDENTIALS[protocol]}."
        raise SetupError(what, expected=f"{protocol}://{place}", todo=todo)
    if not path.strip("/"):
        raise SetupError(f"{address}: names no bucket", expected=f"{protocol}://{place}")
    return protocol, path.strip("/")


def _store(variable: str) -> str:
    named = os.environ.get(variable, "")
    return "://".join(split_address(named)) if is_address(named) else str(_folder(variable))


def _folder(variable: str, below: str = "") -> Path:
    named = os.environ.get(variable)
    try:
        return Path(named).expanduser().absolute() if named else caches() / "sightword" / below
    except RuntimeError:
        what = f"{variable}={named}: there is no such user" if named else "this user has no home folder for caches"
        raise SetupError(what, todo=f"Set {variable} to a folder.") from None


def caches() -> Path:
    """Return the folder of the user's caches; RuntimeError for a user without a home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
