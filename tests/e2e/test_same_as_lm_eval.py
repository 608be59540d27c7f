"""Our `ar` lane answers and scores like lm-eval's own `vllm` model, document by document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mars_cli.resources import tasks_dir

pytestmark = pytest.mark.engine
LIMIT = 4
SCRIPT = Path(__file__).with_name("lm_eval_vllm.py")
# lm-eval's own gsm8k (five shots, its stop strings, both its filters), on documents made here.
GSM8K = """
include: {original}
task: gsm8k_here
dataset_path: json
dataset_name: null
dataset_kwargs: {{data_files: {{train: {file}, test: {file}}}}}
tag: null
"""


@pytest.fixture(scope="module")
def weights() -> str:
    from mars_cli.assets import resolve_weights
    from mars_cli.config import load_model

    config = load_model("smollm2-135m")
    return resolve_weights(config.weights, sha256=config.sha256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task folder with lm-eval's gsm8k on local documents, beside a copy of mars_products."""
    import lm_eval.tasks

    folder = tmp_path_factory.mktemp("tasks")
    documents = [
        {
            "question": f"Ann has {n} apples and buys {n + 2} more. How many apples has she?",
            "answer": f"She has {n} + {n + 2} = {2 * n + 2} apples.\n#### {2 * n + 2}",
        }
        for n in range(3, 12)
    ]
    file = folder / "documents.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    original = Path(lm_eval.tasks.__file__).parent / "gsm8k" / "gsm8k.yaml"
    (folder / "gsm8k_here.yaml").write_text(GSM8K.format(original=original, file=file))
    for path in tasks_dir().glob("*"):
        if path.name in ("_common.yaml", "mars_products.yaml", "reasoning.py", "grading.py"):
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def theirs(weights: str, folder: Path) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), weights, str(folder), "mars_products,gsm8k_here", str(LIMIT)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("RESULT "))
    return json.loads(line.removeprefix("RESULT "))


def test_texts_and_scores_agree_with_and_without_chat_template(
    mars: Any, weights: str, folder: Path, tmp_path: Path
) -> None:
    expected = theirs(weights, folder)
    for chat in (True, False):
        config = tmp_path / f"{chat}.yaml"
        config.write_text(
            f"name: smol\nweights: {weights}\ndtype: float32\nmax_model_len: 1024\n"
            f"chat_template: {str(chat).lower()}\nengine: {{enforce_eager: true}}\n"
        )
        out = tmp_path / f"run-{chat}"
        options = f"--limit {LIMIT} --max-num-seqs 4 --speed-prompts 0 --theta 1 --no-fidelity"
        run = mars(
            *("eval", "--model", str(config), "--tasks", "mars_products,gsm8k_here"),
            *("--include-path", str(folder), *options.split(), "--out", str(out)),
        )
        assert run.returncode == 0, run.stderr
        for task in ("mars_products", "gsm8k_here"):
            lines = (out / f"records/quality/{task}/ar.jsonl").read_text().splitlines()
            ours = {record["doc_id"]: record for record in map(json.loads, lines)}
            assert len(ours) == LIMIT
            for doc_id, name, text, score in expected[f"{task} {chat}"]:
                record = ours[doc_id]
                cut = record["text"].split("<|im_end|>")[0]
                for stop in ("Question:", "</s>") if task == "gsm8k_here" else ():
                    cut = cut.split(stop)[0]
                assert cut == text
                assert record["scores"][f"exact_match,{name}"] == score
