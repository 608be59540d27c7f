"""Compares pairs of formulas, one a line, for `mars_cli.scoring.expressions`; runs as a script.

Simplifying a formula can take hours, or more memory than there is (`9^{9^{9^9}}`), often inside one
step that Python cannot interrupt. So this process limits itself, and its death is the answer "not
shown to be equal". Lines are JSON: "ready" once, then true or false for each [gold, answer].
"""

from __future__ import annotations

import json
import resource
import signal
import sys

# Of CPU time, so that a busy machine grades as an idle one does.
_SECONDS = 5.0
_MEMORY_BYTES = 2 << 30
# Decimals in which 0.333... and 1/3 must agree: an approximation is not an exact answer.
_DECIMALS = 15


def main() -> None:
    """Reply to every line of stdin."""
    replies, sys.stdout = sys.stdout, sys.stderr
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    import math_verify

    print(json.dumps("ready"), file=replies, flush=True)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)  # its signal kills, as nothing handles it
        gold, answer = (
            math_verify.parse(f"${text}$", parsing_timeout=None) for text in json.loads(line)
        )
        equal = math_verify.verify(
            gold,
            answer,
            float_rounding=_DECIMALS,
            allow_set_relation_comp=True,  # x < 3 is the interval up to 3
            timeout_seconds=None,
        )
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(bool(equal)), file=replies, flush=True)


if __name__ == "__main__":
    main()
