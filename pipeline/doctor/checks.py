"""All checks, in the order in which they are reported."""

from __future__ import annotations

from pipeline.doctor import disk, hardware, inputs, packages, project, remote, store
from pipeline.doctor.findings import Check

CHECKS = (
    Check("python", packages.check_python),
    Check("packages", packages.check_packages),
    Check("torch", packages.check_torch),
    Check("device", hardware.check_devices, slow=True),
    Check("settings", hardware.check_settings),
    Check("files", project.check_files, needs_project=True),
    Check("git", project.check_git, needs_project=True),
    Check("corpus", inputs.check_corpus, needs_project=True),
    Check("semantics", inputs.check_semantics, needs_project=True),
    Check("weights", inputs.check_weights, needs_project=True),
    Check("grounded", inputs.check_grounded, needs_project=True),
    Check("cache", remote.check_cache, needs_project=True),
    Check("remote", remote.check_remote, needs_project=True),
    Check("store", store.check_store, slow=True),
    Check("disk", disk.check_disk),
)
"""Slow checks are left out with ``--quick``."""
