"""`perpetual services`: what plugins keep running for a project."""

from __future__ import annotations

from perpetual_cli.documents.state import ServiceNow

__all__ = ["ServiceLine"]


class ServiceLine(ServiceNow):
    """A service with the plugin that brings it; `qualified_name` is null once that plugin has gone."""

    qualified_name: str | None
    summary: str
