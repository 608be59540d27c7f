r"""Answers that are formulas or words are found in a text, and compared by what they mean."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from mars_cli.errors import MarsError
from mars_cli.scoring import expressions
from mars_cli.scoring.expressions import final_expression, same_expression


@pytest.fixture
def math_verify() -> None:
    pytest.importorskip("math_verify", reason="math-verify comes with the extras cpu and gpu")


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        (r"So $\boxed{\frac{3}{4}}$ of it.", r"\frac{3}{4}"),
        (r"First \boxed{x+1}, rather \boxed{x^2+1}, as 3 > 2.", "x^2+1"),
        (r"\boxed{x} and \boxed{ }", "x"),
        (r"The answer is 4, no: \boxed{5}", "5"),
        (
            "\\boxed{\\begin{pmatrix}\n1 \\\\ 2\n\\end{pmatrix}}",
            r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        ),
        (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}"),
        ("#### 3/4", "3/4"),
        ("The final answer is $x^2+1$, for $x > 0$.", "x^2+1"),
        ("The answer is **Evelyn**. She took $v = 3$.", "Evelyn"),
        ("The answer is\n\\[\nx+1\n\\]", "x+1"),
        (r"Let $x = 1$. Then \(y = \sqrt{2}\).", r"y = \sqrt{2}"),
        ("That makes 18.", "18"),
        (r"<think>\boxed{4}</think>Thus \boxed{5}.", "5"),
        (r"maybe \boxed{4}</think>5", "5"),
        (r"<think>so far \boxed{4}", None),
        ("I do not know", None),
        ("", None),
    ],
)
def test_the_answer_is_found_as_it_is_written(text: str, expression: str | None) -> None:
    assert final_expression(text) == expression


@pytest.mark.parametrize("part", [r"\( x ", r"\[", "$", r"\boxed{", "The answer is x. "])
def test_an_answer_that_goes_round_in_circles_is_read_in_no_time(part: str) -> None:
    begin = time.process_time()
    final_expression(part * (100_000 // len(part)))
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("70", r"\text{70}"),
        ("18", "18.00"),
        ("18", r"\$18."),
        ("1234", "1,234"),
        (r"11,\! 111,\! 100", "11111100"),
        ("-3", "\u22123"),
        (r"\frac{3}{4}", ".75"),
        (r"\frac{3}{4}", "3/4"),
        (r"\frac{3}{4}", r"$\dfrac34$"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"\text{Evelyn}", r"\textbf{evelyn}."),
        (r"\text{(C)}", "C"),
        (r"\text{(C)}", r"(\mathrm{C})"),
        (r"\text{no solution}", r"\text{No solution}"),
        ("even", r"\text{even}"),
        (r"\sqrt{2}", r" \sqrt{2} "),
    ],
)
def test_numbers_words_and_equal_texts_need_no_algebra(gold: str, answer: str) -> None:
    assert same_expression(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("18", ""),
        ("18", None),
        ("", ""),
        ("12", "13"),
        (r"\frac13", "0.333333333"),
        ("123456789012345678", "123456789012345679"),
        ("0.1234567890123456", "0.1234567890123457"),
        (r"\text{Evelyn}", "Carla"),
        (r"\text{Evelyn}", "Eve"),
        (r"\text{east}", "seat"),
        (r"\text{no}", "on"),
        (r"\text{(C)}", "B"),
        (r"\text{even}", "2"),
        ("x", "x" * 1001),
    ],
)
def test_other_numbers_and_words_are_wrong(gold: str, answer: str | None) -> None:
    assert not same_expression(gold, answer)


@pytest.mark.usefixtures("math_verify")
@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\pi/2)"),
        (r"\left(\frac{3}{2},-13\right)", "(1.5, -13)"),
        ("p - q", "-q+p"),
        ("x^2+1", "1 + x^{2}"),
        ("10x - 5", "5(2x-1)"),
        (r"3\sqrt{13}", r"\sqrt{117}"),
        (r"11\sqrt2", r"11\sqrt{2}"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        ("6 - 5i", "-5i+6"),
        ("1,-2", "-2, 1"),
        ("3, 5, 7", r"\{7, 5, 3\}"),
        ("1,2", r"x=1 \text{ or } x=2"),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"),
        ("[-2,7]", r"x \in \left[-2, 7\right]"),
        (r"(-\infty, 2) \cup (3, \infty)", r"\left(-\infty,2\right)\cup\left(3,\infty\right)"),
        (r"(-\infty,3)", "x<3"),
        ("x=5", "5"),
        ("5", "x = 5"),
        ("2x+3", "y=2x+3"),
        (r"x \le 3", r"3 \ge x"),
        (r"90^\circ", "90"),
        ("90", r"90^{\circ}"),
        ("90", r"90\text{ degrees}"),
        (r"15\mbox{ cm}^2", "15"),
        ("5", r"\text{5 apples}"),
        (r"5.4 \text{ cents}", "5.4"),
        ("10\\%", "10"),
        ("52_8", "52_{8}"),
        ("1000000", r"1 \times 10^6"),
        (
            r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}",
            r"\begin{pmatrix}-\frac13\\\frac{2}{3}\end{pmatrix}",
        ),
    ],
)
def test_equal_formulas_in_different_spellings_are_the_same(gold: str, answer: str) -> None:
    assert same_expression(gold, answer)


@pytest.mark.usefixtures("math_verify")
@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(\frac{\pi}{2}, 3)"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "1"),
        (r"(-\infty,2]", r"(-\infty,2)"),
        (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty,2)"),
        ("x^2+1", "x^2-1"),
        ("x^2+1", "y^2+1"),
        (r"\sqrt{2}", "1.41421356"),
        (r"\pi", r"\frac{22}{7}"),
        ("6-5i", "6+5i"),
        ("1,-2", "1"),
        ("3, 5, 7", "3, 5"),
        ("5", r"5 \text{ or } 6"),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}"),
        (r"x \le 3", "x < 3"),
        ("x=5", "6"),
        (r"90^\circ", r"91^\circ"),
        ("52_8", "53_8"),
        ("10\\%", "0.1"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 2 \\ 1 \end{pmatrix}"),
        ("18", "18x"),
        ("x+1", r"\frac{"),
    ],
)
def test_different_formulas_are_told_apart(gold: str, answer: str) -> None:
    assert not same_expression(gold, answer)


@pytest.mark.usefixtures("math_verify")
def test_a_formula_that_nobody_can_work_out_is_wrong_and_the_next_is_graded_as_ever() -> None:
    begin = time.monotonic()
    assert not same_expression("x+1", "9^{9^{9^{9}}}")
    assert time.monotonic() - begin < 120  # 5 seconds of computing, on however busy a machine
    assert same_expression("x+1", "1+x")


@pytest.mark.usefixtures("math_verify")
def test_a_worker_that_was_killed_is_replaced() -> None:
    assert same_expression("a+1", "1+a")
    assert expressions._worker is not None
    os.kill(expressions._worker.pid, signal.SIGKILL)
    expressions._worker.wait()
    assert same_expression("a+2", "2+a")


def test_without_the_package_it_is_said_rather_than_graded_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expressions._stop()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "math_verify.py").write_text("raise ImportError", encoding="utf-8")
    with pytest.raises(MarsError, match="math-verify cannot be imported") as error:
        same_expression("b+1", "1+b")
    assert "extras cpu and gpu" in str(error.value.hint)
    assert expressions._worker is None
