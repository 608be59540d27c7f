"""What figures draw, where, and that nobody's text, null or rcParams can spoil one."""

from __future__ import annotations

import copy
import itertools
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.text import Text

from mars_cli.report import figures
from mars_cli.report.figures import style
from mars_cli.report.figures.pareto import front
from mars_cli.report.figures.reading import Point, looks
from tests.unit.analysis.built import MARS, STRICT, full_task, results

THETAS = (0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96)
KS = (7, 10)
SWEPT = [f"mars-eagle3-k{k}-t{theta:g}" for k in KS for theta in THETAS]
NULLS = ("score", "recovery", "speedup", "acceptance_per_position")
HOSTILE = (r"$\alpha$ <script>&amp;", "\u202e|a\n日本 \x1b[31m", "W" * 100_000, "../../etc", "ab.")


def lane(rule, draft="eagle3", k=7, theta=None):
    name = f"{rule}-{draft}-k{k}" + (f"-t{theta:g}" if theta else "")
    parameters = {} if theta is None else {"theta": theta}
    return {
        "id": name,
        "rule": rule,
        "draft": draft,
        "k": k,
        "theta": theta,
        "parameters": parameters,
        "protect_stop": False,
        "temperature": 0.0,
    }


def row(score, speedup, k=7, wide=0.05):
    return {
        "score": score,
        "score_ci": [score - wide, score + wide],
        "recovery": 100 * score / 0.8,
        "recovery_ci": [100 * score / 0.8 - 60 * wide, 100 * score / 0.8 + 60 * wide],
        "recovery_note": None,
        "speedup": speedup,
        "speedup_ci": [speedup * 0.9, speedup * 1.1],
        "acceptance_per_position": [0.8**j for j in range(1, k + 1)] if k else None,
        "by_concurrency": {},
    }


def swept(tasks=("mars_gsm8k",), thetas=THETAS, ks=KS):
    """A sweep: score rises and speedup falls with theta."""
    lanes = [{"id": "ar", "rule": "none", "draft": None, "k": 0}]
    rows = {"ar": row(0.8, 1.0, 0) | {"speedup_ci": None, "recovery_ci": None}}
    for k in ks:
        lanes.append(lane("strict", k=k))
        rows[f"strict-eagle3-k{k}"] = row(0.8, 1.1 + k / 20, k)
    for k, theta in itertools.product(ks, thetas):
        lanes.append(lane("mars", k=k, theta=theta))
        rows[lanes[-1]["id"]] = row(theta * 0.8, 3 - 2 * theta + k / 20, k)
    facts = {
        "n": 100,
        "n_speed": 8,
        "metric": "exact_match,none",
        "higher_is_better": True,
        "concurrency": [1],
    }
    every = {task: {**facts, "lanes": copy.deepcopy(rows)} for task in tasks}
    for task in every.values():
        for found in task["lanes"].values():
            found["by_concurrency"]["1"] = {k: found[k] for k in ("speedup", "speedup_ci")}
    noise = {"aa_speedup": 1.0, "aa_ci": [0.97, 1.04]}
    return {
        "schema": 1,
        "lanes": lanes,
        "tasks": every,
        "noise": {task: {**noise, "by_concurrency": {"1": noise}} for task in tasks},
        "overall": {
            name: {key: of[key] for key in ("speedup", "recovery")} for name, of in rows.items()
        },
    }


def with_nulls(found):
    """Every third figure of a lane is null; one task has no recovery at all."""
    found = copy.deepcopy(found)
    at = itertools.count()
    for name, task in found["tasks"].items():
        for lane_id, of in task["lanes"].items():
            for figure in NULLS:
                low = figure == "recovery" and name == next(iter(found["tasks"]))
                if lane_id != "ar" and (low or next(at) % 3 == 0):
                    of[figure] = of[f"{figure}_ci"] = None
            if of["speedup"] is None:
                of["by_concurrency"]["1"] = {"speedup": None, "speedup_ci": None}
            if of["recovery"] is None:
                of["recovery_note"] = "low_base"
    return found


def answers():
    steps = {"ar": [1, 1, 1], STRICT: [5, 1, 3, 1], MARS: [1, 4, 0, 4, 2]}
    return {name: [{"step_tokens": found}] for name, found in steps.items()}


def drawn(figure):
    """The labels of all lines and points."""
    return {line.get_label() for axes in figure.axes for line in axes.lines}


def at(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return [list(map(float, values)) for values in line.get_data()]


def texts(figure):
    """All words that are seen: of an axis, those of ticks inside the view."""
    hidden = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return [text for text in found if text not in hidden]


def footer(figure):
    return " ".join(max((t.get_text() for t in figure.texts), key=len, default="").split())


def three():
    return results(full_task())


# -- what is drawn -----------------------------------------------------------------------------


def test_recovery_has_every_lane_at_its_figure_and_interval_and_the_lines_98_and_100():
    found = three()
    figure = figures.recovery(found)
    (axes,) = figure.axes
    for place, name in enumerate((STRICT, MARS)):
        of = found["tasks"]["mars_products"]["lanes"][name]
        assert at(axes, name) == [[of["recovery"]], [place]]
        assert at(axes, f"{name} interval") == [of["recovery_ci"], [place, place]]
    verticals = [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1]
    assert {98.0, 100} <= set(verticals)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [STRICT, MARS]
    assert axes.get_title(loc="left") == "mars_products\n20 documents"
    assert figure.get_supxlabel() == "recovery (% of ar's score)"
    assert "95% intervals" in footer(figure)


def test_an_interval_longer_than_the_axis_ends_in_an_arrow():
    found = swept()
    first = found["tasks"]["mars_gsm8k"]["lanes"][SWEPT[0]]
    first["recovery_ci"] = [0.0, 900.0]
    figure = figures.recovery(found)
    (axes,) = figure.axes
    assert axes.get_xlim()[1] < 200
    heads = {line.get_marker(): line.get_xdata()[0] for line in axes.lines}
    assert (heads["<"], heads[">"]) == axes.get_xlim()
    assert "Arrows: the interval goes on." in footer(figure)
    assert "Arrows" not in footer(figures.recovery(swept()))


def test_speedup_has_every_lane_and_the_noise_band():
    figure = figures.speedup(swept(("one", "two")))
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert at(axes, SWEPT[0])[0] == [3 - 2 * 0.84 + 7 / 20]
        assert {*SWEPT} <= {line.get_label() for line in axes.lines}
        (band,) = [p for p in axes.patches if p.get_label() == "A/A"]
        assert (band.get_x(), band.get_x() + band.get_width()) == (0.97, pytest.approx(1.04))
    assert "Grey band: A/A" in footer(figure)


def test_without_a_control_the_noise_is_said_to_be_unknown():
    found = swept()
    found["noise"] = {}
    figure = figures.speedup(found)
    assert not [p for p in figure.axes[0].patches if p.get_label() == "A/A"]
    assert "No A/A band on mars_gsm8k: the noise is unknown." in footer(figure)


def test_each_concurrency_has_a_panel_of_its_own():
    found = swept()
    task = found["tasks"]["mars_gsm8k"]
    task["concurrency"] = [1, 8]
    for of in task["lanes"].values():
        of["by_concurrency"]["8"] = {"speedup": of["speedup"] / 2, "speedup_ci": None}
    figure = figures.speedup(found)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"mars_gsm8k\n8 prompts, concurrency {level}" for level in (1, 8)
    ]
    alone, together = (at(axes, SWEPT[0])[0][0] for axes in figure.axes)
    assert together == alone / 2


def test_theta_curves_have_a_line_a_k_a_band_and_the_two_baselines():
    figure = figures.theta_curves(swept(("one", "two")))
    assert len(figure.axes) == 4
    for axes in figure.axes:
        assert axes.get_xticks().tolist() == list(THETAS)
    above, below = figure.axes[0], figure.axes[2]
    for k in KS:
        assert at(above, f"mars, K = {k}") == [[*THETAS], [0.8 * theta for theta in THETAS]]
        assert at(below, f"mars, K = {k}")[1] == [3 - 2 * theta + k / 20 for theta in THETAS]
        assert at(below, f"strict-eagle3-k{k}")[1] == [1.1 + k / 20] * 2
    assert at(above, "ar")[1] == [0.8, 0.8]
    bands = [c for c in above.collections if isinstance(c, PolyCollection)]
    assert len(bands) == len(KS)
    corners = bands[0].get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(0.8 * 0.84 - 0.05)
    assert (above.get_ylabel(), below.get_ylabel()) == ("score", "speedup (times ar)")


def test_a_null_breaks_the_line_and_a_lonely_interval_is_still_drawn():
    found = swept(ks=(7,))
    rows = found["tasks"]["mars_gsm8k"]["lanes"]
    rows[SWEPT[1]]["score"] = None
    figure = figures.theta_curves(found)
    above = figure.axes[0]
    assert np.isnan(at(above, "mars, K = 7")[1][1])
    lonely = [line.get_ydata() for line in above.lines if list(line.get_xdata()) == [0.84, 0.84]]
    assert [list(ends) for ends in lonely] == [rows[SWEPT[0]]["score_ci"]]
    assert f"No score of mars_gsm8k, {SWEPT[1]}: not measured." in footer(figure)


def test_pareto_has_every_lane_with_intervals_the_front_and_the_recommended_one():
    found = swept()
    figure = figures.pareto(found, "mars_gsm8k", SWEPT[3])
    (axes,) = figure.axes
    rows = found["tasks"]["mars_gsm8k"]["lanes"]
    assert len(rows) == 17
    for name, of in rows.items():
        assert at(axes, name) == [[of["speedup"]], [of["recovery"]]]
    ends = [[*map(list, line.get_data())] for line in axes.lines]
    best = rows[SWEPT[3]]
    assert [best["speedup_ci"], [best["recovery"]] * 2] in ends
    assert [[best["speedup"]] * 2, best["recovery_ci"]] in ends
    assert at(axes, "recommended") == at(axes, SWEPT[3])
    # K 10 is faster than K 7 at each theta and scores alike.
    best = ["strict-eagle3-k10", *(f"mars-eagle3-k10-t{theta:g}" for theta in THETAS[-2::-1])]
    assert at(axes, "front")[0] == [rows[name]["speedup"] for name in best]
    names = {t.get_text() for t in axes.texts}
    assert {"ar", "strict", "mars-t0.94", "mars-t0.84"} <= names
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert {"strict, K = 7", "mars, K = 7", "strict, K = 10", "mars, K = 10"} < set(legend)
    assert f"recommended: {SWEPT[3]}" in legend


def test_pareto_over_all_tasks_has_no_intervals_and_says_what_is_missing():
    found = swept(("one", "two"))
    found["overall"][SWEPT[0]]["recovery"] = None
    found["overall"][SWEPT[1]]["notes"] = ["recovery: over 1 of 2 tasks, the others have none"]
    figure = figures.pareto(found, recommended=SWEPT[0])
    assert SWEPT[0] not in drawn(figure)
    assert "No intervals. Recovery: over 1 of 2 tasks, the others have none." in footer(figure)
    assert f"No point of all tasks, {SWEPT[0]}: no recovery." in footer(figure)
    assert f"The recommended {SWEPT[0]} cannot be shown." in footer(figure)


def test_the_front_is_of_lanes_that_none_beats_in_both_figures():
    pairs = {"ar": (1, 100), "same": (1, 100), "a": (2, 99), "b": (2, 98)}
    pairs |= {"c": (3, 99.5), "worse": (4, 80), "d": (4, 90)}
    points = {name: (Point(float(x)), Point(float(y))) for name, (x, y) in pairs.items()}
    assert front(points) == ["ar", "c", "d"]


def test_acceptance_has_a_line_a_lane_over_positions_from_1():
    figure = figures.acceptance_by_position(swept(("one", "two")))
    assert len(figure.axes) == 4  # of each task K 7 and K 10
    for axes, k in zip(figure.axes, KS * 2, strict=True):
        for name in (f"strict-eagle3-k{k}", *(n for n in SWEPT if f"-k{k}-" in n)):
            shares = [pytest.approx(100 * 0.8**j) for j in range(1, k + 1)]
            assert at(axes, name) == [[*range(1, k + 1)], shares]
        assert axes.get_ylim() == (0, 100)
        assert 1 in axes.get_xticks()
        assert axes.get_title(loc="left").endswith(f"\neagle3, K = {k}")


def test_the_histogram_leaves_out_first_outputs_and_those_that_delivered_nothing():
    figure = figures.acceptance_lengths({k: iter(v) for k, v in answers().items()})
    heights = [
        {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.containers[0]}
        for axes in figure.axes
    ]
    third = pytest.approx(100 / 3)
    assert heights == [{1: pytest.approx(200 / 3), 3: third}, {2: third, 4: pytest.approx(200 / 3)}]
    assert [at(axes, "tau")[0][0] for axes in figure.axes] == pytest.approx([5 / 3, 10 / 3])
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"{STRICT}\ntau 1.67, 3 steps",
        f"{MARS}\ntau 3.33, 3 steps",
    ]


def test_a_null_is_left_out_and_named_with_its_reason():
    found = with_nulls(swept(("one", "two")))
    figure = figures.recovery(found)
    (axes,) = figure.axes
    assert axes.get_title(loc="left").startswith("two\n")
    null = [n for n, of in found["tasks"]["two"]["lanes"].items() if of["recovery"] is None]
    assert null
    assert not set(null) & drawn(figure)
    assert "No recovery of one, all lanes: low base; two, 5 of 16 lanes: low base." in footer(
        figure
    )


@pytest.mark.parametrize(
    ("draw", "why"),
    [
        (figures.recovery, "No recovery of one, all lanes: low base."),
        (figures.speedup, "No speedup of one, all lanes: not measured."),
        (figures.theta_curves, "No score or speedup of one, all lanes: not measured."),
        (figures.acceptance_by_position, "No acceptance of one, all lanes: no step had a draft."),
        (lambda found: figures.pareto(found, "one"), "all lanes: no speedup, no recovery."),
        (lambda _: figures.acceptance_lengths({MARS: [{"step_tokens": [1]}]}), "No answer of"),
    ],
)
def test_a_figure_of_nulls_alone_says_why_there_is_none(draw, why):
    found = swept(("one",))
    for of in found["tasks"]["one"]["lanes"].values():
        of.update(dict.fromkeys(NULLS), recovery_note="low_base", by_concurrency={})
    with pytest.raises(figures.NothingToDrawError, match=re.escape(why)):
        draw(found)


def test_theta_curves_take_two_thetas():
    with pytest.raises(figures.NothingToDrawError, match="differ in theta"):
        figures.theta_curves(three())


def test_figures_beyond_measure_are_no_points():
    found = swept()
    found["tasks"]["mars_gsm8k"]["lanes"][SWEPT[0]]["recovery"] = 1e300
    assert SWEPT[0] not in drawn(figures.recovery(found))


def test_panels_beyond_the_tallest_figure_are_counted(monkeypatch):
    monkeypatch.setattr(style, "TALLEST", 2.0)
    figure = figures.recovery(swept([f"task{n}" for n in range(8)], thetas=THETAS[:2], ks=(7,)))
    assert len(figure.axes) == 3
    assert "5 more panels are left out." in footer(figure)


# -- how it looks ------------------------------------------------------------------------------

EVERY = {
    "recovery": figures.recovery,
    "speedup": figures.speedup,
    "theta": figures.theta_curves,
    "pareto": lambda found: figures.pareto(found, list(found["tasks"])[-1], SWEPT[3]),
    "acceptance": figures.acceptance_by_position,
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("nulls", [False, True])
def test_letters_are_large_enough_inside_and_apart(name, nulls):
    found = swept(("mars_gsm8k", "mars_humaneval", "mars_products"))
    figure = EVERY[name](with_nulls(found) if nulls else found)
    assert figure.get_figwidth() in (3.5, 7.0)
    boxes = {}
    for text in texts(figure):
        assert text.get_fontsize() >= 8
        boxes[text] = text.get_window_extent()
        assert figure.bbox.padded(1).count_contains(boxes[text].corners()) == 4, text.get_text()
    for (one, box), (other, another) in itertools.combinations(boxes.items(), 2):
        apart = not box.padded(-1).overlaps(another.padded(-1))
        assert apart, (one.get_text(), other.get_text())


def test_series_differ_in_more_than_colour():
    for found in (swept(), swept(ks=(4, 6, 8, 12))):
        seen = {(one.colour, one.marker, one.hollow) for one in looks(found).values()}
        assert len({(marker, hollow) for _, marker, hollow in seen}) == len(seen)
        assert {name for name, one in looks(found).items() if one.hollow} == {
            lane["id"] for lane in found["lanes"] if lane["rule"] == "strict"
        }
    ten = [style.look(index) for index in range(10)]
    assert len({(one.marker, str(one.line)) for one in ten}) == 10
    figure = figures.acceptance_by_position(swept(ks=(7,)))
    lines = figure.axes[0].lines
    marks = {(line.get_marker(), line.get_markerfacecolor() == "white") for line in lines}
    assert len(marks) == len(lines) == len(THETAS) + 1
    assert len({str(line.get_linestyle()) for line in lines}) > 1


# -- files -------------------------------------------------------------------------------------


def test_what_the_results_support_is_written_and_the_rest_is_named(tmp_path):
    said = []
    records = {"mars_products": answers()}
    written = figures.write_figures(three(), tmp_path / "new", answers=records, say=said.append)
    names = ["recovery", "speedup", "acceptance-position", "pareto-mars_products"]
    names.append("acceptance-length-mars_products")
    assert [path.name for path in written] == [n + end for n in names for end in (".png", ".svg")]
    assert sorted(tmp_path.glob("new/*")) == sorted(written)
    assert said == ["figure theta: skipped. It takes lanes that differ in theta alone."]


def test_the_same_results_give_the_same_bytes_whatever_the_user_has_set(tmp_path):
    found = swept(thetas=THETAS[:2])
    first = style.save(figures.pareto(found, "mars_gsm8k"), tmp_path / "a")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "savefig.dpi": 20}):
        before = dict(matplotlib.rcParams)
        second = style.save(figures.pareto(found, "mars_gsm8k"), tmp_path / "b")
        assert dict(matplotlib.rcParams) == before
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    svg = first[1].read_text()
    assert not re.search(r"<dc:date>|matplotlib v|20\d\d-\d\d", svg)


def test_a_png_has_200_dots_per_inch(tmp_path):
    png, _ = style.save(figures.recovery(three()), tmp_path / "figure")
    assert int.from_bytes(png.read_bytes()[16:20]) == 3.5 * 200


def test_text_of_strangers_is_text_in_an_svg(tmp_path):
    found = swept(HOSTILE, thetas=THETAS[:2], ks=(7,))
    found["lanes"][-1]["id"] = odd = r"mars-$x_i$<b>&" + "日" * 40
    for task in found["tasks"].values():
        task["lanes"][odd] = task["lanes"].pop(SWEPT[1])
    _, svg = style.save(figures.recovery(found), tmp_path / "recovery")
    root = ElementTree.parse(svg).getroot()
    assert not [e for e in root.iter() if e.tag.rpartition("}")[2] in ("script", "b")]
    words = "".join(root.itertext())
    assert r"$\alpha$" in words
    assert "mars-$x_" in words
    assert "\u202e" not in words


def test_files_have_plain_names_inside_the_folder_whatever_tasks_are_called(tmp_path):
    records = dict.fromkeys(("../../etc", "..//..//etc", "overall"), answers())
    written = figures.write_figures(results(), tmp_path / "out", answers=records)
    assert len(written) == len(set(written)) == 2 * 3
    assert {path.parent for path in written} == {tmp_path / "out"}
    assert all(re.fullmatch(r"[\w.-]+", path.name, re.ASCII) for path in written)
    assert not {path.stem for path in written} & {"acceptance-length-overall"}


def test_importing_the_figures_loads_no_heavy_library():
    code = (
        "import sys, mars_cli.report.figures\n"
        "print({'matplotlib', 'scipy', 'torch', 'vllm', 'lm_eval'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
