"""What a sweep of 7 thetas and 2 K costs beside 14 separate `mars eval` runs.

Both are the commands a user types, on the embedded model, imports and loading included. Four of the
14 are run, the first and the last theta of each K, two before and two after the sweep; 14 times
their mean stands for all. Where the time goes, by phase, is said on stderr.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import mean

from benchmarks.ratios import Bar, Row
from mars_cli.analysis.stats import log_ratio

THETAS = (0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96)
KS = (3, 7)
COMMON = (
    *("--model", "smollm2-135m", "--tasks", "mars_products", "--limit", "8"),
    *("--max-tokens", "48", "--speed-prompts", "3", "--repeats", "1"),
)
PHASE = re.compile(
    r"^(loading|quality|control|fidelity|warming|speed|divergence)\b.* in (\d+):(\d+)$"
)


def measure() -> list[Row]:
    """One row of wall time."""
    runs = len(THETAS) * len(KS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        grid = ["--theta", ",".join(map(str, THETAS)), "--k", ",".join(map(str, KS))]
        separate = [
            _eval(place, theta, k) for theta, k in ((THETAS[0], KS[0]), (THETAS[-1], KS[1]))
        ]
        sweep = _seconds("sweep", [*grid, "--out", str(place / "sweep")], place / "sweep.log")
        separate += [
            _eval(place, theta, k) for theta, k in ((THETAS[-1], KS[0]), (THETAS[0], KS[1]))
        ]
        _say("the sweep", sorted((place / "sweep" / "groups").glob("*.log")))
        _say(f"{len(separate)} separate runs", sorted(place.glob("eval-*.log")))
    return [
        Row(
            f"wall time, sweep / {runs} separate runs (from {len(separate)})",
            f"{sweep:.0f} s",
            f"{runs * mean(separate):.0f} s",
            log_ratio([sweep] * len(separate), [runs * seconds for seconds in separate]),
            len(separate),
            Bar(0.35, at_most=True),
        )
    ]


def _eval(place: Path, theta: float, k: int) -> float:
    name = f"eval-{k}-{theta}"
    own = ["--theta", str(theta), "--k", str(k), "--out", str(place / name)]
    return _seconds("eval", own, place / f"{name}.log")


def _seconds(command: str, own: list[str], log: Path) -> float:
    started = time.monotonic()
    with log.open("wb") as file:
        subprocess.run(
            [sys.executable, "-m", "mars_cli", command, *COMMON, *own],
            stdout=file,
            stderr=file,
            check=True,
        )
    return time.monotonic() - started


def _say(what: str, logs: list[Path]) -> None:
    seconds: Counter[str] = Counter()
    for line in (line for log in logs for line in log.read_text().splitlines()):
        if found := PHASE.match(line):
            seconds[found[1]] += 60 * int(found[2]) + int(found[3])
    told = ", ".join(f"{name} {count} s" for name, count in seconds.items())
    print(f"{what}: {told}", file=sys.stderr)
