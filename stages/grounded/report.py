"""The stage report: reads the results, encoders and curves of all scenarios and seeds; writes the summary, the tests
of differences, the plots and the page.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sightword.evaluation import ledger
from sightword.grounded.page.settings import GroundedSettings

if TYPE_CHECKING:
    from sightword.grounded.judging.results import Results

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
    from sightword.grounded.judging.comparing import compare, gains, structure_table, transfer_table
    from sightword.grounded.judging.results import read_runs, summary
    from sightword.grounded.page.page import draw, render
    from sightword.grounded.page.tables import Findings, chosen, read_scenarios
    from sightword.io.files import atomic_folder, read_json, write_json, write_text

    scenarios, described = read_runs(RESULTS, run, seeds), read_scenarios(MODELS, run, seeds[0])
    baseline = settings.baseline if settings.baseline in scenarios else next(iter(scenarios))
    if baseline != settings.baseline:
        log.warning("the scenario %s does not run: the baseline is %s", settings.baseline, baseline)
    tests, gained = compare(scenarios, baseline, resamples=settings.resamples), gains(scenarios, baseline)
    tables = {"structure": structure_table(scenarios, tests), "transfer": transfer_table(scenarios, tests)}
    shown = chosen(described, baseline)
    asked, pictures = _nearest({name: scenarios[name][0] for name in dict.fromkeys((baseline, shown))}, shown)
    findings = Findings(
        scenarios, described, baseline, shown, tables, tests, gained, read_json(TEXT), read_json(TEXTUAL), asked,
        pictures,
    )  # fmt: skip
    drawn = draw(findings, CURVES / f"{shown}-{seeds[0]}", CURVES / "skipthought")
    how_often = ledger.of_encoder(ledger.read(LEDGER), ledger.hash_of(MODELS / f"{shown}-{seeds[0]}"))
    text = render(findings, drawn, settings, ledger.in_words(how_often))
    with atomic_folder("report/grounded") as folder:
        values = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
        rest = {"tests": [test._asdict() for test in tests], "gains": [gain._asdict() for gain in gained]}
        write_json(folder / "tables.json", {"baseline": baseline} | values | rest)
        write_text(folder / "index.html", text)
        for _, one in drawn:
            write_text(folder / "plots" / f"{one.name}.svg", one.svg())
    write_json("metrics/grounded/summary.json", summary(scenarios))
    log.info(
        "report: %d scenarios, %d seeds, %d tests against %s, %d with p < 0.05 after Holm's correction",
        *(len(scenarios), len(seeds), len(tests), baseline, sum(test.holm < 0.05 for test in tests)),
    )


def _nearest(runs: dict[str, Results], shown: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the pictures of the queries that are captions, and the thumbnails of these and of the nearest captions."""
    from sightword.report.gallery import read_captions, thumbnails

    near = [table[table["space"] == one.judged] for one in runs.values() for table in [one.tables["neighbours"]]]
    texts = read_captions(CAPTIONS, [runs[shown].split]).texts
    queries = {str(query) for table in near for query in table["query"]}
    asked = {text: image for (image, _), text in sorted(texts.items(), reverse=True) if text in queries}
    images = {*asked.values(), *(str(image) for table in near for image in table["image_id"])}
    return asked, thumbnails(RESIZED, dict.fromkeys(images, THUMBNAIL))
