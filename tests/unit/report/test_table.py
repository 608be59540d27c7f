# ruff: noqa: RUF001 - null is printed as an en dash
"""The picture a user sees, at two widths, and that text stays text."""

from __future__ import annotations

import copy
import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from mars_cli.analysis.compare import build_results
from mars_cli.report import numbers
from mars_cli.report.markdown import markdown
from mars_cli.report.table import (
    fidelity_lines,
    noise_line,
    pass_lines,
    strict_lines,
    summary_table,
    task_notes,
)
from tests.unit.analysis.built import LANES, tasks

STRICT, MARS = "strict-ngram-k7", "mars-ngram-k7-t0.9"
LANE_IDS = ("ar", STRICT, MARS)


def lane(**figures):
    nulls = dict.fromkeys(
        (
            *("score", "score_ci", "recovery", "recovery_ci", "recovery_note", "p_value"),
            *("acceptance_length", "speedup", "speedup_ci", "decode_speedup", "decode_speedup_ci"),
            *("strict_speedup", "strict_speedup_ci"),
            *("wall_speedup", "wall_speedup_ci", "tokens_per_s", "relaxed_per_100_tokens"),
            *("exact_match_ar", "truncated_share", "within_noise"),
            *("largest_loss", "safe", "p_value_holm"),
        )
    )
    return {**nulls, "notes": [], **figures}


def whole(**figures):
    names = ("speedup", "strict_speedup", "recovery", "acceptance_length")
    return {**dict.fromkeys(names), "notes": [], **figures}


def facts(name, lanes, notes=()):
    return {
        "n": 100 if name == "mars_products" else 12,
        "n_speed": 8,
        "metric": "exact_match,none",
        "higher_is_better": True,
        "speed_mode": "interleaved",
        "notes": list(notes),
        "lanes": lanes,
    }


LOW_BASE = "recovery: ar got 1 of 12 documents right; below 10 no ratio is given"
PRODUCTS = facts(
    "mars_products",
    {
        "ar": lane(score=0.69, recovery=100.0, acceptance_length=1.0, speedup=1.0, tokens_per_s=20),
        STRICT: lane(
            score=0.69,
            recovery=100.0,
            recovery_ci=[98.25, 101.75],
            largest_loss=1.75,
            safe=True,
            acceptance_length=1.08,
            speedup=1.03,
            speedup_ci=[0.99, 1.07],
            within_noise=True,
            tokens_per_s=20.6,
        ),
        MARS: lane(
            score=0.67,
            recovery=97.1,
            recovery_ci=[90.0, 104.76],
            largest_loss=10.0,
            safe=False,
            p_value=0.012,
            p_value_holm=0.024,
            acceptance_length=1.44,
            speedup=1.22,
            speedup_ci=[1.17, 1.27],
            within_noise=False,
            tokens_per_s=24.4,
        ),
    },
)
HUMANEVAL = facts(
    "mars_humaneval",
    {
        "ar": lane(score=0.083, recovery_note="low_base", acceptance_length=1.0, speedup=1.0),
        STRICT: lane(
            score=0.083,
            recovery_note="low_base",
            acceptance_length=1.5,
            speedup=1.4,
            speedup_ci=[1.3, 1.5],
            tokens_per_s=30.1,
            notes=[LOW_BASE],
        ),
        MARS: lane(
            score=0.0,
            recovery_note="low_base",
            acceptance_length=2.44,
            speedup=2.4,
            speedup_ci=[2.1, 2.7],
            tokens_per_s=52.0,
            notes=[LOW_BASE, "33% of the answers were cut off by the length limit"],
        ),
    },
)
RESULTS = {
    "schema": 1,
    "safe_recovery": 98.0,
    "run": {"id": "demo", "created": "2026-11-29", "status": "complete"},
    "model": {"id": "smollm2-135m", "revision": None},
    "environment": {"vllm": "0.32.0", "cpu": {"cores": 2}},
    "lanes": [{"id": name, "rule": name.split("-")[0], "k": 7} for name in LANE_IDS],
    "tasks": {"mars_products": PRODUCTS, "mars_humaneval": HUMANEVAL},
    "noise": {
        "mars_products": {"aa_speedup": 1.01, "aa_ci": [0.97, 1.05], "notes": []},
        "mars_humaneval": {"aa_speedup": None, "aa_ci": None, "notes": []},
    },
    "overall": {
        "ar": whole(speedup=1.0),
        STRICT: whole(speedup=1.2, recovery=100.0, acceptance_length=1.3),
        MARS: whole(speedup=1.71, strict_speedup=1.43, recovery=97.1, acceptance_length=1.9),
    },
    "engine_differences": [f"{STRICT}, {MARS}: async_scheduling is False, with ar True"],
    "notes": ["Intervals are of this run alone."],
}

AT_100 = """\
beside the draft, strict-ngram-k7, mars-ngram-k7-t0.9: async_scheduling is False, with ar True

mars_products · exact_match,none · 100 documents, 8 timed prompts (interleaved)
  lane                score              recovery     loss ≤   tau               speedup  tok/s
  ar                  0.690                100.0%          –  1.00                 1.00x   20.0
  strict-ngram-k7     0.690  100.0% [98.2, 101.8]  safe 1.8%  1.08  1.03x [0.99, 1.07] ~   20.6
  mars-ngram-k7-t0.9  0.670   97.1% [90.0, 104.8]      10.0%  1.44    1.22x [1.17, 1.27]   24.4
  A/A 1.01x [0.97, 1.05] (ar against itself): differences inside are noise

mars_humaneval · exact_match,none · 12 documents, 8 timed prompts (interleaved)
  lane                score              recovery     loss ≤   tau               speedup  tok/s
  ar                  0.083            – low base          –  1.00                 1.00x      –
  strict-ngram-k7     0.083            – low base          –  1.50    1.40x [1.30, 1.50]   30.1
  mars-ngram-k7-t0.9  0.000            – low base          –  2.44    2.40x [2.10, 2.70]   52.0
  noise floor not measured: no prompt was timed twice with ar
  - all lanes: recovery: ar got 1 of 12 documents right; below 10 no ratio is given
  - mars-ngram-k7-t0.9: 33% of the answers were cut off by the length limit

overall
  - strict-ngram-k7: speedup 1.20x (geometric mean), recovery 100.0% (mean), tau 1.30 (pooled)
  - mars-ngram-k7-t0.9: speedup 1.71x, 1.43x over strict (geometric mean), recovery 97.1% (mean),
    tau 1.90 (pooled)

tau: acceptance length, delivered tokens per step. Brackets: 95% intervals. loss ≤: the largest loss
of recovery, in % points, that the data do not exclude; safe: at most 2. ~ the interval overlaps the
A/A noise: no difference is shown. Intervals are of this run alone.
"""
AT_80 = """\
beside the draft, strict-ngram-k7, mars-ngram-k7-t0.9: async_scheduling is
False, with ar True

mars_products · exact_match,none · 100 documents, 8 timed prompts (interleaved)
  lane                score       recovery  loss ≤   tau         speedup  tok/s
  ar                  0.690         100.0%       –  1.00           1.00x   20.0
  strict-ngram-k7     0.690         100.0%    1.8%  1.08           1.03x   20.6
                             [98.2, 101.8]    safe        [0.99, 1.07] ~
  mars-ngram-k7-t0.9  0.670          97.1%   10.0%  1.44           1.22x   24.4
                             [90.0, 104.8]                  [1.17, 1.27]
  A/A 1.01x [0.97, 1.05] (ar against itself): differences inside are noise

mars_humaneval · exact_match,none · 12 documents, 8 timed prompts (interleaved)
  lane                score       recovery  loss ≤   tau         speedup  tok/s
  ar                  0.083     – low base       –  1.00           1.00x      –
  strict-ngram-k7     0.083     – low base       –  1.50           1.40x   30.1
                                                            [1.30, 1.50]
  mars-ngram-k7-t0.9  0.000     – low base       –  2.44           2.40x   52.0
                                                            [2.10, 2.70]
  noise floor not measured: no prompt was timed twice with ar
  - all lanes: recovery: ar got 1 of 12 documents right; below 10 no ratio is
    given
  - mars-ngram-k7-t0.9: 33% of the answers were cut off by the length limit

overall
  - strict-ngram-k7: speedup 1.20x (geometric mean), recovery 100.0% (mean), tau
    1.30 (pooled)
  - mars-ngram-k7-t0.9: speedup 1.71x, 1.43x over strict (geometric mean),
    recovery 97.1% (mean), tau 1.90 (pooled)

tau: acceptance length, delivered tokens per step. Brackets: 95% intervals. loss
≤: the largest loss of recovery, in % points, that the data do not exclude;
safe: at most 2. ~ the interval overlaps the A/A noise: no difference is shown.
Intervals are of this run alone.
"""


def render(results, width):
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    console.print(summary_table(results, width))
    lines = console.file.getvalue().split("\n")
    assert max(map(len, lines)) <= width
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.parametrize(("width", "expected"), [(100, AT_100), (80, AT_80)])
def test_the_table_looks_like_this(width, expected):
    assert render(RESULTS, width) == expected


@pytest.mark.parametrize("width", [20, 40, 60, 79, 95, 96, 120, 200])
def test_no_line_is_longer_than_the_width(width):
    figures = render(RESULTS, max(width, 40))
    assert "1.22x" in figures


def test_long_names_and_huge_figures_stay_within_the_width():
    results = copy.deepcopy(RESULTS)
    task = results["tasks"].pop("mars_products")
    task["lanes"]["topk-delta-eagle3-k7-k10-d0.6-" * 4] = {
        **task["lanes"].pop(MARS),
        "speedup": 1.5e9,
        "speedup_ci": [1e-9, 1e300],
        "tokens_per_s": 123456.7,
    }
    results["tasks"]["a_task_with_a_name_" * 9] = task
    for width in (80, 100):
        assert "1.5e+09x" in render(results, width)


def test_a_name_that_does_not_fit_is_broken_after_a_hyphen_and_no_number_is_cut():
    results = copy.deepcopy(RESULTS)
    lanes = results["tasks"]["mars_products"]["lanes"]
    lanes["mars-eagle3-k10-t0.905-protect-stop"] = lanes.pop(MARS)
    lanes["typical-ngram-k7-epsilon=1e-05"] = lanes.pop(STRICT)
    lines = [line[:20].rstrip() for line in render(results, 80).split("\n")]
    at = lines.index("  mars-eagle3-k10-")
    assert lines[at : at + 4] == [
        "  mars-eagle3-k10-",
        "    t0.905-protect-",
        "    stop",
        "  typical-ngram-k7-",
    ]
    assert lines[at + 4] == "    epsilon=1e-05"
    assert "  mars-eagle3-k10-t0.905-protect-stop  0.670   97.1% [90.0, 104.8]" in render(
        results, 140
    )


def test_only_a_safe_lane_is_called_safe():
    for width in (80, 100):
        text = render(RESULTS, width).split("tau: acceptance length")
        assert (text[0].count("safe"), text[1].count("safe: at most 2.")) == (1, 1)
    unsafe = copy.deepcopy(RESULTS)
    unsafe["tasks"]["mars_products"]["lanes"][STRICT]["safe"] = False
    assert render(unsafe, 100).count("safe") == markdown(unsafe).count("safe:") == 1


def test_without_a_recovery_interval_there_is_no_word_of_loss():
    results = copy.deepcopy(RESULTS)
    del results["tasks"]["mars_products"]
    assert "loss" not in render(results, 80)
    assert "the largest loss" not in markdown(results)


@given(tasks("one"), tasks("two"), st.sampled_from([80, 100, 140]))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_was_recorded_can_be_shown(one, two, width):
    found = build_results({"id": "x"}, {}, {}, LANES, {"one": one, "two": two})
    for shown in (render(found, width), markdown(found)):
        assert not re.search(r"\b(nan|inf|None)\b", shown)


def test_a_speedup_inside_the_noise_is_marked_and_explained():
    text = render(RESULTS, 100)
    (strict, *_) = [line for line in text.split("\n") if line.startswith(f"  {STRICT}")]
    assert "1.03x [0.99, 1.07] ~" in strict
    assert "~ the interval overlaps the A/A noise" in " ".join(text.split())
    clear = copy.deepcopy(RESULTS)
    del clear["tasks"]["mars_products"]["lanes"][STRICT]
    assert "~" not in render(clear, 100)


def test_a_figure_that_is_null_is_a_dash():
    results = {**RESULTS, "tasks": {"mars_products": facts("mars_products", {"ar": lane()})}}
    (row,) = [line for line in render(results, 100).split("\n") if line.startswith("  ar ")]
    assert row.split() == ["ar", *"–––––"]


@pytest.mark.parametrize("width", [80, 100])
def test_names_are_text_not_markup(width):
    results = copy.deepcopy(RESULTS)
    odd = "[red]x[/] \x1b[31m\u202e|y"
    results["tasks"] = {odd: facts(odd, {odd: lane(notes=["[/nonsense] \x1b]0;t\x07"])})}
    text = render(results, width)
    assert text.count("[red]x[/] \\x1b[31m\\x202e|y") >= 2
    assert "[/nonsense]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_note_of_several_lanes_is_said_once():
    assert task_notes(HUMANEVAL) == [
        f"all lanes: {LOW_BASE}",
        f"{MARS}: 33% of the answers were cut off by the length limit",
    ]


def figure(score, ci=None, recovery=None, recovery_ci=None, note=None):
    values = (score, ci, recovery, recovery_ci, note)
    names = ("score", "score_ci", "recovery", "recovery_ci", "recovery_note")
    return dict(zip(names, values, strict=True))


def sampled(samples):
    """HumanEval with several samples a document: pass@1, and pass@4 beside it."""
    results = copy.deepcopy(RESULTS)
    task = results["tasks"]["mars_humaneval"]
    task["samples"] = samples
    passes = {
        "ar": figure(0.8, [0.584, 0.919], 100.0),
        STRICT: figure(0.8, [0.584, 0.919], 98.7, [95.0, 101.2]),
        MARS: figure(0.0, [0.0, 0.161], note="low_base"),
    }
    for name, found in task["lanes"].items():
        found["metrics"] = {"pass@1,none": figure(0.25), "pass@4,none": passes[name]}
    return results


def test_samples_stand_in_the_title_and_pass_at_k_in_a_line():
    task = sampled(4)["tasks"]["mars_humaneval"]
    assert list(pass_lines(task)) == [
        "pass@4,none: ar 0.800 [0.584, 0.919]; "
        f"{STRICT} 0.800 [0.584, 0.919], recovery 98.7% [95.0, 101.2]; "
        f"{MARS} 0.000 [0.000, 0.161], recovery – low base"
    ]
    title = "mars_humaneval · exact_match,none · 12 documents, 4 samples each, 8 timed prompts"
    shown = render(sampled(4), 100)
    assert title in shown
    assert "- pass@4,none: ar 0.800 [0.584, 0.919]; strict" in shown
    written = markdown(sampled(4))
    assert "12 documents, 4 samples each; 8 timed prompts" in written
    assert r"- pass@4,none: ar 0.800 \[0.584, 0.919\]; strict" in written


@pytest.mark.parametrize("samples", [None, 1])
def test_a_single_sample_is_not_mentioned(samples):
    assert "sample" not in render(sampled(samples), 100)
    assert list(pass_lines(sampled(samples)["tasks"]["mars_humaneval"])) == []


def test_the_noise_line_says_what_it_does_not_know():
    assert noise_line(None).startswith("noise floor not measured")
    assert "its noise is unknown" in noise_line({"aa_speedup": 1.0, "aa_ci": None})


def test_results_of_no_task_render():
    found = build_results({"id": "x"}, {}, {}, [{"id": "ar", "rule": "none"}], {})
    assert "No task has results." in render(found, 80)
    assert markdown(found).startswith("# mars: x\n")


def test_markdown_has_the_tables_notes_lanes_and_environment():
    text = markdown(RESULTS)
    mars = "| `mars-ngram-k7-t0.9` | 0.670 | 97.1% [90.0, 104.8] | 10.0% | 0.012 | 0.024 | 1.44 |"
    assert mars in text
    assert "| 100.0% [98.2, 101.8] | 1.8% safe | – | – | 1.08 |" in text
    assert "that the data do not exclude; safe: at most 2." in text
    assert "a large p is no sign that a lane is safe" in text
    assert "1.03x [0.99, 1.07] ~" in text
    assert r"A/A 1.01x \[0.97, 1.05\]" in text
    assert "33% of the answers were cut off" in text
    assert "- cpu.cores: `2`" in text
    assert "- vllm: `0.32.0`" in text
    assert text.endswith("\n")


def test_markdown_rows_have_as_many_cells_as_the_header_whatever_the_names_hold():
    results = copy.deepcopy(RESULTS)
    odd = "a|b`c\n<script>"
    results["tasks"] = {odd: facts(odd, {odd: lane(notes=["<b>*x*</b> | y"])})}
    text = markdown(results)
    rows = [line for line in text.split("\n") if line.startswith("| `a\\|b")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 15
    assert "## a\\|b\\`c\\\\x0a&lt;script&gt;" in text
    assert r"&lt;b&gt;\*x\*&lt;/b&gt; \| y" in text


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (numbers.ratio(2.349), "2.35x"),
        (numbers.percent(98.71), "98.7%"),
        (numbers.at_most(2.0), "2.0%"),
        (numbers.at_most(2.04), "2.1%"),
        (numbers.at_most(100 - 97.1), "2.9%"),  # 2.9000000000000057 in binary
        (numbers.at_most(0.0), "0.0%"),
        (numbers.at_most(None), numbers.NULL),
        (numbers.share(0.125), "12.5%"),
        (numbers.interval([2.1, 2.6]), "[2.10, 2.60]"),
        (numbers.interval([90.0, 104.76], 1), "[90.0, 104.8]"),
        (numbers.interval(None), ""),
        (numbers.score(0.25), "0.250"),
        (numbers.score(27.31), "27.3"),
        (numbers.count(12345), "12,345"),
        (numbers.p_value(0.0004), "<0.001"),
        (numbers.p_value(0.0525), "0.052"),
        (numbers.rate(21.74), "21.7"),
        (numbers.rate(None), numbers.NULL),
        (numbers.count(None), numbers.NULL),
        (numbers.number(None), numbers.NULL),
    ],
)
def test_numbers_are_formatted_in_one_way(made, expected):
    assert made == expected


def test_fidelity_has_a_line_a_lane_that_was_re_scored() -> None:
    def lane(**checked: object) -> dict[str, object]:
        nothing = dict.fromkeys(("rank2_share", "violations", "nll_delta", "nll_delta_ci"))
        return {"fidelity": {**nothing, **checked}}

    task = {
        "lanes": {
            "ar": lane(rank2_share=0.0, violations=0),
            "strict": lane(),
            "mars": lane(
                rank2_share=0.0312, violations=0, nll_delta=0.0214, nll_delta_ci=[0.011, 0.0318]
            ),
            "wrong": lane(rank2_share=0.0312, violations=12),
        }
    }
    assert list(fidelity_lines(task)) == [
        "fidelity of mars: 3.1% of tokens are the target's second choice, 0 none that the rule "
        "allows; +0.021 nats a token against ar [0.011, 0.032]",
        "fidelity of wrong: 3.1% of tokens are the target's second choice, 12 none that the rule "
        "allows",
    ]


def test_the_speed_over_strict_is_told_at_each_concurrency_and_whether_it_is_one():
    apart = {"strict_speedup": 1.29, "strict_speedup_ci": [1.13, 1.47]}
    alike = {"strict_speedup": 1.16, "strict_speedup_ci": [0.98, 1.43]}
    alone = {"concurrency": [1], "lanes": {"ar": lane(), MARS: lane(**alike)}}
    end = ": speed over strict with the same draft and K, on the same prompts"
    assert list(strict_lines(alone)) == [f"{MARS}: 1.16x [0.98, 1.43] (not told apart){end}"]
    levels = {"1": apart, "8": alike}
    both = {"concurrency": [1, 8], "lanes": {MARS: lane(**apart, by_concurrency=levels)}}
    assert list(strict_lines(both)) == [
        f"{MARS}: 1.29x [1.13, 1.47] with 1 in flight, 1.16x [0.98, 1.43] (not told apart) with 8 "
        f"in flight{end}"
    ]
