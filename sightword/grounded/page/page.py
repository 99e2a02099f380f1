"""Writes the page of all scenarios: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Sequence

from sightword.evaluation.published.rows import published
from sightword.features.origin import describe, random_weights
from sightword.grounded.page import tables as page_tables
from sightword.grounded.page.result_tables import ACCURACIES, STRUCTURE
from sightword.grounded.page.results import RELATED
from sightword.grounded.page.scenarios import CONTROLS
from sightword.grounded.page.settings import GroundedSettings
from sightword.grounded.page.tables import LABELS, SPACES, Findings
from sightword.report import html_page
from sightword.report.drawing import Drawing
from sightword.report.notes import DEMONSTRATED
from sightword.report.number_formats import counted, flat, is_number, percent, plain, share
from sightword.report.semantics_table import much_seen

FILES = ("page.html", "page.css")
"""The files beside this module from which :func:`sightword.report.html_page.render` makes the page."""
FEW = 1_000_000
"""With fewer sentences of text, a run says little about a method that was published with 74 million."""
MANY = 60
"""More tests are folded up."""
MOST = 8
"""The spaces of more scenarios are folded up."""
HEADLINES = {
    "mnno": "common neighbours of captions and pictures (mNNO)",
    "stsb": "agreement with people on STS Benchmark (100 ρ)",
    "sick": "agreement with people on SICK (100 ρ)",
    "transfer_mean": "mean accuracy of the transfer tasks (%)",
}


def render(findings: Findings, drawings: Sequence[tuple[str, Drawing]], settings: GroundedSettings) -> str:
    """Return the text of the page; ``drawings`` are captions and drawings."""
    drawn = {one.name: (caption, html_page.inline(one)) for caption, one in drawings}
    planes = [name for name in drawn if name.startswith("plane_")]
    run = findings.first
    return html_page.render(
        "sightword.grounded.page",
        title=settings.title,
        story=_story(findings),
        notes=_notes(findings, settings),
        headlines=_headlines(findings),
        baseline=findings.baseline,
        baseline_words=findings.described[findings.baseline].words,
        shown=findings.shown,
        split=run.split,
        structure=findings.structure,
        seeds=len(findings.scenarios[findings.shown]),
        table1=page_tables.scores(findings, "structure", STRUCTURE),
        table3=page_tables.scores(findings, "transfer", ACCURACIES),
        transfer_space=SPACES.get(run.transfer_space or "", ""),
        spaces=page_tables.spaces(findings),
        seen=page_tables.seen(findings),
        unseen=page_tables.unseen(findings),
        tests=page_tables.tests(findings),
        many=MANY,
        few=MOST,
        curve=drawn.pop("neighbours", None),
        gain=drawn.pop("gain", None),
        planes=[drawn.pop(name) for name in planes],
        training=list(drawn.values()),
        losses=page_tables.losses(findings),
        neighbours=page_tables.neighbours(findings),
        trends=page_tables.trends(findings),
        published=page_tables.published(findings),
        misprints=_misprints(findings),
        gap=_gap(findings),
        source=published("structure")[0].source,
        facts=_facts(findings, settings),
    )


def _story(findings: Findings) -> str:
    base, shown, found = findings.baseline, findings.shown, []
    text, captions = findings.text.get("sentences"), findings.text.get("captions", {}).get("train", {}).get("captions")
    if text and captions:
        found.append(
            f"An encoder learned from {text:,} sentences of text. Then it read {captions:,} captions with their "
            "pictures: captions of one picture should lie together, and captions of alike pictures near each other."
        )
    if shown != base:
        for key in [key for key in HEADLINES if findings.mean(shown, key) is not None][:2]:
            values = [f"{name} {percent(findings.mean(name, key))}" for name in (base, shown)]
            line = f"{HEADLINES[key]}: {', '.join(values)}{_verdict(findings, key)}{_control(findings, key)}."
            found.append(line[0].upper() + line[1:])
        total = counted(len(findings.tests), "difference")
        found.append(f"{findings.beyond} of {total} from {base} are beyond chance.")
    return " ".join(found)


def _verdict(findings: Findings, key: str) -> str:
    """Return whether a difference from the baseline is beyond chance, as a part of a sentence; empty without a test."""
    found = [test for test in findings.tests if (test.scenario, test.key) == (findings.shown, key)]
    return f" ({'beyond' if page_tables.stars(found[0].holm) else 'within'} chance)" if found else ""


def _control(findings: Findings, key: str) -> str:
    """Return the best control's score as a part of a sentence; empty without controls."""
    scores = {
        name: score
        for name, one in findings.described.items()
        if one.group == CONTROLS and (score := findings.mean(name, key)) is not None
    }
    best = max(scores, key=scores.__getitem__, default=None)
    return "" if best is None else f", best control {scores[best]:.1f} ({best})"


def _headlines(findings: Findings) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for key, words in HEADLINES.items():
        value, base = (findings.mean(name, key) for name in (findings.shown, findings.baseline))
        if value is not None and len(found) < 3:
            beside = f"{findings.baseline} {percent(base)}{_control(findings, key)}"
            if key == "mnno":
                beside += f"; by chance {100 * findings.structure['k'] / (findings.structure['pictures'] - 1):.1f}"
            found.append((f"{value:.1f}", f"{words}, {findings.shown}", beside))
    if findings.tests:
        beside = f"from {findings.baseline}, after Holm's correction"
        found.append((f"{findings.beyond} of {len(findings.tests)}", "differences are beyond chance", beside))
    return found


def _notes(findings: Findings, settings: GroundedSettings) -> list[tuple[str, str]]:
    first = findings.first
    skipped = "; ".join(f"{task}: {reason}" for task, reason in first.metrics.get("skipped", {}).items())
    related = {LABELS[key]: first.related(key) for key in RELATED}
    seen = ", ".join(f"{name} ({share(one['seen_in_training'])})" for name, one in related.items() if much_seen(one))
    undefined = ", ".join(name for name, one in related.items() if "undefined" in one)
    sentences = findings.text.get("sentences", FEW)
    own = " of the sample's own stories" if findings.text.get("format") == "sample" else ""
    trained = any(one.training.learns_captions for one in findings.described.values())
    replaced = f"The scenario {settings.baseline} did not run; differences are from {findings.baseline}."
    single = "Intervals are over other pictures, pairs or examples; how much another seed changes is not known."
    known: list[tuple[object, str, str]] = [
        (random_weights(findings.described[findings.shown].features), DEMONSTRATED.head, DEMONSTRATED.text),
        (sentences < FEW, "Little text", f"The text has {sentences:,} sentences{own}, the published one 74 million."),
        (findings.textual.get("objective") == "none", "No text objective", "The encoder of text was not trained."),
        (not trained, "Nothing grounded", "No scenario learned from captions."),
        (findings.baseline != settings.baseline, "Another baseline", replaced),
        (skipped, "Tasks left out", f"{skipped}."),
        (not any(related.values()), "No relatedness", "Neither STS Benchmark nor SICK was judged."),
        (first.transfer_space is None, "No transfer tasks", "Table 3 of Bordes et al. (2019) is left out."),
        (seen, "Seen in training", f"A tenth or more of the sentences are training captions: {seen}."),
        (undefined, "No correlation", f"{undefined}: all pairs have the same score."),
        (len(findings.scenarios[findings.shown]) == 1, "One seed", single),
    ]
    return [(head, text) for applies, head, text in known if applies]


def _gap(findings: Findings) -> str:
    """Return how this run differs from the published one."""
    text, features = findings.text.get("sentences"), findings.described[findings.shown].features
    read = f"{text:,} sentences of text" if is_number(text) else "another text"
    return (
        "The published encoders have 2,048 states, read 74 million sentences of 11,000 novels and the captions of "
        "COCO's 118,000 pictures with features of Inception-v3; their structure is that of 5,000 pictures. This run "
        f"read {read}; its features are {describe(features)}; its structure is that of "
        f"{counted(findings.structure['pictures'], 'picture')}."
    )


def _misprints(findings: Findings) -> list[str]:
    return [
        f"{LABELS.get(key, key)} of {row.name}, {cell.value:.1f} (printed: {cell.misprinted:.1f})"
        for rows in findings.tables.values()
        for row in rows
        for key, cell in row.cells.items()
        if cell.misprinted is not None
    ]


def _facts(findings: Findings, settings: GroundedSettings) -> list[tuple[str, dict[str, str]]]:
    parameters = {name: one.training.model_dump() for name, one in findings.described.items()}
    shown = findings.described[findings.shown]
    common = {key: value for key, value in parameters[findings.shown].items()
              if all(one[key] == value for one in parameters.values())}  # fmt: skip
    fields = type(shown.training).model_fields
    own = {
        name: ", ".join(
            f"{key} {plain(value)}" for key, value in one.items() if key not in common and value != fields[key].default
        )
        for name, one in parameters.items()
    }
    structure = {key: findings.structure[key] for key in ("pictures", "captions", "k")}
    seeds = plain([run.seed for run in findings.scenarios[findings.shown]])
    found = {
        "Text": findings.text,
        "Encoder of text": findings.textual,
        "Scenarios, common parameters": common,
        "Scenarios, their own parameters": own,
        "Features": shown.features,
        "Structure": {"split": findings.first.split} | structure,
        "Comparison": settings.model_dump() | {"baseline": findings.baseline, "seeds of training": seeds},
    }
    return [(head, flat(values)) for head, values in found.items() if values]
