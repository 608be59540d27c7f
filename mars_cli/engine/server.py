"""Imported by the server that engines are forked from, and by nothing else: it imports vLLM.

Nothing here touches a GPU: what has does not survive a fork.
"""

from __future__ import annotations

import contextlib
import os

from mars_cli.engine.process import end_with_parent, set_environment, write_to

end_with_parent()
write_to(os.devnull)
set_environment({})
with contextlib.suppress(Exception):  # it fails again in the engine's own process, which has a log
    import vllm.engine.arg_utils
    import vllm.v1.engine.llm_engine  # noqa: F401
