"""Entry point of the retrieval: brings the slots `retriever`, `embedder`, `price` and `withholder`; nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Field, Option, Provider, RecordKind, Slot, Suite, Template, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `retriever`, `embedder` (vectors of texts), `price`, and `withholder` (notes that are not offered now)."""
    return [
        Slot("retriever", "perpetual_retrievers", "retriever", "perpetual_recall.retriever:Retriever", "one",
             default="recall", suite=Suite("perpetual_recall.testing:RetrieverContract", fixture="retriever"),
             template=Template("perpetual config set slots.retriever {0}", "notes by their titles alone",
                               folder="perpetual_templates:retriever")),
        Slot("embedder", "perpetual_embedders", "embedder", "perpetual_recall.embedder:Embedder",
             suite=Suite("perpetual_recall.testing.embedders:EmbedderContract", fixture="embedder"),
             template=Template("perpetual memory search 'warm-up steps' --explain", "words of one stem are alike",
                               folder="perpetual_templates:embedder")),
        Slot("price", "perpetual_prices", "pricer", "perpetual_recall.price:Pricer", "one", default="replay",
             suite=Suite("perpetual_recall.testing.prices:PricerContract", fixture="pricer"),
             template=Template("perpetual config set slots.price {0}", "as a file of the project lists them",
                               folder="perpetual_templates:price")),
        Slot("withholder", "perpetual_withholders", "withholder", "perpetual_recall.withheld:Withholder",
             suite=Suite("perpetual_recall.testing.withholders:WithholderContract", fixture="withholder")),
    ]  # fmt: skip


@hookimpl
def perpetual_retrievers() -> list[Provider]:
    """Offers two retrievers."""
    return [
        Provider("retriever", "recall", "perpetual_recall.recall:build", "by text and by what came of the notes"),
        Provider("retriever", "linear", "perpetual_recall.linear:build", "reads every note at each search"),
    ]


@hookimpl
def perpetual_promotion_stages() -> list[Provider]:
    """Offers the stage that takes promoted notes back where work goes worse with them."""
    return [Provider("promotion_stage", "watch", "perpetual_recall.watch:build",
                     "promoted notes against calls in which they were withheld")]  # fmt: skip


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names what the watch over promoted notes is set by."""
    return {
        "holdout": Option("float", 0.05, "Chance that an agent's block leaves out a promoted note; 0: never.",
                          minimum=0.0, maximum=0.5),
        "watch_bar": Option("float", 5.0, "E-value of harm from which a promoted note goes back to quarantine.",
                            minimum=1.5, maximum=1e6),
    }  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Takes back promoted notes of which calls have shown harm."""
    from perpetual_recall.exposure import is_any

    if is_any(lab):
        from perpetual_recall.watch import look

        look(lab)


@hookimpl
def perpetual_gates() -> list[Provider]:
    """Offers the gate that names notes which say the same as the one that is written."""
    return [
        Provider("gate", "duplicates", "perpetual_recall.gate:build", "names notes that say the same as a new one",
                 order=80)
    ]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the ledger of exposures: which notes were in the context of whom."""
    return [
        RecordKind("exposure", {
            "notes": Field("list", "The notes in the context, each {path, blob}.", required=True),
            "run": Field("str", "The run whose context it was; null: of the actor's next runs.", references="run"),
            "session": Field("str", "The agent's session, as its harness names it."),
            "tokens": Field("int", "The size of what was shown, in tokens."),
            "drawn": Field("list", "Promoted notes on which it was drawn whether they are shown: {path, blob, shown}."),
            "holdout": Field("float", "The chance with which each of these was withheld."),
            "runs": Field("int", "The runs that the agent had started when it was drawn."),
        }, ledger=True)
    ]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual memory block`."""
    return [
        Provider("command", "memory.block", "perpetual_recall.command:block", "Show the notes that help an agent now.")
    ]


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_memory_block`, for agents."""
    summary = "The notes that help with a task, as text within a number of tokens."
    return [Provider("mcp_tool", "perpetual_memory_block", "perpetual_recall.tool:build", summary)]
