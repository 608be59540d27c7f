"""What measuring with `mars` costs: `python -m benchmarks [PART...]` (`make bench`: all parts).

Each row is a ratio of two things measured side by side in this run; a part's rows are printed when
it is done. The exit code is 1 when two sides that must do the same work did not.
"""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks import batching, hook_cost, quality_cost, startup, sweep_cost
from benchmarks.ratios import table

PARTS = {
    "startup": startup.measure,
    "hook": hook_cost.measure,
    "quality": quality_cost.measure,
    "batching": batching.measure,
    "sweep": sweep_cost.measure,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"{unknown[0]}: no such part; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        print(f"measuring: {name}", file=sys.stderr)
        Console(width=120).print(table(PARTS[name]()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
