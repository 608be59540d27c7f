"""The seam: vLLM's `rejection_sample`, called with a rule's acceptances made decisive.

Raising a draft's logit far above its row makes the engine's own sampler accept it, greedy or
sampled, so no kernel of ours is needed. The exact bits are put back before the call returns, so
that log-probabilities read later are untouched.

Each request of a batch may have a rule of its own. Beside the rules the seam notes what each step
verified. It only keeps references while the engine runs; `Seam.drain` turns them into plain
numbers when nobody is waiting. How the two model runners of vLLM meet it: runners.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mars_cli.verification.rows import summaries
from mars_cli.verification.spec import STRICT, RuleSpec, request_spec

_RAISE = 1000.0  # exp(-1000) is 0 in float32: the draft's probability becomes exactly 1


class StepSeen(NamedTuple):
    """What one step verified for one request; positions are in the draft, from 0."""

    drafted: int
    accepted: int
    relaxed: list[int]
    """Positions accepted by the rule alone."""
    stop: bool
    """Whether it met an end-of-turn token that strict rejects and the rule accepts."""
    looked: Sequence[tuple[int, list[float]]] = ()
    """While tracing, of each position that was reached: the draft and `rows.FIELDS`."""


class Policy(NamedTuple):
    """What decides for one request: its rule, and the tokens that end its turn."""

    spec: RuleSpec
    stop_ids: tuple[int, ...]


@dataclass
class _Verified:
    """One call of the sampler: which rows the rule accepts, and at which of them a turn ends."""

    accepts: Tensor
    stops: Tensor | None


@dataclass(slots=True)
class Step:
    """One step of a model runner, not yet read back from its device.

    `bounds` [n + 1]: each request's rows in what was verified; the last `bonus` rows of a request
    verify no draft. `emitted` [n]: tokens the sampler emitted, 0 where the step is no output of
    the request (a prompt still being prefilled). `looked` [n, 1 + FIELDS] each: while tracing,
    each row's draft and `rows.FIELDS`.
    """

    request_ids: list[str]
    emitted: Callable[[], np.ndarray[Any, Any]]
    bounds: Any = None
    bonus: int = 0
    verified: list[_Verified] = field(default_factory=list)
    looked: list[Tensor] = field(default_factory=list)


class Seam:
    """The rules in force in this process and what they have seen since the last drain.

    `record` False keeps nothing: for a server that nobody drains. While `tracing`, every verified
    row is looked at as a whole, which costs far more than a rule does: never while timing.
    """

    def __init__(self, default: RuleSpec = STRICT, *, record: bool = True) -> None:
        self.default = default
        self.seconds = 0.0
        self.calls = 0
        self.tracing = False
        self._record = record
        self._steps: list[Step] = []
        self._policies: dict[int, Policy] = {}
        self._verified: list[_Verified] = []
        self._looked: list[Tensor] = []

    def policy(self, params: Any) -> Policy:
        """What holds for a request with these `SamplingParams` (None: the engine's own)."""
        if params is None:
            return Policy(self.default, ())
        eos = params.eos_token_id
        stop_ids = (*(() if eos is None else (eos,)), *(params.stop_token_ids or ()))
        asked = params.extra_args and tuple(
            sorted((k, v) for k, v in params.extra_args.items() if k.startswith("mars_"))
        )
        return Policy(_requested(asked, self.default) if asked else self.default, stop_ids)

    def begin(self, policies: dict[int, Policy]) -> None:
        """A step begins; its requests have these policies, each under a number of its own."""
        self._policies = policies
        self._verified, self._looked = [], []

    def end(self, step: Step) -> None:
        """The step is done; what was verified since `begin` belongs to it."""
        step.verified, step.looked = self._verified, self._looked
        self.begin({})
        if self._record:
            self._steps.append(step)

    def verify(
        self,
        logits: Tensor,
        draft_ids: Tensor,
        sampler: Callable[[], Any],
        requests: Callable[[], Tensor],
    ) -> Any:
        """Call the engine's sampler with what the rules accept made decisive.

        Args:
            logits: [n, vocab] as the sampler will read them.
            draft_ids: [n]; -1 where a row verifies nothing.
            sampler: the call itself.
            requests: gives each row's request [n], by the number it has in `begin`. Only asked
                for when the requests of a batch differ in their policies.
        """
        started = time.perf_counter()
        if self.tracing:
            columns = (draft_ids.double().unsqueeze(-1), summaries(logits, draft_ids))
            self._looked.append(torch.cat(columns, dim=-1))
        found = self._accepts(logits, draft_ids, requests)
        inside = 0.0
        with _decisive(logits, draft_ids, None if found is None else found.accepts):
            before = time.perf_counter()
            output = sampler()
            inside = time.perf_counter() - before
        if found is not None:
            self._verified.append(found)
        self.seconds += time.perf_counter() - started - inside
        self.calls += 1
        return output

    def drain(self) -> dict[str, list[StepSeen]]:
        """What was seen since the last drain, per engine request id, oldest step first."""
        steps, self._steps = self._steps, []
        seen: dict[str, list[StepSeen]] = {}
        for step in steps:
            for request_id, found in _read(step):
                seen.setdefault(request_id, []).append(found)
        return seen

    def _accepts(
        self, logits: Tensor, draft_ids: Tensor, requests: Callable[[], Tensor]
    ) -> _Verified | None:
        distinct = list(dict.fromkeys(self._policies.values())) or [Policy(self.default, ())]
        if all(policy.spec.is_strict for policy in distinct):
            return None
        if len(distinct) == 1:
            return _apply(distinct[0], logits, draft_ids)
        table = np.zeros(max(self._policies) + 1, dtype=np.int64)
        for number, policy in self._policies.items():
            table[number] = distinct.index(policy)
        owner = torch.from_numpy(table).to(draft_ids.device, non_blocking=True)[requests()]
        accepts = torch.zeros_like(draft_ids, dtype=torch.bool)
        stops = torch.zeros_like(accepts)
        for index, policy in enumerate(distinct):
            if not policy.spec.is_strict:
                found, mine = _apply(policy, logits, draft_ids), owner == index
                accepts |= found.accepts & mine
                if found.stops is not None:
                    stops |= found.stops & mine
        return _Verified(accepts, stops)


def _apply(policy: Policy, logits: Tensor, draft_ids: Tensor) -> _Verified:
    accepts = _bound(policy.spec)(logits, draft_ids)
    if not policy.stop_ids:
        return _Verified(accepts, None)
    ends = (draft_ids.unsqueeze(-1) == _stop_tensor(policy.stop_ids, draft_ids.device)).any(-1)
    stops = accepts & ends
    return _Verified(accepts & ~ends if policy.spec.protect_stop else accepts, stops)


@lru_cache(maxsize=256)
def _requested(asked: tuple[tuple[str, Any], ...], default: RuleSpec) -> RuleSpec:
    return request_spec(dict(asked), default)


@lru_cache(maxsize=256)
def _bound(spec: RuleSpec) -> Callable[[Tensor, Tensor], Tensor]:
    return spec.rule()


@lru_cache(maxsize=64)
def _stop_tensor(stop_ids: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(stop_ids, device=device)


def _read(step: Step) -> Iterator[tuple[str, StepSeen]]:
    emitted = step.emitted()
    bounds = step.bounds.cpu().numpy() if isinstance(step.bounds, Tensor) else step.bounds
    accepts = _rows([verified.accepts for verified in step.verified])
    stops = _rows([v.stops for v in step.verified if v.stops is not None])
    looked = _rows(step.looked)
    for index, request_id in enumerate(step.request_ids):
        accepted = int(emitted[index]) - 1
        if accepted < 0:
            continue
        if bounds is None:
            yield request_id, StepSeen(0, accepted, [], False)
            continue
        first, last = int(bounds[index]), int(bounds[index + 1]) - step.bonus
        relaxed = [p for p in _set(accepts, first, last) if p < accepted]
        # Accepted, or (kept from it) the very place where verification ended.
        stop = any(p <= accepted for p in _set(stops, first, last))
        reached = min(first + accepted + 1, last)
        rows = () if looked is None else looked[first:reached].tolist()
        drafts = tuple((int(draft), values) for draft, *values in rows if draft >= 0)
        yield request_id, StepSeen(last - first, accepted, relaxed, stop, drafts)


def _rows(parts: Sequence[Tensor]) -> np.ndarray[Any, Any] | None:
    return np.concatenate([part.cpu().numpy() for part in parts]) if parts else None


def _set(mask: np.ndarray[Any, Any] | None, first: int, last: int) -> list[int]:
    if mask is None:
        return []
    found: list[int] = np.flatnonzero(mask[first:last]).tolist()
    return found


@contextmanager
def _decisive(logits: Tensor, draft_ids: Tensor, accepts: Tensor | None) -> Iterator[None]:
    """Hold the accepted drafts' logits far above their rows; restore the exact bits at the end."""
    # On a CPU looking is free and most steps relax nothing; on a GPU looking would be a sync.
    if accepts is None or (accepts.device.type == "cpu" and not accepts.any()):
        yield
        return
    column = draft_ids.clamp(min=0).long().unsqueeze(-1)
    original = logits.gather(-1, column)
    raised = logits.amax(dim=-1, keepdim=True) + _RAISE
    logits.scatter_(-1, column, raised.where(accepts.unsqueeze(-1), original))
    try:
        yield
    finally:
        logits.scatter_(-1, column, original)
