"""What two plugins need, which knows nothing of a lab: durable files and locks, processes and their supervision, JSON,
TOML and YAML edited in place, units, secrets taken out, folders watched. Floor 0.
"""
