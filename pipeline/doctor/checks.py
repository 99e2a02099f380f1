"""All checks, in the order in which they are reported."""

from __future__ import annotations

from pathlib import Path

from pipeline import systems
from pipeline.doctor import disk, files, hardware, packages, project, remote, store
from pipeline.doctor.findings import Check
from pipeline.pipelines import pipelines, project_of

_BEFORE = (
    Check("python", packages.check_python),
    Check("packages", packages.check_packages),
    Check("torch", packages.check_torch),
    Check("device", hardware.check_devices, slow=True),
    Check("settings", hardware.check_settings),
    Check("files", project.check_files, needs_project=True),
    Check("git", project.check_git, needs_project=True),
)
_AFTER = (
    Check("encoders", files.check_encoders, needs_project=True),
    Check("cache", remote.check_cache, needs_project=True),
    Check("remote", remote.check_remote, needs_project=True),
    Check("store", store.check_store, slow=True),
    Check("disk", disk.check_disk),
)


def checks(folder: Path) -> list[Check]:
    """Return all checks of a folder's project; those of inputs are declared by the systems (:mod:`pipeline.systems`).

    Slow checks are left out with ``--quick``.
    """
    declared = [one for system in pipelines(project_of(folder)) for one in systems.declared(system, "CHECKS", ())]
    return [*_BEFORE, *declared, *_AFTER]
