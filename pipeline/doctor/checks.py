"""All checks, in the order they are told."""

from __future__ import annotations

from pipeline.doctor import capacity, filesystems, hardware, inputs, packages, project, remote, storage
from pipeline.doctor.findings import Check

CHECKS = (
    Check("python", packages.look_at_python),
    Check("packages", packages.look_at_packages),
    Check("torch", packages.look_at_torch),
    Check("device", hardware.look_at_devices, slow=True),
    Check("settings", hardware.look_at_settings),
    Check("clock", hardware.look_at_clock),
    Check("files", project.look_at_files, needs_project=True),
    Check("git", project.look_at_git, needs_project=True),
    Check("corpus", inputs.look_at_corpus, needs_project=True),
    Check("semantics", inputs.look_at_semantics, needs_project=True),
    Check("weights", inputs.look_at_weights, needs_project=True),
    Check("folders", storage.look_at_folders),
    Check("places", filesystems.look_at_places),
    Check("cache", storage.look_at_cache, needs_project=True),
    Check("locks", storage.look_at_locks, needs_project=True),
    Check("remote", remote.look_at_remote, needs_project=True),
    Check("disk", capacity.look_at_disk, needs_project=True, slow=True),
    Check("memory", capacity.look_at_memory, needs_project=True, slow=True),
)
"""By name; what is slow is left out with ``--quick``."""
