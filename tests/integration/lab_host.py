"""The engine's process with more to ask of it: scripted drafts, other weights, single kernels.

Everything else is the product's own: its host, its worker extension, its seam. With
`TRITON_INTERPRET=1` vLLM's V2 runner and its Triton kernels run on the CPU.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from typing import Any

import torch

from mars_cli.engine.host import Host, align
from mars_cli.engine.protocol import EngineSpec
from mars_cli.verification import plugin
from mars_cli.verification.hook import Policy
from mars_cli.verification.runners import V1_SAMPLER, V2_SAMPLER
from mars_cli.verification.spec import STRICT, RuleSpec
from tests import tiny
from tests.integration.scripted import Script, propose_v2


def interpret_triton() -> None:
    """Let this vLLM, a CPU build, find Triton, whose interpreter is told by the environment."""
    import vllm.platforms as platforms

    assert platforms.current_platform.is_cpu()
    platforms.vllm_version_matches_substr = lambda substring: False
    from triton.runtime.interpreter import InterpreterBuilder
    from vllm.triton_utils import HAS_TRITON

    assert HAS_TRITON
    # The interpreter refuses masks that are integers, which compiled Triton takes.
    for name, place in (("create_masked_load", 2), ("create_masked_store", 3)):
        original = getattr(InterpreterBuilder, name)

        def patched(*args: Any, original: Any = original, place: int = place) -> Any:
            args[place].data = args[place].data.astype(bool)
            return original(*args)

        setattr(InterpreterBuilder, name, patched)


def sampling_metadata(requests: int, temperature: float) -> Any:
    """V1's, with nothing set but the temperature."""
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata

    return SamplingMetadata(
        temperature=torch.full((requests,), float(temperature)),
        all_greedy=temperature == 0,
        all_random=temperature > 0,
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=None,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=torch.empty(0),
        presence_penalties=torch.empty(0),
        repetition_penalties=torch.empty(0),
        output_token_ids=[[] for _ in range(requests)],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors(),
    )


class LabHost(Host):
    def __init__(self, spec: EngineSpec) -> None:
        self.v2 = "TRITON_INTERPRET" in os.environ
        Script.follow(tiny.llama(20), 0, self.k(spec))
        if self.v2:
            interpret_triton()
            from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator

            if "MARS_TEST_SCRIPT" in os.environ:
                NgramGPUSpeculator.propose = propose_v2
        super().__init__(spec)
        plugin.refuse_wrong_requests(STRICT)
        self.changed = self.preempted = 0
        self._watch(importlib.import_module(V2_SAMPLER if self.v2 else V1_SAMPLER))

    def _watch(self, module: Any) -> None:
        """Count calls of the sampler that leave a logit changed, bit for bit; and preemptions."""
        verify = module.rejection_sample

        def rejection_sample(*args: Any, **named: Any) -> Any:
            logits = named.get("target_logits", args[0 if self.v2 else 5])
            before = logits.clone()
            output = verify(*args, **named)
            bits = [tensor.contiguous().view(torch.uint8) for tensor in (before, logits)]
            self.changed += not torch.equal(*bits)
            return output

        module.rejection_sample = rejection_sample

        scheduler = self.engine.engine_core.engine_core.scheduler
        preempt = scheduler._preempt_request

        def _preempt_request(*args: Any, **named: Any) -> Any:
            self.preempted += 1
            return preempt(*args, **named)

        scheduler._preempt_request = _preempt_request

    def watched(self) -> tuple[int, int]:
        """Calls of the sampler that left a logit changed; preemptions."""
        return self.changed, self.preempted

    @staticmethod
    def k(spec: EngineSpec) -> int:
        k: int = spec.args["speculative_config"]["num_speculative_tokens"]
        return k

    def reseed(self, seed: int, script_seed: int, k: int = 4) -> None:
        """Other weights in target and script, and drafts of k tokens (V2 takes K only)."""
        Script.follow(tiny.llama(seed), script_seed, k)
        state = Script.model.state_dict()

        def load(worker: Any) -> None:
            worker.model_runner.reload_weights(weights_iterator=iter(state.items()))

        self.engine.collective_rpc(load)
        self.engine.reset_prefix_cache()

    def chunk(self, rows: int) -> None:
        """Verify at most so many rows in one call (V2)."""
        importlib.import_module(V2_SAMPLER).get_max_chunk_logits = lambda vocabulary: rows

    def refusal(self, extra_args: dict[str, Any]) -> str | None:
        """Why a request with these is not admitted."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMValidationError

        try:
            params = SamplingParams(extra_args=extra_args, max_tokens=2)
            self.engine.add_request("asked", {"prompt_token_ids": [0, 5]}, params)
        except VLLMValidationError as error:
            return str(error)
        while self.engine.has_unfinished_requests():
            self.engine.step()
        return None

    def probe(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Generate from all at once; each has a `prompt` and any of `SamplingParams`."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        found: dict[str, dict[str, Any]] = {}
        engine_ids = {}
        for number, given in enumerate(requests):
            sampling = dict(given)
            prompt = {"prompt_token_ids": sampling.pop("prompt")}
            if "structured_outputs" in sampling:
                grammar = StructuredOutputsParams(**sampling["structured_outputs"])
                sampling["structured_outputs"] = grammar
            params = SamplingParams(
                output_kind=RequestOutputKind.DELTA, skip_special_tokens=False, **sampling
            )
            engine_ids[str(number)] = self.engine.add_request(str(number), prompt, params)
            found[str(number)] = {"tokens": [], "text": "", "steps": [], "logprobs": []}
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                delta, entry = output.outputs[0], found[output.request_id]
                if delta.token_ids or not entry["steps"]:
                    entry["steps"].append(len(delta.token_ids))
                entry["tokens"] += delta.token_ids
                entry["text"] += delta.text
                entry["logprobs"] += [
                    {token: value.logprob for token, value in position.items()}
                    for position in delta.logprobs or []
                ]
                if output.finished:
                    entry["finish_reason"] = delta.finish_reason
        seen = self._rpc("mars_drain")
        for number, entry in found.items():
            steps = seen[engine_ids[number]]
            entry["drafted"], entry["accepted"], entry["relaxed_at"], entry["stops"] = align(
                entry["steps"], steps
            )
        return list(found.values())

    def logprobs(self, mode: str) -> tuple[list[int], list[float], list[float]]:
        """One greedy step of V1's whole rejection sampler, a relaxed draft in it.

        Returns its tokens, the logprobs it reports for them, and those of the untouched logits.
        """
        from vllm.v1.sample.sampler import Sampler
        from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

        module: Any = importlib.import_module(V1_SAMPLER)
        rows = torch.randn(4, 11, generator=torch.Generator().manual_seed(3)) + 8
        best = rows.argmax(-1).tolist()
        relaxed = (best[0] + 1) % 11
        rows[0, relaxed] = rows[0, best[0]] - 0.01
        metadata = SpecDecodeMetadata.make_dummy(
            [[relaxed, best[1], int(rows[2].argmin())]], torch.device("cpu")
        )
        metadata.target_logits_indices = torch.tensor([0, 1, 2])
        metadata.bonus_logits_indices = torch.tensor([3])
        (seam,) = self.engine.collective_rpc(lambda worker: worker.mars_seam)
        seam.begin({0: Policy(RuleSpec.of("mars", theta=0.9), ())})
        sampling = dataclasses.replace(sampling_metadata(1, 0.0), max_num_logprobs=11)
        output = module.RejectionSampler(Sampler(logprobs_mode=mode))(
            metadata, None, rows.clone(), sampling
        )
        seam.begin({})
        kept = [token for token in output.sampled_token_ids[0].tolist() if token >= 0]
        assert kept == [relaxed, best[1], best[2]]
        reference = rows if mode.endswith("logits") else rows.log_softmax(-1, torch.float32)
        found = output.logprobs_tensors.logprobs[: len(kept), 0].tolist()
        return kept, found, [reference[row, token].item() for row, token in enumerate(kept)]

    def verify(self, case: dict[str, Any]) -> list[list[int]]:
        """One call of the runner's own sampler, through the seam: the tokens of each request.

        `logits`: for each request its rows, the bonus last; `drafts`: one fewer; `rules`: each
        request's RuleSpec; `temperature`, `dtype`, `seeds`, `draft_vocabulary`.
        """
        policies = dict(enumerate(Policy(rule, ()) for rule in case["rules"]))
        (seam,) = self.engine.collective_rpc(lambda worker: worker.mars_seam)
        seam.begin(policies)
        try:
            return (self._verify_v2 if self.v2 else self._verify_v1)(case)
        finally:
            seam.begin({})

    def _verify_v1(self, case: dict[str, Any]) -> list[list[int]]:
        module: Any = importlib.import_module(V1_SAMPLER)
        counts = [len(draft) for draft in case["drafts"]]
        logits = torch.tensor([row for rows in case["logits"] for row in rows[:-1]])
        torch.manual_seed(case.get("seed", 0))
        bonus = torch.tensor([rows[-1] for rows in case["logits"]]).argmax(-1, keepdim=True)
        metadata = sampling_metadata(len(counts), case["temperature"])
        ends = torch.tensor(counts).cumsum(0).int()
        draft_probs = None
        if "draft_probs" in case:
            draft_probs = torch.tensor([row for rows in case["draft_probs"] for row in rows])
        output = module.rejection_sample(
            torch.tensor([token for draft in case["drafts"] for token in draft]).int(),
            counts,
            max(counts),
            ends,
            draft_probs,
            module.apply_sampling_constraints(logits, ends, metadata),
            bonus.int(),
            metadata,
        )
        return [[token for token in row if token >= 0] for row in output.tolist()]

    def _verify_v2(self, case: dict[str, Any]) -> list[list[int]]:
        module: Any = importlib.import_module(V2_SAMPLER)
        counts = [len(rows) for rows in case["logits"]]
        steps = max(counts) - 1
        logits = torch.tensor([row for rows in case["logits"] for row in rows])
        logits = logits.to(getattr(torch, case.get("dtype", "float32")))
        if case["temperature"]:  # V2 hands the sampler logits that are scaled already
            logits = logits / case["temperature"]
        draft_logits = None
        if "draft_vocabulary" in case:
            draft_logits = torch.zeros(len(counts), steps, case["draft_vocabulary"])
        slots = torch.arange(len(counts))
        sampled, emitted = module.rejection_sample(
            logits,
            draft_logits,
            torch.tensor([token for draft in case["drafts"] for token in [0, *draft]]).int(),
            torch.tensor([0, *counts]).cumsum(0).int(),
            torch.tensor([place for count in counts for place in range(count)]),
            slots.int(),
            slots.repeat_interleave(torch.tensor(counts)).int(),
            torch.tensor([place for count in counts for place in range(count)]).int(),
            torch.full((len(counts),), float(case["temperature"])),
            torch.arange(len(counts)) + case.get("seed", 0) * 100_003,
            steps,
        )
        return [row[:n] for row, n in zip(sampled.tolist(), emitted.tolist(), strict=True)]
