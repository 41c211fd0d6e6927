"""Entry point of the mirrors: brings the slot `mirror`, offers four of them and `perpetual mirror`; nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Option, Provider, RecordKind, Slot, Suite, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab

_REQUIRES = ("curves", "report")


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `mirror`: trackers to which runs are copied."""
    suite = Suite("perpetual_mirrors.testing:MirrorContract", fixture="mirror")
    return [Slot("mirror", "perpetual_mirrors", "mirror", "perpetual_mirrors.base:Mirror", suite=suite)]


@hookimpl
def perpetual_mirrors() -> list[Provider]:
    """Offers TensorBoard, W&B, MLflow and trackio."""
    project = Option("str", None, "Name of the project there; null is this project's.", nullable=True)
    uri = Option(
        "str", None, "Where the address of the tracking server is kept; null is a database of this project's.",
        nullable=True, secret=True,
    )  # fmt: skip
    own = {"project": project}
    return [
        Provider("mirror", "tensorboard", "perpetual_mirrors.for_tensorboard:build", "event files", requires=_REQUIRES),
        Provider("mirror", "wandb", "perpetual_mirrors.for_wandb:build", "offline folders for `wandb sync`",
                 options=own, requires=_REQUIRES),
        Provider("mirror", "mlflow", "perpetual_mirrors.for_mlflow:build", "a database, or a tracking server",
                 options={**own, "uri": uri}, requires=_REQUIRES),
        Provider("mirror", "trackio", "perpetual_mirrors.for_trackio:build", "trackio's local store",
                 options=own, requires=_REQUIRES),
    ]  # fmt: skip


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names the mirrors in force."""
    return {"targets": Option("list", [], "Mirrors to which runs are pushed as they end, by name.")}


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings the events that say that a mirror has begun to fail, and that it works again."""
    return [
        EventKind("failing", "subject: the mirror; payload: error"),
        EventKind("recovered", "subject: the mirror"),
    ]


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual mirror`."""
    return [
        Provider("command", "mirror", "perpetual_mirrors.command:mirror", "Push runs to the tracker that a team has.",
                 requires=_REQUIRES, topic="results")
    ]  # fmt: skip


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that says whether mirrors are up to date."""
    return [Provider("check", "mirrors", "perpetual_mirrors.check:build", "whether mirrors hold what the record has",
                     requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section of the status that names mirrors that fail."""
    return [Provider("status_section", "mirrors", "perpetual_mirrors.check:build_section", "mirrors that fail",
                     requires=_REQUIRES)]  # fmt: skip


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Starts processes that push, where runs have ended since the last push; pushes nothing itself."""
    if lab.options("mirrors")["targets"]:
        from perpetual_mirrors.starting import wake

        wake(lab)
