"""Whether an agent may run here: agents whose tools run code count only once a person of this machine started them.

The mark is a hash, keyed by a secret of the user, of what the agent would run. An agent that came with another's
record, or whose tools were changed behind Perpetual's back, has none that fits.
"""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING

from perpetual.api import NotPermitted
from perpetual.toolkit import user_state
from perpetual_agents.tools import mcp_servers, runs_code

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.data import Agent

__all__ = ["let", "require"]


def let(lab: Lab, agent: Agent) -> str | None:
    """Returns the mark of an agent that a person starts; None for one that runs no code of a project.

    Raises:
        NotPermitted: where an agent asks for it, or the project is held.
    """
    lab.trust.require(f"running {agent.name}")
    if not runs_code(agent.tools):
        return None
    lab.services.allows(f"letting {agent.name} run code")
    return _mark(lab, agent)


def require(lab: Lab, agent: Agent) -> None:
    """Raises NotPermitted unless the agent may run here: in a held project, and without the mark that it needs."""
    lab.trust.require(f"running {agent.name}")
    names = runs_code(agent.tools)
    if names and not hmac.compare_digest(str(agent.mark), _mark(lab, agent)):
        raise NotPermitted(
            f"{agent.id} runs code ({', '.join(names)}) that no person here has let it run",
            hint=f"a person lets it: perpetual agent stop {agent.id}, then perpetual agent start {agent.id}",
            code="not_let",
        )


def _mark(lab: Lab, agent: Agent) -> str:
    servers = mcp_servers(lab)
    used = {name: servers.get(name.removeprefix("mcp:")) for name in agent.tools if name.startswith("mcp:")}
    text = json.dumps(["agent", lab.config.project_id, str(lab.root), agent.id, runs_code(agent.tools), used],
                      sort_keys=True)  # fmt: skip
    return hmac.new(user_state.secret(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()
