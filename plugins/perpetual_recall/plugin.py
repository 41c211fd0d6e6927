"""Entry point of the retrieval: brings the slot `retriever` and fills it; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, Slot, Suite, Template, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `retriever`: which notes are found, and which ones agents are offered."""
    return [
        Slot("retriever", "perpetual_retrievers", "retriever", "perpetual_recall.retriever:Retriever", "one",
             default="recall", suite=Suite("perpetual_recall.testing:RetrieverContract", fixture="retriever"),
             template=Template("perpetual config set slots.retriever {0}", "notes by their titles alone",
                               folder="perpetual_templates:retriever"))
    ]  # fmt: skip


@hookimpl
def perpetual_retrievers() -> list[Provider]:
    """Offers two retrievers."""
    return [
        Provider("retriever", "recall", "perpetual_recall.linear:build", "by the number of words"),
        Provider("retriever", "linear", "perpetual_recall.linear:build", "reads every note at each search"),
    ]
