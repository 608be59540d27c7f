from __future__ import annotations

import pytest

from mars_cli.verification import plugin
from mars_cli.verification.spec import RuleSpec


def test_it_is_inert_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(plugin.RULE, raising=False)
    monkeypatch.delenv(plugin.THETA, raising=False)
    assert plugin.requested({}) is None
    assert plugin.requested({plugin.RULE: "", plugin.THETA: ""}) is None
    plugin.register()  # reaches for no part of vLLM


def test_the_environment_asks_as_the_command_line_does() -> None:
    assert plugin.requested({plugin.THETA: "0.9"}) == RuleSpec.of("mars", theta=0.9)
    assert plugin.requested({plugin.RULE: "topk:k=3"}) == RuleSpec.of("topk", k=3)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({plugin.THETA: "2"}, "MARS_THETA: theta must lie in"),
        ({plugin.THETA: "0.9,protect"}, "MARS_THETA: 'protect' is no parameter"),
        ({plugin.RULE: "martian"}, "MARS_RULE: unknown rule"),
        ({plugin.RULE: "typical", plugin.THETA: "0.9"}, "both set"),
    ],
)
def test_wrong_values_are_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        plugin.requested(environment)


@pytest.mark.parametrize(
    "text", ["strict", "mars:theta=0.9", "typical:epsilon=0.09,alpha=0.3", "topk:k=3,protect-stop"]
)
def test_a_rule_is_written_as_it_is_read(text: str) -> None:
    assert str(RuleSpec.parse(text)) == text
