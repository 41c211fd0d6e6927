"""Persistent agents: see `perpetual_agents.agents` for records, and `perpetual_agents.handler` for what is done."""
