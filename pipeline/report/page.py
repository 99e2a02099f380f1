"""The page: one HTML file that needs no network, no scripts and no other file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from pipeline.features.origin import describe
from pipeline.files import write_text
from pipeline.report import curves, figures, gallery, notes, plots, retrieval_table, semantics_table
from pipeline.report.inputs import Places, Run, read_run
from pipeline.report.settings import ReportSettings
from pipeline.report.summary import summary


@dataclass(frozen=True)
class Made:
    """What was written.

    Attributes:
        size: bytes.
        pictures: thumbnails in the page.
        notes: the heads of what is said first.
        summary: the few numbers that runs are compared by.
    """

    size: int
    pictures: int
    notes: list[str]
    summary: dict[str, float | str]


def write(places: Places, settings: ReportSettings, path: Path) -> Made:
    """Read a run, write its page.

    Args:
        places: the run's files.
        settings: how the page looks.
        path: the page.

    Raises:
        FileFormatError: one of the run's files is missing, damaged, or of another form.
        ReportError: a picture cannot be shown.
    """
    run = read_run(places)
    top10 = gallery.read_top10(places.top10)
    splits = sorted({*top10["split"], *run.retrieval})
    captions = gallery.read_captions(places.captions, splits)
    shown = gallery.build(top10, captions, places.resized, number=settings.gallery, thumbnail=settings.thumbnail)
    said = notes.notes(run, shown)
    text = render(run, captions.each, shown, said, settings)
    write_text(path, text)
    return Made(len(text.encode()), shown.with_thumbnails, [note.head for note in said], summary(run))


def render(
    run: Run,
    captions_each: Mapping[str, list[int]],
    shown: gallery.Gallery,
    said: list[notes.Note],
    settings: ReportSettings,
) -> str:
    """The page's text.

    Args:
        run: the numbers.
        captions_each: per split, how many captions each picture has.
        shown: the gallery.
        said: what stands first.
        settings: how it looks.
    """
    room = resources.files("pipeline.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["n"] = figures.count
    template = environment.from_string(room.joinpath("page.html").read_text("utf-8"))
    rows = semantics_table.intervals(run.semantics)
    return template.render(
        settings=settings,
        style=Markup(room.joinpath("page.css").read_text("utf-8")),  # noqa: S704 - our own file
        notes=said,
        headlines=_headlines(run, captions_each),
        story=_story(run),
        retrieval=_by_protocol(retrieval_table.tables(run.retrieval, captions_each, with_published=settings.published)),
        published=settings.published,
        semantics=semantics_table.groups(run.semantics),
        accuracies=semantics_table.accuracies(run.semantics),
        drawn=Markup(plots.intervals("sts", rows, title=_describe(rows))) if rows else "",  # noqa: S704 - escaped by its maker
        curves=[(caption, Markup(svg)) for caption, svg in curves.draw(run)],  # noqa: S704 - escaped by its maker
        gallery=shown,
        why_no_pictures=notes.why_no_pictures(run, shown) if shown.without_thumbnails else "",
        facts=_facts(run),
    )


def _headlines(run: Run, captions_each: Mapping[str, list[int]]) -> list[tuple[str, str, str]]:
    """The few numbers that sum the run up: (value, what it is, beside what it must be read)."""
    found = []
    scores = run.retrieval.get("test", {}).get("full", {})
    names = {
        "caption_to_image": "of captions find their picture among ten",
        "image_to_caption": "of pictures find a caption of theirs among ten",
    }
    for direction, what in names.items():
        value = scores.get(direction, {}).get("r10")
        if figures.is_number(value):
            half = scores[direction].get("r10_ci95")
            interval = f" ± {figures.percent(half)}" if figures.is_number(half) else ""
            each = captions_each.get("test")
            by_chance = f"chance: {retrieval_table.chance(direction, each, 10):.1f} %" if each else ""
            found.append((f"{value:.1f}{interval} %", what, by_chance))
    mean = semantics_table.headline(run.semantics)
    if mean is not None:
        found.append(
            (figures.correlation(mean[1]), f"mean Pearson r over {mean[0]}", "1 is agreement with people's scores")
        )
    return found


def _story(run: Run) -> str:
    """What was trained on what, in sentences, as far as the run says it."""
    train, features, training = run.train, run.features, run.training
    what = "A sentence encoder"
    kind = str(training.get("cell") or "").upper()
    if kind:
        what += (
            f" ({kind}" + (f", {training['hidden']:,} units" if isinstance(training.get("hidden"), int) else "") + ")"
        )
    if figures.is_number(train.get("parameters")):
        what += f" of {train['parameters']:,} parameters"
    sentence = what + " learned from"
    sentence += f" {train['captions']:,} captions" if figures.is_number(train.get("captions")) else " captions"
    sentence += f" of {train['pictures']:,} pictures" if figures.is_number(train.get("pictures")) else ""
    if figures.is_number(train.get("epochs")):
        sentence += f" in {train['epochs']} epochs"
    sentence += ", reading characters and knowing no words" if run.unit == "character" else f", reading {run.unit}s"
    if features.get("backbone"):
        sentence += f". It saw the pictures as features of {describe(features)}"
    if figures.is_number(run.select.get("members")):
        sentence += f". What is judged here is the sum of {run.select['members']} snapshots, chosen on dev"
    return sentence + "."


def _by_protocol(tables: list[retrieval_table.Table]) -> list[tuple[str, str, list[retrieval_table.Table]]]:
    """Tables of one split and protocol together, in their order."""
    found: dict[tuple[str, str], list[retrieval_table.Table]] = {}
    for table in tables:
        found.setdefault((table.split, table.protocol), []).append(table)
    return [(split, protocol, together) for (split, protocol), together in found.items()]


def _describe(rows: list[plots.Interval]) -> str:
    """What the drawing of correlations shows, for a screen reader; the table beside it has the numbers."""
    return f"Pearson r of {len(rows)} sets of sentence pairs with 95 % intervals; the numbers are in the table."


def _facts(run: Run) -> list[tuple[str, dict[str, str]]]:
    """All that is known about the run, in tables of key and value."""
    rest = {
        key: value
        for key, value in run.description.items()
        if key not in ("schema", "training", "features", "model", "members")
    }
    rest["tokens in the vocabulary"] = run.vocabulary
    parts = [
        ("Training parameters", figures.flat(run.training)),
        ("Features", figures.flat(run.features)),
        ("Training", figures.flat(run.train)),
        ("Selection on dev", figures.flat(run.select)),
        ("Encoder", figures.flat(rest)),
    ]
    return [(head, values) for head, values in parts if values]
