"""The stage report: reads the results, encoders and curves of all scenarios and seeds; writes the summary, the tests
of differences, the plots and the page.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

from sightword.evaluation import ledger
from sightword.grounded.judging.settings import GroundedSettings
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.training.settings import Common
from sightword.report.departures import departures_of
from sightword.settings import Settings
from sightword.text.settings import TextSettings

log = logging.getLogger(__name__)

SETTINGS = GroundedSettings
MADE_BY: dict[str, type[Settings]] = {
    "text": TextSettings, "skipthought": SkipthoughtSettings, "train.common": Common
}  # fmt: skip
ALSO = ("train.run", "train.seeds", *MADE_BY)

RESULTS = Path("data/grounded")
MODELS = Path("models/grounded")
CURVES = Path("plots/grounded")
TEXT = Path("metrics/grounded/text.json")
LEDGER = Path("metrics/grounded") / ledger.FILE


def work(settings: GroundedSettings, *, run: list[str], seeds: list[int], **made_by: Settings) -> None:
    """Compare the scenarios that run, in the order of the tables, and write the page."""
    from sightword.grounded.comparing import compare, gains, read_runs, structure_table, summary, transfer_table
    from sightword.grounded.page import draw, render
    from sightword.grounded.tables import Findings, chosen, read_scenarios
    from sightword.io.files import atomic_folder, read_json, write_json, write_text
    from sightword.report import html_page

    scenarios, described = read_runs(RESULTS, run, seeds), read_scenarios(MODELS, run, seeds[0])
    baseline = settings.baseline if settings.baseline in scenarios else next(iter(scenarios))
    if baseline != settings.baseline:
        log.warning("the scenario %s does not run: the baseline is %s", settings.baseline, baseline)
    tests, gained = compare(scenarios, baseline, resamples=settings.resamples), gains(scenarios, baseline)
    tables = {"structure": structure_table(scenarios, tests), "transfer": transfer_table(scenarios, tests)}
    shown = chosen(described, baseline)
    findings = Findings(scenarios, described, baseline, shown, tables, tests, gained, read_json(TEXT))
    drawn = draw(findings, CURVES / f"{shown}-{seeds[0]}", CURVES / "skipthought")
    model = ledger.hash_of(MODELS / f"{shown}-{seeds[0]}")
    how_often = ledger.of_encoder(ledger.read(LEDGER), model)
    made = html_page.made(departures_of(made_by, MADE_BY), "report/grounded", model)
    text = render(findings, drawn, settings, ledger.in_words(how_often), made)
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
