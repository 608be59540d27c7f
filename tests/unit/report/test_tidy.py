"""Rows for scripts."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from mars_cli.analysis.figures import SPEEDS
from mars_cli.analysis.stored import Stored
from mars_cli.report.gathered import Gathered
from mars_cli.report.render import as_text
from mars_cli.report.tidy import UNITS, rows
from tests.unit.report import made


def timed_at_two_levels() -> Stored:
    results = made.by_hand()
    task = results["tasks"][made.TASK]
    task["concurrency"] = [1, 8]
    for lane in task["lanes"].values():
        here = {key: lane[key] for key in lane if key.removesuffix("_ci") in SPEEDS}
        slower = {**here, "speedup": (lane["speedup"] or 0) / 2, "speedup_ci": [0.5, 0.7]}
        lane["by_concurrency"] = {"1": here, "8": slower}
    results["noise"][made.TASK]["by_concurrency"] = {"8": {"aa_speedup": 0.98, "aa_ci": [0.9, 1.1]}}
    return Stored(Path("/nowhere"), {}, results)


def test_each_further_concurrency_has_a_row_with_its_speeds_and_noise_alone():
    run = timed_at_two_levels()
    said = "concurrency 8: speed: only 2 prompts were timed"
    run.results["tasks"][made.TASK]["lanes"][made.MARS]["notes"].append(said)
    lane = run.results["tasks"][made.TASK]["lanes"][made.MARS]
    text = as_text(Gathered([run]), "csv", None)
    of_lane = [
        row
        for row in csv.DictReader(io.StringIO(text))
        if (row["task"], row["lane"]) == (made.TASK, made.MARS)
    ]
    first, second = of_lane
    assert (first["concurrency"], second["concurrency"]) == ("1", "8")
    assert float(second["speedup"]) == lane["speedup"] / 2 != float(first["speedup"])
    assert (second["speedup_low"], second["aa_speedup"], second["aa_speedup_low"]) == (
        "0.5",
        "0.98",
        "0.9",
    )
    assert float(first["recovery"]) == lane["recovery"]
    assert {name for name in UNITS if second[name]} <= SPEEDS.keys()
    assert (second["run"], second["metric"], second["notes"]) == (
        first["run"],
        first["metric"],
        said,
    )


def test_a_gate_looks_at_the_first_concurrency_only():
    assert all(row["concurrency"] in (1, None) for row in rows([timed_at_two_levels()]))
