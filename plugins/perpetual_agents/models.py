"""Names of models as a person writes them, resolved by the backend in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from perpetual_agents.model import ModelUnavailable

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.model import ModelBackend

__all__ = ["model_for"]


def model_for(lab: Lab, model: str | None) -> tuple[str, list[str]]:
    """Returns the full name of a model, and notes: where it was a guess, or the model could not be asked now.

    Args:
        lab: the project, whose option `plugins.agents.model` names the model of agents that name none.
        model: as a person wrote it, or None.

    Raises:
        ModelUnavailable: without a name, or for a provider that there is not.
    """
    named = model or cast("str | None", lab.options("agents")["model"])
    if not named:
        raise ModelUnavailable("no model was named", hint="--model PROVIDER:NAME, such as ollama:qwen3:4b")
    backend = cast("ModelBackend", lab.part("model_backend"))
    full, note = backend.resolved(named)
    notes = [note] if note else []
    problem = backend.problem(full)
    if problem is not None:
        notes.append(f"{problem.message}: {problem.hint}" if problem.hint else problem.message)
    return full, notes
