"""The pages name what there is."""

from __future__ import annotations

import re

import pytest

from pipeline.epochs.settings import EpochsSettings
from pipeline.training.settings import TrainSettings


@pytest.mark.parametrize(("page", "settings"), [("training", TrainSettings), ("experiments", EpochsSettings)])
def test_every_parameter_stands_on_its_page(repository, page, settings):
    words = set(re.findall(r"`(?:\w+\.)?(\w+)[:`]", (repository / f"docs/{page}.md").read_text()))
    assert not [name for name in settings.model_fields if name not in words]


def test_links_between_pages_lead_somewhere(repository):
    for page in [repository / "README.md", *(repository / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
