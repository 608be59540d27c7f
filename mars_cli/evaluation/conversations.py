"""Conversations of one's own: `--prompts FILE.jsonl`, and tasks whose documents are questions.

A line is one of

    {"turns": ["Write a poem.", "Now shorter."], "question_id": 81, "category": "writing"}
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
    {"prompt": "Once upon a time"}

each with `category` and `max_tokens` if wanted. Of `turns`, each one after the first is asked
behind the lane's own earlier answers. `messages` are one prompt, as they stand; an answer at their
end is left out. A reference is left out too: nothing is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.data import Row, read_rows
from mars_cli.evaluation.lm import MarsLM, Prompt

EXPECTED = 'each line is a JSON object with "turns", "messages" or "prompt"'
DEFAULT_MAX_TOKENS = 512
ROLES = ("system", "user", "assistant", "tool")

Message = dict[str, str]


@dataclass(frozen=True)
class Conversation:
    """The messages up to the first answer, and what is asked after it."""

    messages: tuple[Message, ...]
    follow_ups: tuple[str, ...] = ()
    category: str | None = None
    max_tokens: int | None = None


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a file of JSON lines, in their order.

    Raises:
        UsageError: which line and field is wrong, and what was expected there.
    """
    found = [_conversation(row) for row in read_rows(path, EXPECTED)]
    if not found:
        raise Row({}, str(path), EXPECTED).wrong("prompt", "is missing: the file holds no line")
    return found


def of_document(document: Mapping[str, Any]) -> Conversation:
    """The conversation of a task's document: its `turns`, and its `category` if it has one."""
    first, *others = document["turns"]
    return Conversation((_user(first),), tuple(others), document.get("category") or None)


def first_prompt(
    lm: MarsLM, task: str, doc_id: int, conversation: Conversation, settings: Mapping[str, Any]
) -> Prompt:
    """The prompt up to the first answer; `settings` are lm-eval's generation settings."""
    given = {"max_gen_toks": DEFAULT_MAX_TOKENS, **settings}
    if conversation.max_tokens is not None:
        given["max_gen_toks"] = conversation.max_tokens
    return lm.prompt(task, doc_id, lm.render(conversation.messages), given)


def with_follow_ups(
    lm: MarsLM,
    conversations: Mapping[int, Conversation],
    prompts: Iterable[Prompt],
    answer: Callable[[Prompt], str | None],
) -> list[Prompt]:
    """Each first prompt, then those of the turns whose earlier answers are known.

    `answer` gives a prompt's answer, None where there is none yet.
    """
    found = []
    for first in prompts:
        conversation = conversations[first.doc_id]
        messages, prompt = list(conversation.messages), first
        found.append(prompt)
        for turn, question in enumerate(conversation.follow_ups, start=1):
            text = answer(prompt)
            if text is None:
                break
            messages += [{"role": "assistant", "content": lm.cut(text, prompt)}, _user(question)]
            prompt = lm.next_turn(first, turn, lm.render(messages))
            found.append(prompt)
    return found


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _conversation(row: Row) -> Conversation:
    category = row.values.get("category")
    if category is not None and not isinstance(category, str):
        raise row.wrong("category", "is not a string")
    limit = row.values.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise row.wrong("max_tokens", "is not a whole number above 0")
    follow_ups: Sequence[str] = ()
    if row.has("turns"):
        first, *follow_ups = row.texts("turns")
        messages = [_user(first)]
    elif row.has("messages"):
        messages = _messages(row)
    else:
        messages = [_user(row.text("prompt", "turns", "messages"))]
    return Conversation(tuple(messages), tuple(follow_ups), category or None, limit)


def _messages(row: Row) -> list[Message]:
    given = row.values["messages"]
    if not isinstance(given, list) or not given:
        raise row.wrong("messages", "is not a list of messages")
    messages = []
    for number, one in enumerate(given):
        place = f"messages[{number}]"
        if not isinstance(one, dict) or one.get("role") not in ROLES:
            raise row.wrong(place, f"has no role of {', '.join(ROLES)}")
        content = one.get("content")
        if isinstance(content, list) and all(
            isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
        ):
            content = "".join(part["text"] for part in content)
        if not isinstance(content, str):
            raise row.wrong(place, "has no text as its content")
        messages.append({"role": one["role"], "content": content})
    if messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages or messages[-1]["role"] == "assistant":
        raise row.wrong("messages", "ends without a question")
    return messages
