"""Entry point of artifacts: offers the capture that lists them, the command `gc` and its policy; nothing heavy."""

from __future__ import annotations

from perpetual.api import EventKind, Option, Provider, RecordKind, hookimpl


@hookimpl
def perpetual_captures() -> list[Provider]:
    """Offers the capture that lists what a run has put into `PERPETUAL_ARTIFACTS`."""
    return [
        Provider("capture", "artifacts", "perpetual_artifacts.listing:build",
                 "size and hash of the files that a run left to keep", order=90)
    ]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual gc`."""
    return [
        Provider("command", "gc", "perpetual_artifacts.command:gc", "Remove checkpoints and artifacts that are old.")
    ]


@hookimpl
def perpetual_report_sections() -> list[Provider]:
    """Offers the section that lists artifacts."""
    return [
        Provider("report_section", "artifacts", "perpetual_artifacts.report_section:build",
                 "files that runs left to keep, with size and hash", requires=("report",))
    ]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the event that says what was removed."""
    return [EventKind("removed", "subject: the run; payload: what, size_bytes, why")]


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Sets how long `perpetual gc` keeps what; records and logs are never removed."""
    return {
        "checkpoint_days": Option(
            "float", 7.0, "Days for which checkpoints are kept once their replicate has a result; null keeps them.",
            minimum=0, nullable=True,
        ),
        "unfinished_checkpoint_days": Option(
            "float", 30.0, "Days for which checkpoints of a replicate without a result are kept; null keeps them.",
            minimum=0, nullable=True,
        ),
        "artifact_days": Option(
            "float", None, "Days for which artifacts of an ended run are kept; null, the default, keeps them.",
            minimum=0, nullable=True,
        ),
    }  # fmt: skip
