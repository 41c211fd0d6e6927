"""The scientific core for other languages: JSON requests on stdin, JSON answers on stdout, one a line.

    python -m perpetual.science.stdio_server
    {"fn": "confidence" | "judge" | "judge_many" | "propose" | "gate" | "best", "args": [...]}
    ->  {"result": ...} | {"error": "..."}

Run as a program, never imported. A bad line is answered with an error and the next one is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from perpetual.science import best, confidence, gate, judge, judge_many, propose

FUNCTIONS: dict[str, Callable[..., object]] = {
    "confidence": confidence,
    "judge": judge,
    "judge_many": judge_many,
    "propose": propose,
    "gate": gate,
    "best": best,
}


def answer(line: bytes) -> str:
    """Returns the answer to one request line, as one line of ASCII JSON without NaN or infinities."""
    try:
        request = json.loads(line.decode("utf-8"))
        function = FUNCTIONS.get(request["fn"])
        if function is None:
            raise ValueError(f"fn must be one of {', '.join(FUNCTIONS)}, not {request['fn']!r}")
        return json.dumps({"result": function(*request["args"])}, allow_nan=False)
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
