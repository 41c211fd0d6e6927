"""For tests of agents and of their parts: contract suites, and a model that is a Python function.

- `backends`: `BackendContract`, the promises of `perpetual_agents.model`.
- `handlers`: `HandlerContract`, those of `perpetual_agents.handler`.
- `tools`: `AgentToolContract`, those of the slot `agent_tool`.
- `function`: `FunctionBackend`, whose replies a function of a test makes.
"""

from __future__ import annotations

import sys

# pytest shows the values of a failed assertion for modules that are registered before their import.
if "pytest" in sys.modules:
    import pytest

    for _suite in ("backends", "handlers", "tools"):
        if f"{__name__}.{_suite}" not in sys.modules:
            pytest.register_assert_rewrite(f"{__name__}.{_suite}")
