"""Harnesses as thinkers: a question of the loop is one prompt, the answer is what the model said last.

The harness works in an empty folder of its own, with no server of the lab and no permission: a question holds all that
it is about. The caller books what a question may cost, and records what was answered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from perpetual.api import PerpetualError
from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import ACCEPTED, Dispatcher, DispatchError, Limits, Row, Task, Turn
from perpetual_harnesses.dispatch.environment import new_mark
from perpetual_harnesses.dispatch.marks import going
from perpetual_harnesses.dispatch.over_acp import AcpDispatcher
from perpetual_harnesses.dispatch.over_argv import ArgvDispatcher
from perpetual_harnesses.template import TemplateHarness
from perpetual_thinkers.base import MOST_REPLY_BYTES, Reply, Request, Thinker, ThinkerError

__all__ = ["NAMES", "HarnessThinker", "claude_code", "codex", "opencode"]

ASKS_NONE = "PERPETUAL_ASKS_NO_HARNESS"  # set where contract suites run, which are to cost nothing
NAMES = ("opencode", "claude-code", "codex")
_SENTENCES = (
    "You are asked one question by a research lab. Use no tool, and change nothing.",
    "Answer with one JSON object of this schema and nothing else:",
)
_LONGEST = 300


class HarnessThinker(Thinker):
    """Asks a harness.

    Args:
        row: how it is driven.
        model: the model, as the harness names it; "" takes the harness's own.
        timeout_s: seconds after which it is ended.
        usd: US dollars that an answer may cost, where the harness says what it costs.
        dispatchers: the ways that are tried, in order.
    """

    def __init__(
        self, row: Row, *, model: str = "", timeout_s: float = 300.0, usd: float | None = None,
        dispatchers: tuple[Dispatcher, ...] = (),
    ) -> None:  # fmt: skip
        self._row, self._model, self._timeout_s, self._usd = row, model, timeout_s, usd
        self._dispatchers = dispatchers or (AcpDispatcher(), ArgvDispatcher())

    def open(self, root: Path) -> None:
        """Takes no notice of the project's folder: the harness works in one of its own."""

    def problem(self) -> PerpetualError | None:
        """Returns why the harness cannot be driven here, None where it can."""
        if os.environ.get(ASKS_NONE):
            return ThinkerError("no harness is asked here")
        problems = [one.problem(self._row, os.environ) for one in self._dispatchers]
        return None if None in problems else problems[-1]

    def think(self, request: Request) -> Reply:
        """Returns what the model said.

        Raises:
            ThinkerError: with the outcome as its code, where that is no answer.
        """
        if os.environ.get(ASKS_NONE):
            raise ThinkerError("no harness is asked here")
        dispatcher = next((one for one in self._dispatchers if one.problem(self._row, os.environ) is None), None)
        if dispatcher is None:
            wrong = self.problem()
            raise ThinkerError(wrong.message if wrong else "it cannot be driven", hint=wrong.hint if wrong else None)
        mark = new_mark()
        try:
            with going(mark) as folder:
                limits = Limits(self._timeout_s, tokens=None, usd=self._usd)
                task = Task(_prompt(request), folder, mark, model=self._model, limits=limits)
                turn = dispatcher.turn(self._row, task)
        except DispatchError as problem:
            raise ThinkerError(problem.message, hint=problem.hint) from problem
        return self._reply(turn)

    def _reply(self, turn: Turn) -> Reply:
        # Without tools a refused permission is what was wanted; the answer counts all the same.
        if turn.outcome not in ACCEPTED and not (turn.outcome == "permission_refused" and turn.text):
            raise ThinkerError(f"{self._row.name}: {turn.outcome}: {neutralise(turn.problem or '-', _LONGEST)}")
        if len(turn.text.encode()) > MOST_REPLY_BYTES:
            raise ThinkerError(f"the answer is longer than {MOST_REPLY_BYTES} bytes")
        return Reply(turn.text, turn.used.tokens_in, turn.used.tokens_out, turn.used.usd, turn.model)

    def cancel(self) -> None:
        """Ends the questions that go on."""
        for one in self._dispatchers:
            one.cancel()


def _prompt(request: Request) -> str:
    import json

    schema = json.dumps(request.schema, ensure_ascii=False)
    return f"{_SENTENCES[0]}\n{_SENTENCES[1]}\n{schema}\n\nThe question:\n{request.state}\n"


def _built(name: str, options: Mapping[str, object]) -> HarnessThinker:
    row = TemplateHarness(name, files("perpetual_templates")).driving()
    assert row is not None, "each of NAMES says how it is driven"
    model, timeout_s, usd = options["model"], options["timeout_s"], options["usd_per_answer"]
    assert isinstance(timeout_s, (int, float))
    assert isinstance(usd, (int, float))
    return HarnessThinker(row, model=str(model or ""), timeout_s=float(timeout_s), usd=float(usd))


def opencode(options: Mapping[str, object]) -> HarnessThinker:
    """Builds the thinker `opencode`."""
    return _built("opencode", options)


def claude_code(options: Mapping[str, object]) -> HarnessThinker:
    """Builds the thinker `claude-code`."""
    return _built("claude-code", options)


def codex(options: Mapping[str, object]) -> HarnessThinker:
    """Builds the thinker `codex`."""
    return _built("codex", options)
