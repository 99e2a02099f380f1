"""Adds the files of a project to the package, as data of ``pipeline``, without a second copy; see pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["sightword", "sightword.*", "pipeline", "pipeline.*"]), "pipeline.project"],
    package_dir={"pipeline.project": "."},
)
