"""The scientific core for other languages: JSON requests on stdin, JSON answers on stdout, one a line.

    python -m perpetual.science.stdio_server
    {"fn": "confidence" | "judge" | "judge_many" | "propose" | "gate" | "best", "args": [...]}
    ->  {"result": ...} | {"error": "..."}

Run as a program, never imported. A bad line is answered with an error and the next one is read.
"""

from __future__ import annotations

import json
import sys

from perpetual import science

FUNCTIONS = ("confidence", "judge", "judge_many", "propose", "gate", "best")  # each is imported at its first use


def answer(line: bytes) -> str:
    """Returns the answer to one request line, as one line of ASCII JSON without NaN or infinities."""
    try:
        request = json.loads(line.decode("utf-8"))
        name = request["fn"]
        if name not in FUNCTIONS:
            raise ValueError(f"fn must be one of {', '.join(FUNCTIONS)}, not {name!r}")
        return json.dumps({"result": getattr(science, name)(*request["args"])}, allow_nan=False)
    except ValueError as exc:
        return json.dumps({"error": f"{type(exc).__name__}: {exc}"})
    except (ArithmeticError, AttributeError, LookupError, TypeError, RecursionError) as exc:
        wanted = 'a request is {"fn": NAME, "args": [...]}, with the arguments of perpetual.science.NAME'
        return json.dumps({"error": f"{wanted}; this one fails with {type(exc).__name__}: {exc}"})


def main() -> None:
    """Answers every line of stdin until it closes, each answer at once."""
    for line in sys.stdin.buffer:
        sys.stdout.write(answer(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
