"""What the target is asked for training data: generated instructions, none of them evaluated.

    code     functions to complete as in mars_humaneval's wording: specifications put together from
             parts, with examples computed by running them, and functions of Python's own library
    math     GSM-Symbolic and other puzzles of reasoning-gym, with seeds that no task uses
    general  explain, list, write, rewrite ... about everyday subjects

`check` refuses a prompt that says what an evaluated document says.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

SHARES = {"code": 0.5, "math": 0.32, "general": 0.18}
SEEDS = range(70_001, 70_100)  # of reasoning-gym; the tasks' own is 42

_COMPLETE = (
    "Complete the following Python function. Reply with the whole function in one Python code "
    "block.\n\n```python\n{}\n```"
)
_STEPS = '\n\nThink step by step, and end with a line of the form "#### <number>".'
_RUN = 13  # words in a row that a prompt of code may not share with an evaluated one


def prompts(count: int, seed: int) -> list[str]:
    """`count` different prompts in random order, the same ones for the same seed."""
    rng = random.Random(seed)
    makers = {"code": _code(rng), "math": _math(rng), "general": _general(rng)}
    found: list[str] = []
    for kind, share in SHARES.items():
        distinct = dict.fromkeys(itertools.islice(makers[kind], round(3 * count * share)))
        found += itertools.islice(distinct, round(count * share))
    rng.shuffle(found)
    return found


def check(asked: list[str], evaluated: list[str], seeds: set[int]) -> None:
    """Refuse prompts that repeat an evaluated document's, and seeds that tasks generate from.

    Raises:
        SystemExit: one is equal to an evaluated prompt but for spaces and case, or has 13 words
            in a row in common with the code of one; or a seed is among SEEDS.
    """
    if not seeds.isdisjoint(SEEDS):
        raise SystemExit(f"a task generates its documents from one of the seeds {SEEDS}")
    known = {_plain(text) for text in evaluated}
    runs = {run for text in evaluated for run in _runs(text)}
    for text in asked:
        if _plain(text) in known or not runs.isdisjoint(_runs(text)):
            raise SystemExit(f"a training prompt is an evaluated one: {text!r}")


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z]+", text.partition("```python")[2].lower())
    return {tuple(words[n : n + _RUN]) for n in range(len(words) - _RUN + 1)}


# Code ---------------------------------------------------------------------------------------------


def _code(rng: random.Random) -> Iterator[str]:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        library = _library()
    rng.shuffle(library)
    composed = itertools.cycle([_numbers, _text, _words, _digits])
    for stub in itertools.chain(library, itertools.repeat(None)):
        for text in (stub, next(composed)(rng), next(composed)(rng)):
            if text is not None:
                yield _COMPLETE.format(text) if rng.random() < 0.85 else _plainly(text)


def _plainly(stub: str) -> str:
    """The same asked for without a code block, as in MBPP."""
    return f"Write a Python function for this specification:\n{stub}\nAnswer with code."


Part = tuple[str, str, Callable[..., Any]]  # in a name, in a sentence, in code

_KEEP: list[Part] = [
    ("even", "even numbers", lambda x: x % 2 == 0),
    ("odd", "odd numbers", lambda x: x % 2 == 1),
    ("positive", "positive numbers", lambda x: x > 0),
    ("negative", "negative numbers", lambda x: x < 0),
    ("two_digit", "numbers with exactly two digits", lambda x: 10 <= abs(x) <= 99),
    ("square", "perfect squares", lambda x: x >= 0 and math.isqrt(x) ** 2 == x),
    ("non_zero", "elements that are not zero", lambda x: x != 0),
    *((f"multiple_of_{n}", f"multiples of {n}", lambda x, n=n: x % n == 0) for n in (3, 4, 5, 7)),
    *((f"above_{n}", f"numbers greater than {n}", lambda x, n=n: x > n) for n in (3, 10, 20)),
    *((f"below_{n}", f"numbers smaller than {n}", lambda x, n=n: x < n) for n in (5, 12)),
]
_CHANGE: list[Part] = [
    ("", "", lambda x: x),
    ("squared", "after squaring each of them", lambda x: x * x),
    ("doubled", "after doubling each of them", lambda x: 2 * x),
    ("absolute", "taking the absolute value of each", abs),
    ("halved", "after dividing each by two, rounding down", lambda x: x // 2),
    ("incremented", "after adding one to each of them", lambda x: x + 1),
]
_REDUCE: list[Part] = [
    ("sum", "Return the sum of the {}", sum),
    ("count", "Count the {}", len),
    ("list", "Return a list of the {}", list),
    ("sorted", "Return the {} in ascending order", sorted),
    ("largest", "Find the largest of the {}; None if there are none",
     lambda v: max(v, default=None)),
    ("smallest", "Find the smallest of the {}; None if there are none",
     lambda v: min(v, default=None)),
    ("product", "Multiply all the {} together", math.prod),
    ("reversed", "Return the {} in reverse order", lambda v: v[::-1]),
    ("distinct", "Return the {} without duplicates, keeping their order",
     lambda v: list(dict.fromkeys(v))),
    ("any", "Check if there are any {}", bool),
    ("running", "Return the running totals of the {}", lambda v: list(itertools.accumulate(v))),
]  # fmt: skip
_RETURNS = {"sum": "int", "count": "int", "largest": "Optional[int]", "smallest": "Optional[int]",
            "product": "int", "any": "bool"}  # fmt: skip


def _numbers(rng: random.Random) -> str:
    (keep, kept, test), (change, changed, f), (reduce, sentence, g) = (
        rng.choice(part) for part in (_KEEP, _CHANGE, _REDUCE)
    )
    name = "_".join(filter(None, (reduce, keep, change)))
    given = rng.choice(["numbers", "values", "nums", "lst", "arr", "items"])
    where = rng.choice([f"in the list {given}", "in a given list of integers", f"of {given}"])
    said = f"{sentence.format(kept)} {where}{', ' + changed if changed else ''}."

    def answer(values: list[int]) -> Any:
        return g([f(x) for x in values if test(x)])

    cases = [[rng.randint(-9, 30) for _ in range(rng.randint(2, 7))] for _ in range(3)]
    kind = _RETURNS.get(reduce, "List[int]")
    head = f"def {name}({given}: List[int]) -> {kind}:"
    if rng.random() < 0.4:
        head = f"def {name}({given}):"
    stub = _stub(rng, name, head, said, [((case,), answer(case)) for case in cases])
    needs = [kind for kind in ("List", "Optional") if kind in head]
    return (f"from typing import {', '.join(needs)}\n\n\n" if needs else "") + stub


_LETTERS: list[Part] = [
    ("vowels", "vowels", lambda c: c.lower() in "aeiou"),
    ("consonants", "consonants", lambda c: c.isalpha() and c.lower() not in "aeiou"),
    ("digits", "digits", str.isdigit),
    ("uppercase", "uppercase letters", str.isupper),
    ("lowercase", "lowercase letters", str.islower),
    ("letters", "letters", str.isalpha),
    ("spaces", "spaces", str.isspace),
]
_WITH: list[Part] = [
    ("count", "Count the {} in the string {}", lambda v, s: len(v)),
    ("remove", "Remove all {} from the string {}",
     lambda v, s: "".join(c for c in s if c not in v)),
    ("keep", "Keep only the {} of the string {}", lambda v, s: "".join(v)),
    ("first", "Return the index of the first of the {} in {}, or -1 if there is none",
     lambda v, s: s.index(v[0]) if v else -1),
    ("double", "Repeat each of the {} in {} twice",
     lambda v, s: "".join(c * 2 if c in v else c for c in s)),
    ("reverse", "Return the {} of the string {} in reverse order", lambda v, s: "".join(v[::-1])),
    ("has", "Check whether there are any {} in {}", lambda v, s: bool(v)),
    ("most_common", "Find the most common of the {} in {}; an empty string if there is none",
     lambda v, s: max(v, key=v.count, default="")),
]  # fmt: skip
_TEXTS = ["Hello World", "Python 3", "banana", "a1b2c3", "The quick brown fox", "AbCdEf", "12 eggs",
          "Mississippi", "x y z", "Open AI 2024", "racecar", "tomato SOUP", "Level 42", "", "zebra",
          "Good morning", "no. 7", "KIWI", "apple pie", "Red Green Blue"]  # fmt: skip


def _text(rng: random.Random) -> str:
    (letters, kept, test), (what, sentence, g) = rng.choice(_LETTERS), rng.choice(_WITH)
    given = rng.choice(["text", "s", "string", "sentence", "message"])
    name = rng.choice([f"{what}_{letters}", f"{what}_{letters}_in_{given}", f"{letters}_{what}"])
    kind = {"count": "int", "first": "int", "has": "bool"}.get(what, "str")
    cases = rng.sample(_TEXTS, 3)
    done = [((case,), g([c for c in case if test(c)], case)) for case in cases]
    head = rng.choice([f"def {name}({given}: str) -> {kind}:", f"def {name}({given}):"])
    return _stub(rng, name, head, sentence.format(kept, given) + ".", done)


_WHICH: list[Part] = [
    ("long", "words with more than {n} letters", lambda w, n: len(w) > n),
    ("short", "words with at most {n} letters", lambda w, n: len(w) <= n),
    ("exact", "words with exactly {n} letters", lambda w, n: len(w) == n),
    ("capital", "words that start with a capital letter", lambda w, n: w[:1].isupper()),
    ("vowel", "words that begin with a vowel", lambda w, n: w[:1].lower() in "aeiou"),
    ("s", "words that end with the letter s", lambda w, n: w.endswith("s")),
    ("double", "words in which a letter occurs twice", lambda w, n: len(set(w)) < len(w)),
    ("palindrome", "words that read the same backwards", lambda w, n: w == w[::-1]),
]
_DONE: list[Part] = [
    ("count", "Return how many {} there are in {}", len),
    ("join", "Join the {} in {} with hyphens", "-".join),
    ("longest", "Return the longest of the {} in {}; an empty string if there is none",
     lambda v: max(v, key=len, default="")),
    ("upper", "Return a list of the {} in {} in upper case", lambda v: [w.upper() for w in v]),
    ("sort", "Sort the {} in {} alphabetically", sorted),
    ("lengths", "Return a dictionary from the {} in {} to their lengths",
     lambda v: {w: len(w) for w in v}),
    ("reverse", "Return a list of the {} in {}, each one reversed", lambda v: [w[::-1] for w in v]),
    ("initials", "Return the first letters of the {} in {} as one string",
     lambda v: "".join(w[0] for w in v)),
]  # fmt: skip
_WORDS = ["apple", "Berlin", "cats", "noon", "Orange", "tree", "bus", "level", "River", "egg",
          "piano", "ideas", "Moon", "stats", "umbrella", "fox", "kayak", "window", "Queen", "ants",
          "book", "Summer", "radar", "ice", "letter"]  # fmt: skip


def _words(rng: random.Random) -> str:
    (which, kept, test), (what, sentence, g) = rng.choice(_WHICH), rng.choice(_DONE)
    given, n = rng.choice(["words", "strings", "names", "lst"]), rng.randint(3, 5)
    name = rng.choice([f"{what}_{which}_words", f"{which}_words_{what}"])
    cases = [rng.sample(_WORDS, rng.randint(2, 5)) for _ in range(3)]
    done = [((case,), g([w for w in case if test(w, n)])) for case in cases]
    head = rng.choice([f"def {name}({given}: list):", f"def {name}({given}):"])
    return _stub(rng, name, head, sentence.format(kept.format(n=n), given) + ".", done)


_OF_ONE: list[Part] = [
    ("sum_of_digits", "Return the sum of the digits of {}", lambda n: sum(map(int, str(n)))),
    ("product_of_digits", "Return the product of the digits of {}",
     lambda n: math.prod(map(int, str(n)))),
    ("reverse_number", "Return the number {} with its digits in reverse order",
     lambda n: int(str(n)[::-1])),
    ("count_divisors", "Count the divisors of {}",
     lambda n: sum(n % d == 0 for d in range(1, n + 1))),
    ("proper_divisors", "Return a list of all divisors of {} except {} itself",
     lambda n: [d for d in range(1, n) if n % d == 0]),
    ("next_even", "Return the smallest even number that is greater than {}",
     lambda n: n + 2 - n % 2),
    ("is_palindrome_number", "Check whether the decimal digits of {} read the same backwards",
     lambda n: str(n) == str(n)[::-1]),
    ("to_octal", "Convert the integer {} to a string of octal digits", lambda n: f"{n:o}"),
    ("to_hex", "Convert the integer {} to a string of hexadecimal digits", lambda n: f"{n:x}"),
    ("triangular", "Return the sum of all integers from 1 to {}", lambda n: n * (n + 1) // 2),
    ("sum_of_squares", "Return the sum of the squares of the integers from 1 to {}",
     lambda n: sum(i * i for i in range(1, n + 1))),
    ("collatz_steps", "Count the steps that the Collatz sequence takes from {} down to 1",
     lambda n: _collatz(n)),
    ("count_ones", "Count the ones in the binary representation of {}",
     lambda n: f"{n:b}".count("1")),
    ("squares_below", "Return all square numbers below {} in a list",
     lambda n: [i * i for i in range(math.isqrt(max(n - 1, 0)) + 1)]),
    ("is_leap", "Check whether {} is a leap year in the Gregorian calendar",
     lambda n: n % 4 == 0 and (n % 100 != 0 or n % 400 == 0)),
]  # fmt: skip


def _collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def _digits(rng: random.Random) -> str:
    name, sentence, g = rng.choice(_OF_ONE)
    given = rng.choice(["n", "number", "x", "num", "value"])
    high = rng.choice([20, 60, 99])
    cases = [rng.randint(1, high) for _ in range(3)]
    head = rng.choice([f"def {name}({given}: int):", f"def {name}({given}):"])
    said = sentence.replace("{}", given) + "."
    return _stub(rng, name, head, said, [((case,), g(case)) for case in cases])


def _stub(
    rng: random.Random, name: str, head: str, said: str, cases: list[tuple[tuple[Any, ...], Any]]
) -> str:
    """The function's head with a docstring, its examples written in one of the usual ways."""
    shown = cases[: rng.randint(1, 3)]
    style = rng.randrange(4)
    if style == 0:
        lines = [f">>> {name}({args[0]!r})\n    {result!r}" for args, result in shown]
    elif style == 1:
        lines = [f"{name}({args[0]!r}) should return {result!r}" for args, result in shown]
    elif style == 2:
        lines = ["", "Examples:", *(f"{name}({args[0]!r}) => {r!r}" for args, r in shown)]
    else:
        lines = []
    body = "\n    ".join([said, *lines]).replace("\n    \n", "\n\n")
    return f'{head}\n    """{body}\n    """'


def _library() -> list[str]:
    """Functions of Python 3.11's standard library, with docstrings and without bodies."""
    names = (
        "ast base64 bisect calendar cmath codecs collections colorsys contextlib copy csv "
        "dataclasses datetime decimal difflib dis email.utils enum fileinput filecmp fnmatch "
        "fractions functools getopt getpass gettext glob graphlib gzip heapq html html.parser "
        "imghdr inspect io ipaddress json keyword linecache locale logging mimetypes numbers "
        "operator os pathlib pickle pkgutil platform plistlib posixpath pprint quopri random re "
        "reprlib sched secrets shlex shutil socket sndhdr statistics string stringprep struct "
        "subprocess sysconfig tarfile tempfile textwrap threading timeit token tokenize traceback "
        "types typing unittest.mock urllib.parse urllib.request uuid warnings wave weakref "
        "webbrowser xml.etree.ElementTree zipfile "
    )
    found = {}
    for name in names.split():
        module = importlib.import_module(name)
        places = [module, *(c for _, c in inspect.getmembers(module, inspect.isclass))]
        for place in places:
            for _, member in sorted(inspect.getmembers(place, inspect.isfunction)):
                stub = _of_library(member)
                if stub is not None:
                    found[member.__name__] = stub
    return list(found.values())


def _of_library(function: Any) -> str | None:
    doc = inspect.getdoc(function) or ""
    if function.__name__.startswith("_") or not 60 <= len(doc) <= 500:
        return None
    try:
        given = str(inspect.signature(function))
    except (ValueError, TypeError):
        return None
    if "<" in given or " at 0x" in given or len(given) > 100:
        return None
    indented = doc.replace('"""', "'''").replace("\n", "\n    ")
    return f'def {function.__name__}{given}:\n    """{indented}\n    """'


# Mathematics --------------------------------------------------------------------------------------

_PUZZLES = [
    "chain_sum", "basic_arithmetic", "calendar_arithmetic", "time_intervals", "leg_counting", "gcd",
    "lcm", "prime_factorization", "simple_equations", "fraction_simplification", "letter_counting",
    "number_sorting", "word_sorting", "base_conversion", "decimal_arithmetic", "number_sequence",
]  # fmt: skip


def _math(rng: random.Random) -> Iterator[str]:
    from tasks.reasoning import generator

    package = generator()
    words = itertools.chain.from_iterable(
        package.create_dataset("gsm_symbolic", seed=seed, size=100) for seed in SEEDS
    )
    puzzles = [package.create_dataset(name, seed=SEEDS[0], size=400) for name in _PUZZLES]
    products = package.create_dataset(
        "products", seed=SEEDS[0], size=400, min_terms=2, max_terms=2, min_digits=2, max_digits=2
    )
    for n, item in enumerate(words):
        yield item["question"] + _STEPS
        if n % 3 == 0:
            question = str(rng.choice(puzzles)[n % 400]["question"])
            yield question + (_STEPS if rng.random() < 0.5 else "")
        if n % 10 == 0:
            yield str(products[n % 400]["question"])


# Everything else ----------------------------------------------------------------------------------

_SUBJECTS = [
    "bicycles", "the water cycle", "black holes", "bread baking", "chess", "climate",
    "coral reefs", "cotton", "credit cards", "democracy", "dinosaurs", "dreams", "earthquakes",
    "electric cars", "elephants", "fractions", "friendship", "gardening", "glaciers", "gravity",
    "honey bees", "hurricanes", "inflation", "jazz", "job interviews", "kindness", "libraries",
    "lighthouses", "magnets", "marathons", "memory", "migration of birds", "money", "mountains",
    "music lessons", "noise", "oceans", "paper", "photosynthesis", "planets", "public transport",
    "rainbows", "rice", "robots", "salt", "school uniforms", "sleep", "solar panels", "spiders",
    "stress", "tea", "time", "train travel", "trees", "vaccines", "volcanoes", "weather", "whales",
    "wind", "yoga", "Python lists", "for loops", "hash tables", "binary search", "recursion",
    "databases", "HTTP", "version control", "unit tests", "machine learning", "prime numbers",
    "statistics",
]  # fmt: skip
_REQUESTS = [
    "Explain {} to a ten-year-old.", "What are the main facts about {}?",
    "Write a short story about {}.", "List five interesting things about {}.",
    "Write a poem of eight lines about {}.", "What are the advantages and disadvantages of {}?",
    "Write an email to a friend about {}.", "Give me three tips about {}.", "Why is {} important?",
    "How does one learn about {}?", "Summarise what is known about {} in three sentences.",
    "Write a dialogue about {}.", "Write a product description that mentions {}.",
    "What questions do people ask about {}?", "Compare {} with {}.",
    "Write a blog post about {} and {}.", "How are {} and {} related?",
    "Write a speech that begins with {}.", "Plan a lesson about {}.",
    "Describe the history of {}.", "Write a Python program about {}.", "Invent a riddle about {}.",
    "What would happen without {}?",
]  # fmt: skip


def _general(rng: random.Random) -> Iterator[str]:
    while True:
        yield rng.choice(_REQUESTS).format(*rng.sample(_SUBJECTS, 2))
