"""Settings of the machine, from environment variables: they change speed and at most the last bits of results.

The settings are not hashed parameters, so machines with different settings share their results.
"""

from __future__ import annotations

import contextlib
import getpass
import math
import os
import platform
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sightword.errors import SetupError

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""The variables with the credentials of a store, by the protocol of its address."""
NO_HOME = "this user has no home folder"
"""Why :func:`substitute_home` is a user's home."""


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
    """Read the machine's settings from the environment.

    Raises:
        SetupError: a variable has an invalid value.
    """
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

    The limit of each group above holds too, so the least counts. A container may see the top of its own groups only.

    Args:
        root: the root of the file system.
    """
    try:
        # Of names, only LF is sure to be escaped: other line ends and bytes that are not UTF-8 may stand in them.
        groups = os.fsdecode((root / "proc/self/cgroup").read_bytes()).split("\n")
        mounts = os.fsdecode((root / "proc/self/mountinfo").read_bytes()).split("\n")
    except OSError:  # no Linux
        return math.inf
    own: dict[str, PurePosixPath] = {}  # by the kind of file system
    for line in groups:
        if line.count(":") < 2:
            continue
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            own["cgroup" if controllers else "cgroup2"] = PurePosixPath(path)
    least = math.inf
    for line in mounts:
        fields = line.split(" ")  # at single blanks, since the source of a mount may be empty
        after = fields[fields.index("-", 6) + 1 :] if "-" in fields[6:] else []
        if len(after) < 3:
            continue
        top, point, kind, options = fields[3], fields[4], after[0], after[2]
        if kind not in own or (kind == "cgroup" and "cpu" not in options.split(",")):
            continue
        group = own[kind]
        seen = group.is_relative_to(top) and ".." not in group.parts
        below = group.relative_to(top).parts if seen else ()
        folders = [root.joinpath(point[1:], *below[:depth]) for depth in range(len(below) + 1)]
        least = min(least, *map(_limit, folders))
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

    Raises:
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
        if named:
            return expanded(named).absolute()
        return caches() / "sightword" / below
    except RuntimeError:
        raise SetupError(f"{variable}={named}: there is no such user", todo=f"Set {variable} to a folder.") from None


def home() -> Path:
    """Return the user's home folder, or :func:`substitute_home` for a user without one.

    A container may run under a number that passwd does not list, with no ``HOME``, with ``/`` or another user's home
    in it. A home folder that cannot be written is still one: it has the settings of git, DVC and other programs.

    Raises:
        SetupError: there is no home folder, and its substitute belongs to somebody else.
    """
    try:
        found = Path.home() if os.environ.get("HOME", "/") else None
    except RuntimeError:
        found = None
    there = found and found.is_absolute() and os.access(found, os.X_OK) and found.is_dir()
    if found and there and (found.name or _takes_caches(found)):  # the root has no name
        return found
    return _made_substitute(NO_HOME, "HOME")


def caches() -> Path:
    """Return the folder of the user's caches: in :func:`substitute_home`, if the home folder cannot be written.

    Raises:
        SetupError: the substitute is needed, and belongs to somebody else.
    """
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named)
    found = home()
    if not _takes_caches(found):
        found = _made_substitute(f"{found} cannot be written", "XDG_CACHE_HOME")
    return found / ".cache"


def _takes_caches(folder: Path) -> bool:
    return os.access(folder, os.W_OK) or os.access(folder / ".cache", os.X_OK)


def _made_substitute(why: str, variable: str) -> Path:
    folder = substitute_home()
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise SetupError(f"{why}, and {folder} belongs to others too", todo=f"Set {variable} to a folder of your own.")
    return folder


def substitute_home() -> Path:
    """Return the folder for users without a home folder: a user's own, below that for temporary files."""
    return Path(tempfile.gettempdir()) / f"sightword-home-{os.geteuid()}"


def why_substituted() -> str:
    """Return why :func:`substitute_home` has the user's home or caches; an empty text if it has neither."""
    if home() == substitute_home():
        return NO_HOME
    return f"{home()} cannot be written" if caches().parent == substitute_home() else ""


def give_home() -> str:
    """Set ``HOME`` and ``LOGNAME`` where the user has neither, since DVC and others end without.

    Where the home folder cannot be written, set ``XDG_CACHE_HOME`` instead: caches move, settings stay. Programs that
    this process starts inherit all.

    Returns:
        As :func:`why_substituted`.

    Raises:
        SetupError: as :func:`home`.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"user-{os.geteuid()}"
    why = why_substituted()
    if why == NO_HOME:
        os.environ["HOME"] = str(substitute_home())
    elif why:
        os.environ["XDG_CACHE_HOME"] = str(caches())
    return why


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with ``~`` replaced by :func:`home`; RuntimeError for ``~NAME`` of an unknown user."""
    first, *rest = Path(path).parts or ("",)
    return home().joinpath(*rest) if first == "~" else Path(path).expanduser()
