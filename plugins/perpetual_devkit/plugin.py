"""Entry point of the developer tools: offers commands; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl

_INSTALL = "perpetual_devkit.install_commands"


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual chaos`, and the commands that make, check, install, remove and search plugins."""
    return [
        Provider(
            "command",
            "chaos",
            "perpetual_devkit.commands:chaos",
            "Kill writers of a store again and again, and see what is left.",
        ),
        Provider(
            "command",
            "uninstall",
            "perpetual_devkit.uninstall_command:uninstall",
            "Remove what Perpetual laid on this machine; records stay.",
        ),
        Provider(
            "command", "plugins.new", "perpetual_devkit.commands:new", "Write a plugin: part, tests and what CI needs."
        ),
        Provider("command", "plugins.check", "perpetual_devkit.commands:check", "Compare providers with their slots."),
        Provider("command", "plugins.install", f"{_INSTALL}:install", "Install plugins with pip or uv, and load them."),
        Provider("command", "plugins.remove", f"{_INSTALL}:remove", "Remove a plugin; say first what misses it."),
        Provider("command", "plugins.search", f"{_INSTALL}:search", "List the plugins of the package index."),
    ]


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers what the doctor says of the project's folder, and of the MCP server."""
    return [
        Provider("check", "permissions", "perpetual_devkit.checks:permissions", "whether the record is private",
                 order=45),
        Provider("check", "disk", "perpetual_devkit.checks:disk", "whether there is room for the record", order=50),
        Provider("check", "mcp", "perpetual_devkit.server_check:build", "whether the MCP server answers a client",
                 order=70),
    ]  # fmt: skip
