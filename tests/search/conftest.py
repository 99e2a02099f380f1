"""A small collection, and a page for it."""

from __future__ import annotations

import pytest
import search_world
from search_world import World

from sightword.search.picture_files import Thumbnails
from sightword.search.searcher import Searcher
from sightword.search.web import Parts, create_app


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> World:
    return search_world.make(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def searcher(world) -> Searcher:
    found = Searcher(world.encoder(), world.table(), world.captions(), where=world.features)
    found.read_captions()
    return found


@pytest.fixture
def client(world, searcher):
    parts = Parts(searcher, Thumbnails(world.folder / "data/resized"), ["a <b>note</b>"], top=5)
    return create_app(parts).test_client()


@pytest.fixture
def here(world, repository, monkeypatch) -> None:
    """The project of the world is the working folder, also of processes."""
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    monkeypatch.setenv("PYTHONPATH", str(repository))
