"""Coding agents as their shells show them: by variables of the environment. Floor 0.

Used by `perpetual.lab.permissions`, by the fast path of the command, and by code that starts a program which must not
take itself for an agent's. So this module imports next to nothing. The ancestry of a process is no sign: people work
in the terminals of their editors.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["AGENT_VARIABLES", "AN_AGENT", "DISPATCH", "DISPATCH_READY", "evidence", "harness", "mark"]

AN_AGENT = "an agent"
DISPATCH = "PERPETUAL_DISPATCH"  # of a harness that the lab drives, and of all that it starts: the turn's mark
DISPATCH_READY = "PERPETUAL_DISPATCH_READY"  # the file that the MCP server makes once that harness has spoken to it

# variable -> the agent that sets it for every command it runs. The first one that is set names the agent: Kilo sets
# OpenCode's too, and many set the generic ones, which come last.
AGENT_VARIABLES: dict[str, str] = {
    "CLAUDECODE": "Claude Code",
    "CURSOR_AGENT": "Cursor",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",  # of every shell it starts; the one above is of the sandbox of macOS
    "CODEX_SESSION_ID": "Codex",
    "CODEX_CI": "Codex",
    "KILO": "Kilo",
    "OPENCODE": "OpenCode",
    "GEMINI_CLI": "Gemini CLI",
    "QWEN_CODE": "Qwen Code",
    "COPILOT_CLI": "Copilot CLI",
    "COPILOT_AGENT_SESSION_ID": "Copilot CLI",
    DISPATCH: AN_AGENT,
    "AI_AGENT": AN_AGENT,
    "AGENT": AN_AGENT,  # also a name of build machines and of ssh: it counts as 1 or with an agent's name alone
}

# names that agents go by in the generic variables, in lower case and with dashes
_NAMES: dict[str, str] = {
    "aider": "Aider", "amp": "Amp", "antigravity": "Antigravity", "auggie": "Auggie", "claude": "Claude Code",
    "claude-code": "Claude Code", "cline": "Cline", "codex": "Codex", "codex-cli": "Codex", "continue": "Continue",
    "copilot": "Copilot CLI", "copilot-cli": "Copilot CLI", "crush": "Crush", "cursor": "Cursor",
    "cursor-agent": "Cursor", "cursor-cli": "Cursor", "devin": "Devin", "droid": "Droid", "gemini": "Gemini CLI",
    "gemini-cli": "Gemini CLI", "github-copilot": "Copilot CLI", "goose": "Goose", "junie": "Junie", "kilo": "Kilo",
    "kilo-code": "Kilo", "kilocode": "Kilo", "kimi": "Kimi Code", "kimi-code": "Kimi Code", "kiro": "Kiro",
    "opencode": "OpenCode", "openhands": "OpenHands", "pi": "Pi", "qwen": "Qwen Code", "qwen-code": "Qwen Code",
    "replit": "Replit", "roo": "Roo Code", "roo-code": "Roo Code", "windsurf": "Windsurf", "zed": "Zed",
}  # fmt: skip
_MOST_SHOWN = 20  # characters of a variable's value; a longer one is an id


def mark(environment: Mapping[str, str], more: Iterable[str] = ()) -> tuple[str, str] | None:
    """Returns the variable that marks an agent's shell and the agent's name, or None for a person's shell.

    Args:
        environment: the variables of the process.
        more: names of further variables that mark one, as the configuration key `agent_marks` lists them.
    """
    for variable, agent in AGENT_VARIABLES.items():
        value = environment.get(variable, "").strip()
        if not value:
            continue
        if agent is not AN_AGENT:
            return variable, agent
        named = _known(value) if variable == "AGENT" else _named(value)
        if variable != "AGENT" or named is not None or value == "1":
            return variable, named or AN_AGENT
    for variable in more:
        if variable not in AGENT_VARIABLES and environment.get(variable, "").strip():
            return variable, AN_AGENT
    return None


def harness(environment: Mapping[str, str], more: Iterable[str] = ()) -> str | None:
    """Returns the coding agent under whose shell a process with that environment runs, or None."""
    found = mark(environment, more)
    return None if found is None else found[1]


def evidence(environment: Mapping[str, str], variable: str, agent: str) -> str:
    """Returns what shows that a shell is an agent's: `AGENT=1 is set: this shell is an agent's`."""
    value = environment.get(variable, "").strip()
    is_short = len(value) <= _MOST_SHOWN and all(c.isalnum() or c in "._-" for c in value)
    shown = f"{variable}={value}" if is_short else variable
    return f"{shown} is set: this shell is {agent}'s"


def _known(value: str) -> str | None:
    return _NAMES.get(value.lower().replace("_", "-"))


def _named(value: str) -> str | None:
    """Returns the known agent that the value begins with, before its version.

    `goose`, `claude-code_2.1.330`, `amp/1`.
    """
    for end in "/@: ":
        value = value.partition(end)[0]
    return _known(value) or _known(value.partition("_")[0])
