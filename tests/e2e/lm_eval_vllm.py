"""lm-eval's own `vllm` model on tasks given as JSON: prints texts and scores. Run as a script."""

from __future__ import annotations

import json
import os
import sys

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


def main(checkpoint: str, tasks_folder: str, names: str, limit: str) -> None:
    import lm_eval
    from lm_eval.models.vllm_causallms import VLLM
    from lm_eval.tasks import TaskManager

    model = VLLM(
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
            results = lm_eval.evaluator.evaluate(
                model,
                manager.load([name]),
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
