"""Writes the report page: one HTML file that needs no network, no other file, and no script for reading."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from sightword.features.origin import describe
from sightword.files import atomic_folder, write_text
from sightword.report import (
    attention,
    chain,
    curves,
    gallery,
    notes,
    number_formats,
    plots,
    retrieval_table,
    semantic_plots,
    semantics_table,
    sentence_pairs,
)
from sightword.report.drawing import Drawing
from sightword.report.inputs import Run, RunFiles, read_run
from sightword.report.settings import ReportSettings
from sightword.report.summary import headline_split, summary


@dataclass(frozen=True)
class Made:
    """The result of :func:`write`.

    Attributes:
        size: the page's size in bytes.
        pictures: the number of thumbnails.
        notes: the heads of the warnings.
        summary: the few numbers for comparing runs.
    """

    size: int
    pictures: int
    notes: list[str]
    summary: dict[str, float | str]


@dataclass(frozen=True)
class Contents:
    """The contents of the page besides the run's numbers.

    Attributes:
        captions_each: for each split, the number of captions of each picture.
        gallery: the gallery.
        pairs: the sentence pairs.
        attended: captions with their attention; None for an encoder with another pooling.
        sources: the sources of the tables.
        made: the tables and drawings.
    """

    captions_each: Mapping[str, list[int]]
    gallery: gallery.Gallery
    pairs: sentence_pairs.SentencePairs
    attended: list[attention.Attended] | None
    sources: list[chain.Source]
    made: list[chain.Made]


def write(files: RunFiles, settings: ReportSettings, path: Path, plots_folder: Path | None = None) -> Made:
    """Read a run and write its page.

    Args:
        files: the run's files.
        settings: the page's settings.
        path: the page.
        plots_folder: the folder for the drawings as SVG and PNG files, which is replaced; None writes no files.

    Raises:
        FileFormatError: one of the run's files is missing, damaged, or of another form.
        EncoderError: the encoder is damaged.
        ReportError: a picture cannot be shown.
    """
    run = read_run(files)
    top = gallery.read_top(files.top)
    splits = sorted({*top["split"], *run.retrieval})
    captions = gallery.read_captions(files.captions, splits)
    shown = gallery.build(top, captions, files.resized, number=settings.gallery, thumbnail=settings.thumbnail)
    contents = Contents(
        captions.each,
        shown,
        sentence_pairs.read(
            files.pairs,
            files.plots / "semantics",
            points=settings.points,
            worst=settings.worst,
            with_published=settings.published,
        ),
        _attended(files, gallery.some_texts(captions, shown, settings.attention)),
        chain.sources(files, run),
        chain.made(files, run),
    )
    remarks = notes.notes(run, shown)
    drawings = _drawings(run, contents)
    text = render(run, contents, drawings, remarks, settings)
    if plots_folder is not None:
        with atomic_folder(plots_folder) as folder:
            for _, drawing in drawings:
                (folder / f"{drawing.name}.svg").write_text(drawing.svg(), "utf-8")
                (folder / f"{drawing.name}.png").write_bytes(drawing.png())
    write_text(path, text)
    return Made(len(text.encode()), shown.with_thumbnails, [note.head for note in remarks], summary(run))


def render(
    run: Run,
    contents: Contents,
    drawings: list[tuple[str, Drawing]],
    remarks: list[notes.Note],
    settings: ReportSettings,
) -> str:
    """Return the page's text.

    Args:
        run: the numbers.
        contents: the contents besides them.
        drawings: drawings with captions; those named in ``page.html`` have fixed places, all others are curves.
        remarks: the warnings at the top.
        settings: the page's settings.
    """
    room = resources.files("sightword.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["n"] = number_formats.count
    template = environment.from_string(room.joinpath("page.html").read_text("utf-8"))
    script = room.joinpath("page.js").read_text("utf-8")
    shown = contents.gallery
    placed = ("sts", "systems", "scatter", "breakdown")
    inline = {drawing.name: Markup(drawing.in_page()) for _, drawing in drawings}  # noqa: S704 - escaped by its maker
    return template.render(
        settings=settings,
        style=Markup(room.joinpath("page.css").read_text("utf-8")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        notes=remarks,
        headlines=_headlines(run, contents.captions_each),
        story=_story(run),
        retrieval=_by_protocol(
            retrieval_table.tables(run.retrieval, contents.captions_each, with_published=settings.published)
        ),
        published=settings.published,
        semantics=semantics_table.groups(run.semantics),
        accuracies=semantics_table.accuracies(run.semantics),
        pairs=contents.pairs,
        few=semantic_plots.FEW,
        points=sum(len(panel.gold) for panel in contents.pairs.panels),
        drawn={name: inline.get(name, "") for name in placed},
        curves=[(caption, inline[drawing.name]) for caption, drawing in drawings if drawing.name not in placed],
        gallery=shown,
        why_no_pictures=notes.why_no_pictures(run, shown) if shown.without_thumbnails else "",
        attended=contents.attended,
        pooling=run.training.get("pooling"),
        unit=run.unit,
        facts=_facts(run),
        sources=contents.sources,
        made={one.key: one for one in contents.made if _is_shown(one.key, run, contents)},
    )


def _drawings(run: Run, contents: Contents) -> list[tuple[str, Drawing]]:
    """Return every drawing for which the run has numbers, with its caption."""
    found = []
    rows = semantics_table.intervals(run.semantics)
    pairs = contents.pairs
    if rows:
        found.append(("", plots.intervals("sts", rows, title=_describe(rows))))
    if pairs.systems:
        found.append(("", semantic_plots.systems(pairs.systems)))
    if pairs.panels:
        found.append(("", semantic_plots.scatter(pairs.panels)))
    if pairs.bins:
        found.append(("", semantic_plots.breakdown(pairs.bins)))
    return found + curves.draw(run)


def _is_shown(key: str, run: Run, contents: Contents) -> bool:
    """Return whether the page shows a table or drawing; training curves are shown if their files exist."""
    shown = {
        "retrieval": run.retrieval,
        "semantics": semantics_table.groups(run.semantics) or semantics_table.accuracies(run.semantics),
        "systems": contents.pairs.systems,
        "pairs": contents.pairs.panels,
        "breakdown": contents.pairs.bins,
        "worst": contents.pairs.worst,
        "gallery": contents.gallery.captions or contents.gallery.pictures,
        "attention": contents.attended,
    }
    return bool(shown.get(key, True))


def _attended(files: RunFiles, texts: list[str]) -> list[attention.Attended] | None:
    """Return the captions' attention, computed on a CPU, so that every machine draws the same."""
    if not texts:
        return []
    from sightword.encoder.sentence_encoder import SentenceEncoder

    return attention.attend(SentenceEncoder.load(files.encoder, device="cpu"), texts)


def _headlines(run: Run, captions_each: Mapping[str, list[int]]) -> list[tuple[str, str, str]]:
    """Return the few numbers that sum up the run: (value, description, context)."""
    found = []
    split = headline_split(run.retrieval)
    scores = run.retrieval.get(split, {}).get("full", {})
    names = {
        "caption_to_image": "of captions find their picture among the best ten",
        "image_to_caption": "of pictures find one of their captions among the best ten",
    }
    for direction, what in names.items():
        value = scores.get(direction, {}).get("r10")
        if number_formats.is_number(value):
            half = scores[direction].get("r10_ci95")
            interval = f" ± {number_formats.percent(half)}" if number_formats.is_number(half) else ""
            each = captions_each.get(split)
            by_chance = f"split {split}" + (
                f"; chance: {retrieval_table.chance(direction, each, 10):.1f} %" if each else ""
            )
            found.append((f"{value:.1f}{interval} %", what, by_chance))
    mean = semantics_table.headline(run.semantics)
    if mean is not None:
        found.append(
            (
                number_formats.correlation(mean[1]),
                f"mean Pearson r over {mean[0]}",
                "1 is agreement with human scores",
            )
        )
    return found


def _story(run: Run) -> str:
    """Describe in sentences what was trained on what, as far as known."""
    train, features, training = run.train, run.features, run.training
    what = "A sentence encoder"
    kind = str(training.get("cell") or "").upper()
    if kind:
        what += f" ({kind}" + (f", {training['hidden']:,} units" if isinstance(training.get("hidden"), int) else "")
        what += ")"
    if number_formats.is_number(train.get("parameters")):
        what += f" of {number_formats.counted(train['parameters'], 'parameter')}"
    sentence = what + " learned from "
    sentence += _counted(train, "captions") or "captions"
    if pictures := _counted(train, "pictures"):
        sentence += f" of {pictures}"
    if epochs := _counted(train, "epochs"):
        sentence += f" in {epochs}"
    sentence += ", reading characters without a list of words" if run.unit == "character" else f", reading {run.unit}s"
    if features.get("backbone"):
        sentence += f". It saw the pictures as features of {describe(features)}"
    elif notes.is_precomputed(features):
        sentence += ". It saw the pictures as features that were computed elsewhere"
    similarity = str(run.description.get("similarity", "cosine"))
    if similarity != "cosine":
        named = "the dot product" if similarity == "dot" else similarity.replace("_", " ")
        sentence += f". Captions and pictures are compared by {named}, two sentences by the cosine"
    members = run.select.get("members")
    if number_formats.is_number(members):
        evaluated = "one snapshot" if members == 1 else f"the sum of {members} snapshots"
        sentence += f". The scores are those of {evaluated} of the encoder, chosen by recall on the split dev"
    return sentence + "."


def _counted(values: Mapping[str, Any], name: str) -> str:
    """Return a count with its noun, taken from the key; empty for an unknown count."""
    value = values.get(name)
    return number_formats.counted(int(value), name.removesuffix("s")) if number_formats.is_number(value) else ""


def _by_protocol(tables: list[retrieval_table.Table]) -> list[tuple[str, str, list[retrieval_table.Table]]]:
    """Group tables by split and protocol, in order."""
    found: dict[tuple[str, str], list[retrieval_table.Table]] = {}
    for table in tables:
        found.setdefault((table.split, table.protocol), []).append(table)
    return [(split, protocol, together) for (split, protocol), together in found.items()]


def _describe(rows: list[plots.Interval]) -> str:
    """Describe the drawing of correlations for a screen reader; the table has the numbers."""
    return f"Pearson r of {len(rows)} sets of sentence pairs with 95 % intervals; the numbers are in the table."


def _facts(run: Run) -> list[tuple[str, dict[str, str]]]:
    """Return all known facts about the run, as tables of key and value."""
    rest = {
        key: value
        for key, value in run.description.items()
        if key not in ("schema", "training", "features", "model", "members")
    }
    rest["tokens in the vocabulary"] = run.vocabulary
    parts = [
        ("Training parameters", number_formats.flat(run.training)),
        ("Features", number_formats.flat(run.features)),
        ("Results of training", number_formats.flat(run.train)),
        ("Selection on dev", number_formats.flat(run.select)),
        ("Encoder", number_formats.flat(rest)),
    ]
    return [(head, values) for head, values in parts if values]
