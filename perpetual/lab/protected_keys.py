"""Operations for a person: those that `perpetual.lab.permissions` guards, in one table. Floor 2.

A guarded operation is refused (exit 4) where an agent asks for it, by its shell or by its name, unless the methodology
says `agents_may_approve: true`. A setting is guarded unless `AGENTS_MAY_SET` lists it: one that is added later is a
person's until it is shown to weaken nothing.
"""

from __future__ import annotations

__all__ = ["AGENTS_MAY_SET", "OPERATIONS", "is_free"]

# operation -> what it decides
OPERATIONS: dict[str, str] = {
    "approve": "what may run",
    "approve --token": "which MCP server may approve",
    "mcp --allow-approve": "whether an MCP client may approve",
    "reject": "what may not run: an agent takes back its own unapproved proposals alone",
    "run with a command": "what runs where an experiment had no command yet",
    "memory promote": "which notes change how agents behave",
    "memory reject of a promoted note": "the same, of a note for which a person vouched",
    "budget set": "how much may be spent",
    "methodology set|unset": "how claims are decided and what agents may do (but for AGENTS_MAY_SET)",
    "config set|unset": "what the lab is made of and its access (but for AGENTS_MAY_SET)",
    "queue pause|drain|resume": "what starts, where a person has paused or drained the queue",
    "store import": "which record the project holds",
    "store migrate": "in which store the record lies",
    "setting another tool's project aside": "where a person's files are",
}

# Of the settings, those that an agent may set: they say what is proposed next and what is written down of it. None of
# them widens what runs, what is spent, what is shown or when a claim is decided.
AGENTS_MAY_SET: dict[str, frozenset[str]] = {
    "methodology": frozenset(
        {
            "auto_analyze",
            "auto_propose",
            "exploration_strategy",
            "memory_write_on_completion",
            "min_information_gain_bits",
            "proposal_batch_size",
        }
    ),
    "config": frozenset({"project"}),
}


def is_free(file: str, name: str) -> bool:
    """Returns whether an agent may set the key `name` of the `methodology` or of the `config`."""
    return name in AGENTS_MAY_SET[file]
