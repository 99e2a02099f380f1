"""Adds to pyproject.toml what only the clone knows: the files of a project, and the address of the repository.

The files of a project are data of ``pipeline``, without a second copy. The address is that of the remote ``origin``, if
the web has it: the links of the long description lead there. Without an address a link is its text alone.
"""

import re
import subprocess
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FILES = "pipeline.project"


class Build(build_py):
    """Builds the packages; the files of a project are data alone, without the modules beside them."""

    def find_package_modules(self, package, package_dir):
        """Return (package, module, file) of each module of a package."""
        return [] if package == FILES else super().find_package_modules(package, package_dir)


def address():
    """Return the web address of the repository, or nothing."""
    # The repository of this folder, not one around it.
    command = ["git", "--git-dir", str(Path(__file__).with_name(".git")), "config", "--get", "remote.origin.url"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words, no shell
    except OSError:  # a machine without git
        return ""
    found = done.stdout.strip()  # nothing after an error, such as sources without a repository
    secret = "@" in found  # a user's name or token
    return found.removesuffix(".git") if found.startswith("https://") and not secret else ""


def description(home):
    """Return the README with links that lead from anywhere."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    relative = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]*)\)")
    kinds = {"": "blob", "!": "raw"}
    return relative.sub(
        lambda one: f"{one[1]}[{one[2]}]({home}/{kinds[one[1]]}/main/{one[3]})" if home else ("" if one[1] else one[2]),
        text,
    )


HOME = address()
PAGES = {
    "Source": "",
    "Documentation": "/blob/main/docs/index.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
}

setup(
    long_description=description(HOME),
    long_description_content_type="text/markdown",
    project_urls={name: HOME + path for name, path in PAGES.items()} if HOME else {},
    cmdclass={"build_py": Build},
    packages=[
        *find_packages(include=["sightword", "sightword.*", "pipeline", "pipeline.*", "stages", "stages.*"]),
        FILES,
    ],
    package_dir={FILES: "."},
)
