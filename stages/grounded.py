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

PARAMS = Path("grounded/params.yaml")
RESULTS = Path("data/grounded")


def work(settings: GroundedSettings) -> None:
    """Compare the scenarios, and write the page."""
    from sightword.errors import ParamsError
    from sightword.files import atomic_folder, read_text, write_json, write_tsv
    from sightword.grounded.comparing import compare, gains
    from sightword.grounded.plots import PLOTS
    from sightword.grounded.results import read_runs
    from sightword.grounded.summary import summary
    from sightword.grounded.tables import structure_table, transfer_table
    from sightword.yaml_reader import parse

    try:  # which scenarios and seeds run, in the order of the tables
        ground = parse(read_text(PARAMS), PARAMS)["ground"]
        names, seeds = list(ground["run"]), list(ground["seeds"])
    except (KeyError, TypeError):
        what, expected = "has no list of scenarios or of seeds", "ground.run and ground.seeds"
        raise ParamsError(what, where=PARAMS, expected=expected) from None
    scenarios = read_runs(RESULTS, names, seeds)
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
