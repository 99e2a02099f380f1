"""What kind of disk each folder lies on, and what that means."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Situation
from pipeline.doctor.findings import Note, good, warning
from pipeline.doctor.storage import folders

MOUNTS = Path("/proc/self/mounts")
NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "glusterfs",
    "virtiofs",
)
NETWORK_FUSE = (
    "sshfs",
    "s3fs",
    "gcsfuse",
    "rclone",
    "blobfuse",
    "davfs",
    "glusterfs",
    "ceph",
    "goofys",
    "mountpoint-s3",
)
LOST = ("tmpfs", "ramfs")

_MEANS = {
    "the project": (
        "two DVC commands on two machines may both think they are alone, and each command is slow",
        "`dvc config core.hardlink_lock true` makes DVC's lock safe there; or clone onto a disk of this machine.",
    ),
    "DVC's notes": (
        "its databases may be damaged there",
        "Name a folder on a disk of this machine: DVC_SITE_CACHE_DIR.",
    ),
    "the scratch folder": (
        "half-done trainings are saved slowly, and where the server has no locks two machines may take one",
        "Set SIGHTWORD_SCRATCH to a folder on a disk of this machine, one for each.",
    ),
}


def kind_of(folder: Path, mounts: str) -> str:
    """The file system's type of a folder.

    Args:
        folder: the folder, which may not be there yet.
        mounts: in the format of ``/proc/self/mounts``.

    Returns:
        Such as ``ext4``, ``nfs4`` or ``fuse.sshfs``; empty where it is not known.
    """
    place = os.path.realpath(folder)
    best, kind = "", ""
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1].encode().decode("unicode_escape")  # spaces are written as \040
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two at one place the later one hides the earlier
            best, kind = point, words[2]
    return kind


def is_network(kind: str) -> bool:
    """Whether a type of file system is another machine's."""
    main, _, program = kind.partition(".")
    return main in NETWORK or (main == "fuse" and any(program.startswith(name) for name in NETWORK_FUSE))


def look_at_places(situation: Situation) -> Iterator[Note]:
    """Network file systems and memory disks among the folders."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # no Linux: it is not known
    safe = bool(situation.facts("dvc").get("hardlink_lock"))
    kinds = {name: kind_of(folder, mounts) for name, folder in folders(situation).items()}
    told = False
    for name, kind in kinds.items():
        if is_network(kind):
            if name in _MEANS and not (name == "the project" and safe):
                told = True
                means, todo = _MEANS[name]
                yield warning(f"{name} lies on a network file system ({kind}): {means}", todo)
        elif kind in LOST and name in ("the project", "DVC's cache", "the store", "the scratch folder"):
            told = True
            yield warning(
                f"{name} lies in memory ({kind}), and is lost when the machine stops", "Name a folder on a disk."
            )
    if not told:
        said = ", ".join(f"{name}: {kind or 'not known'}" for name, kind in kinds.items() if name != "DVC's notes")
        yield good(said)
