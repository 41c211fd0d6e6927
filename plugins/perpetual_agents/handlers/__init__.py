"""The handlers that are bundled, one concern a module; see `perpetual_agents.handler` for the contract."""
