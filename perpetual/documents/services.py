"""`perpetual services`: what plugins keep running for a project."""

from __future__ import annotations

from perpetual.documents.status import ServiceNow

__all__ = ["ServiceLine"]


class ServiceLine(ServiceNow):
    """A service and its plugin; `qualified_name` is null once its plugin has gone."""

    qualified_name: str | None
    summary: str
