"""The stage report: reads the results, encoders and curves of all scenarios and seeds; writes the summary, the tests
of differences, the plots and the page.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

from sightword.evaluation import ledger
from sightword.grounded.page.settings import GroundedSettings

log = logging.getLogger(__name__)

SETTINGS = GroundedSettings
ALSO = ("train.run", "train.seeds")

RESULTS = Path("data/grounded")
MODELS = Path("models/grounded")
CURVES = Path("plots/grounded")
TEXT = Path("metrics/grounded/text.json")
TEXTUAL = Path("metrics/grounded/skipthought.json")
CAPTIONS = Path("data/corpus/captions.parquet")
RESIZED = Path("data/resized")
LEDGER = Path("metrics/grounded") / ledger.FILE
THUMBNAIL = 144
"""The longest side of a picture on the page, in pixels."""


def work(settings: GroundedSettings, *, run: list[str], seeds: list[int]) -> None:
    """Compare the scenarios that run, in the order of the tables, and write the page."""
    from sightword.grounded.judging import subtasks
    from sightword.grounded.judging.comparing import compare, gains
    from sightword.grounded.judging.result_tables import structure_table, transfer_table
    from sightword.grounded.judging.results import read_runs, summary
    from sightword.grounded.page import drawings
    from sightword.grounded.page.page import render
    from sightword.grounded.page.plots import PLOTS
    from sightword.grounded.page.scenarios import chosen, read_scenarios
    from sightword.grounded.page.tables import Findings
    from sightword.io.files import atomic_folder, read_json, write_json, write_text, write_tsv
    from sightword.report.gallery import read_captions, thumbnails

    scenarios, described = read_runs(RESULTS, run, seeds), read_scenarios(MODELS, run, seeds[0])
    baseline = settings.baseline if settings.baseline in scenarios else next(iter(scenarios))
    if baseline != settings.baseline:
        log.warning("the scenario %s does not run: the baseline is %s", settings.baseline, baseline)
    tests = compare(scenarios, baseline, resamples=settings.resamples, seed=settings.seed)
    gained = gains(scenarios, baseline)
    found, shown = summary(scenarios), chosen(described, baseline)
    tables = {
        "structure": structure_table(scenarios, tests, published=settings.published),
        "transfer": transfer_table(scenarios, tests, published=settings.published),
    }
    points = {name: subtasks.points(runs, scenarios[baseline]) for name, runs in scenarios.items() if name != baseline}
    curves = {name: drawings.read_curves(CURVES / f"{name}-{seeds[0]}") for name in scenarios}
    beside = {name: scenarios[name][0] for name in dict.fromkeys((baseline, shown))}
    near = [table[table["space"] == one.judged] for one in beside.values() for table in [one.tables["neighbours"]]]
    texts = read_captions(CAPTIONS, [beside[shown].split]).texts
    queries = {str(query) for table in near for query in table["query"]}
    asked = {text: image for (image, _), text in sorted(texts.items(), reverse=True) if text in queries}
    images = {*asked.values(), *(str(image) for table in near for image in table["image_id"])}
    findings = Findings(
        scenarios, described, baseline, shown, tables, tests, gained,
        {name: subtasks.trend(own) for name, own in points.items() if own},
        curves, read_json(TEXT), read_json(TEXTUAL), asked, thumbnails(RESIZED, dict.fromkeys(images, THUMBNAIL)),
    )  # fmt: skip
    first = dict.fromkeys((*beside, *scenarios))  # a drawing has room for a few lines
    every = [
        (drawings.CURVE, drawings.neighbours({name: scenarios[name] for name in first})),
        *((f"Captions by t-SNE, {name}", drawings.plane(one)) for name, one in beside.items()),
        (f"Gain of {shown} over {baseline} by concreteness", drawings.gain(points.get(shown, []), shown, baseline)),
        *drawings.training(shown, curves[shown], CURVES / "skipthought"),
    ]
    drawn = [(caption, one) for caption, one in every if one is not None]
    how_often = ledger.of_encoder(ledger.read(LEDGER), ledger.hash_of(MODELS / f"{shown}-{seeds[0]}"))
    text = render(findings, drawn, settings, ledger.in_words(how_often))
    with atomic_folder("plots/scenarios") as folder:
        for name, plot in PLOTS.items():
            write_tsv(folder / f"{name}.tsv", plot.header, plot.rows(scenarios, tables, gained))
        rows = [(name, *point) for name, own in points.items() for point in own]
        write_tsv(folder / "subtasks.tsv", ("scenario", *subtasks.Point._fields), rows)
    with atomic_folder("report/grounded") as folder:
        values = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
        rest = {"tests": [test._asdict() for test in tests], "gains": [gain._asdict() for gain in gained]}
        write_json(folder / "tables.json", {"baseline": baseline} | values | rest)
        write_text(folder / "index.html", text)
        for _, one in drawn:
            write_text(folder / "plots" / f"{one.name}.svg", one.svg())
    write_json("metrics/grounded/summary.json", found)
    log.info(
        "report: %d scenarios, %d seeds, %d tests against %s, %d with p < 0.05 after Holm's correction",
        *(len(scenarios), len(seeds), len(tests), baseline, sum(test.holm < 0.05 for test in tests)),
    )
