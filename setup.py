"""Adds the files of a project to the package, as data of ``pipeline``, without a second copy; see pyproject.toml."""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FILES = "pipeline.project"


class Build(build_py):
    """Builds the packages; the files of a project are data alone, without the modules beside them."""

    def find_package_modules(self, package, package_dir):
        """Return (package, module, file) of each module of a package."""
        return [] if package == FILES else super().find_package_modules(package, package_dir)


setup(
    cmdclass={"build_py": Build},
    packages=[*find_packages(include=["sightword", "sightword.*", "pipeline", "pipeline.*"]), FILES],
    package_dir={FILES: "."},
)
