"""The stage grounded: reads the results of all scenarios and seeds; writes the summary, the tests of differences, the
plots and the page.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

from sightword.grounded.grounded_settings import GroundedSettings

log = logging.getLogger(__name__)

SETTINGS = GroundedSettings
ALSO = ("ground.run", "ground.seeds")

RESULTS = Path("data/grounded")


def work(settings: GroundedSettings, *, run: list[str], seeds: list[int]) -> None:
    """Compare the scenarios that run, in the order of the tables, and write the page."""
    from sightword.files import atomic_folder, write_json, write_tsv
    from sightword.grounded.comparing import compare, gains
    from sightword.grounded.plots import PLOTS
    from sightword.grounded.results import read_runs
    from sightword.grounded.summary import summary
    from sightword.grounded.tables import structure_table, transfer_table

    scenarios = read_runs(RESULTS, run, seeds)
    baseline = settings.baseline if settings.baseline in scenarios else next(iter(scenarios))
    if baseline != settings.baseline:
        log.warning("the scenario %s does not run: the baseline is %s", settings.baseline, baseline)
    tests = compare(scenarios, baseline, resamples=settings.resamples, seed=settings.seed)
    gained = gains(scenarios, baseline)
    found = summary(scenarios)
    tables = {
        "structure": structure_table(scenarios, tests, published=settings.published),
        "transfer": transfer_table(scenarios, tests, published=settings.published),
    }
    with atomic_folder("plots/grounded/grounded") as folder:
        for name, plot in PLOTS.items():
            write_tsv(folder / f"{name}.tsv", plot.header, plot.rows(scenarios, tables, gained))
    with atomic_folder("report/grounded") as folder:
        values = {name: [asdict(row) for row in rows] for name, rows in tables.items()}
        rest = {"tests": [test._asdict() for test in tests], "gains": [gain._asdict() for gain in gained]}
        write_json(folder / "tables.json", {"baseline": baseline} | values | rest)
    write_json("metrics/grounded/summary.json", found)
    log.info(
        "grounded: %d scenarios, %d seeds, %d tests against %s, %d with p < 0.05 after Holm's correction",
        *(len(scenarios), len(seeds), len(tests), baseline, sum(test.holm < 0.05 for test in tests)),
    )
