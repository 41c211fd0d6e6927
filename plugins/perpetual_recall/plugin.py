"""Entry point of the retrieval: brings the slots `retriever`, `embedder` and `price`; nothing heavy."""

from __future__ import annotations

from perpetual.api import EventKind, Field, Provider, RecordKind, Slot, Suite, Template, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slots `retriever`, which notes are found and offered, `embedder`, vectors of texts, and `price`."""
    return [
        Slot("retriever", "perpetual_retrievers", "retriever", "perpetual_recall.retriever:Retriever", "one",
             default="recall", suite=Suite("perpetual_recall.testing:RetrieverContract", fixture="retriever"),
             template=Template("perpetual config set slots.retriever {0}", "notes by their titles alone",
                               folder="perpetual_templates:retriever")),
        Slot("embedder", "perpetual_embedders", "embedder", "perpetual_recall.embedder:Embedder",
             suite=Suite("perpetual_recall.testing.embedders:EmbedderContract", fixture="embedder")),
        Slot("price", "perpetual_prices", "pricer", "perpetual_recall.price:Pricer", "one", default="replay",
             suite=Suite("perpetual_recall.testing.prices:PricerContract", fixture="pricer"),
             template=Template("perpetual config set slots.price {0}", "as a file of the project lists them",
                               folder="perpetual_templates:price")),
    ]  # fmt: skip


@hookimpl
def perpetual_retrievers() -> list[Provider]:
    """Offers two retrievers."""
    return [
        Provider("retriever", "recall", "perpetual_recall.recall:build", "by text and by what came of the notes"),
        Provider("retriever", "linear", "perpetual_recall.linear:build", "reads every note at each search"),
    ]


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the ledger of exposures: which notes were in the context of whom."""
    return [
        RecordKind("exposure", {
            "notes": Field("list", "The notes in the context, each {path, blob}.", required=True),
            "run": Field("str", "The run whose context it was; null: of the actor's next runs.", references="run"),
            "session": Field("str", "The agent's session, as its harness names it."),
            "tokens": Field("int", "The size of what was shown, in tokens."),
        }, ledger=True)
    ]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual memory block`."""
    return [
        Provider("command", "memory.block", "perpetual_recall.command:block", "Show the notes that help an agent now.")
    ]
