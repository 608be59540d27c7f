"""The runners' own samplers, one call at a time, through the seam: V1's kernels and V2's Triton.

Expected answers come from a plain statement of the rules, or are worked out by hand.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from scipy.stats import chisquare

from mars_cli.verification.spec import STRICT, RuleSpec
from tests.unit.verification import rule_statement, test_vectors

pytestmark = pytest.mark.engine
ON_V1 = pytest.mark.parametrize("lab", ["V1"], indirect=True, scope="session")
ON_V2 = pytest.mark.parametrize("lab", ["V2"], indirect=True, scope="session")
SURE = 0.001  # p-value below which a distribution is called another one; seeds are fixed


def mars(theta: float) -> RuleSpec:
    return RuleSpec.of("mars", theta=theta)


def expected(rows: list[list[float]], draft: list[int], theta: float) -> list[int]:
    """What greedy verification under MARS emits for one request."""
    best = [row.index(max(row)) for row in rows]
    out: list[int] = []
    for row, token, top in zip(rows, draft, best, strict=False):
        if token != top and not rule_statement.mars(row, token, theta):
            return [*out, top]
        out.append(token)
    return [*out, best[len(draft)]]


def batch(seed: int, longest: int, vocabulary: int = 11) -> dict[str, Any]:
    """Requests of different draft lengths; near ties, negative tops, padding, masked tokens."""
    choose = random.Random(seed)
    case: dict[str, Any] = {"logits": [], "drafts": [], "thetas": [], "temperature": 0.0}
    for _ in range(12):
        length = choose.randint(1, longest)
        lift = choose.choice((-24, 0, 16))
        rows = [
            # Eighths are exact in bfloat16 at this size.
            [choose.randint(0, 63) / 8 + lift for _ in range(vocabulary)]
            for _ in range(length + 1)
        ]
        for row in rows:
            if choose.random() < 0.3:
                row[choose.randrange(vocabulary)] = float("-inf")
        draft = []
        for row in rows[:-1]:
            ranked = sorted(range(vocabulary), key=lambda token: -row[token])
            place = choose.choices((0, 1, 2, None), (50, 30, 10, 10))[0]
            draft.append(-1 if place is None else ranked[place])
        if -1 in draft:  # padding is at the end
            draft[draft.index(-1) :] = [-1] * (length - draft.index(-1))
        case["logits"].append(rows)
        case["drafts"].append(draft)
        case["thetas"].append(choose.choice((0.5, 0.875, 0.9, 1.0)))
    return case


def ask(lab: Any, case: dict[str, Any]) -> list[list[int]]:
    found: list[list[int]] = lab.ask(
        "verify", {**case, "rules": [mars(theta) for theta in case["thetas"]]}
    )
    return found


def answers(case: dict[str, Any]) -> list[list[int]]:
    triples = zip(case["logits"], case["drafts"], case["thetas"], strict=True)
    return [expected(rows, draft, theta) for rows, draft, theta in triples]


@pytest.mark.parametrize("longest", [1, 6])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_greedy_batches_of_mixed_drafts_and_rules(lab: Any, longest: int, dtype: str) -> None:
    for seed in range(4):
        case = batch(seed, longest)
        assert ask(lab, {**case, "dtype": dtype}) == answers(case)
        thetas = [1.0] * len(case["thetas"])
        assert answers({**case, "thetas": thetas}) != answers(case) or longest == 1


def test_sampling_accepts_a_relaxed_draft_with_certainty(lab: Any) -> None:
    """Logits so far apart that every draw has one outcome: all but the rule is decided."""
    for seed in range(4):
        case = batch(seed, 4)
        for rows in case["logits"]:
            for row in rows:
                # Distinct, 40 nats apart and positive, in the same order.
                order = sorted(set(row))
                row[:] = [v if v == float("-inf") else 3000.0 + 40 * order.index(v) for v in row]
                row[row.index(max(row))] += 40  # of a tie at the top the first wins for certain
        assert ask(lab, {**case, "temperature": 0.5}) == answers(case)


@ON_V2
def test_columns_beyond_the_vocabulary_of_the_draft_do_not_count(lab: Any) -> None:
    case = batch(5, 4)
    wide = [[[*row, 99.0, 98.0] for row in rows] for rows in case["logits"]]
    given = {**case, "logits": wide, "draft_vocabulary": 11}
    for found, right in zip(ask(lab, given), answers(case), strict=True):
        assert found == right


def test_right_answers_worked_out_elsewhere(lab: Any) -> None:
    if not test_vectors.FILE.is_file():
        pytest.skip("MARS_TEST_VECTORS names no file of rule vectors")
    chains = json.loads(test_vectors.FILE.read_text())["chains"]
    for chain in chains:
        case = {
            "logits": [[[float(v) for v in row] for row in chain["logits"]]],
            "drafts": [chain["drafts"]],
            "thetas": [chain["theta"]],
            "temperature": 0.0,
        }
        assert ask(lab, case) == [chain["output"]], chain


def softmax(row: list[float], temperature: float) -> list[float]:
    powers = [math.exp(v / temperature) for v in row]
    return [power / sum(powers) for power in powers]


ROW = [2.0, 1.8, 1.0, 0.2, -1.0]  # z2/z1 = 0.9
BONUS = [9.0, 0.0, 0.0, 0.0, 0.0]


def counts(
    lab: Any, rule: RuleSpec, drafts: list[int], temperature: float, **more: Any
) -> list[int]:
    """How often each token comes first, one request a draft."""
    n = len(drafts)
    case = {
        "logits": [[ROW, BONUS]] * n,
        "drafts": [[draft] for draft in drafts],
        "rules": [rule] * n,
        "temperature": temperature,
        **more,
    }
    first = [tokens[0] for tokens in lab.ask("verify", case)]
    return [first.count(token) for token in range(len(ROW))]


def own(temperature: float) -> list[float]:
    return softmax(ROW, temperature)


@ON_V1
@pytest.mark.parametrize("draft", [0, 1, 3])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_strict_keeps_the_distribution_of_the_target(
    lab: Any, draft: int, temperature: float
) -> None:
    n = 6000
    found = counts(lab, STRICT, [draft] * n, temperature, seed=1)
    assert chisquare(found, [n * p for p in own(temperature)]).pvalue > SURE


def test_a_relaxed_runner_up_comes_always(lab: Any) -> None:
    assert counts(lab, mars(0.85), [1] * 100, 1.0) == [0, 100, 0, 0, 0]


@ON_V1
@pytest.mark.parametrize(("theta", "draft"), [(0.85, 3), (0.95, 1), (0.85, 0)])
def test_where_mars_relaxes_nothing_it_keeps_the_distribution(
    lab: Any, theta: float, draft: int
) -> None:
    n = 6000
    found = counts(lab, mars(theta), [draft] * n, 1.0, seed=2)
    assert chisquare(found, [n * p for p in own(1.0)]).pvalue > SURE


@ON_V2
@pytest.mark.parametrize(("rule", "draft"), [(STRICT, 1), (mars(0.85), 3)], ids=["strict", "mars"])
def test_v2_keeps_the_distribution_too(lab: Any, rule: RuleSpec, draft: int) -> None:
    """Fewer draws: the interpreter makes some 50 a second."""
    n = 600
    found = counts(lab, rule, [draft] * n, 0.7, seed=2)
    assert chisquare(found, [n * p for p in own(0.7)]).pvalue > SURE


@ON_V1
@pytest.mark.parametrize("theta", [0.85, 1.0])
def test_random_drafts_too(lab: Any, theta: float) -> None:
    """Drafts drawn from q and handed over with it; MARS by hand, theta 1 the target's own."""
    q = [0.1, 0.4, 0.1, 0.3, 0.1]
    p = softmax(ROW, 1.0)
    n = 20_000
    choose = random.Random(4)
    drafts = choose.choices(range(5), q, k=n)
    found = counts(lab, mars(theta), drafts, 1.0, draft_probs=[[q]] * n, seed=3)
    relaxed = {1} if theta < 0.9 else set()
    accepted = [q[x] if x in relaxed else min(p[x], q[x]) for x in range(5)]
    left = [max(a - b, 0) for a, b in zip(p, q, strict=True)]
    right = [a + (1 - sum(accepted)) * r / sum(left) for a, r in zip(accepted, left, strict=True)]
    if not relaxed:
        assert right == pytest.approx(p)
    assert chisquare(found, [n * share for share in right]).pvalue > SURE


@ON_V1
@pytest.mark.parametrize(
    "mode", ["raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs"]
)
def test_reported_logprobs_are_those_of_the_untouched_logits(lab: Any, mode: str) -> None:
    """Of both runners test_requests.py compares the logits themselves, call by call."""
    _, found, untouched = lab.ask("logprobs", mode)
    assert found == untouched
