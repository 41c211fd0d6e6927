"""Entry point: offers `export`, and records ad-hoc runs that were left over; imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Provider, Slot, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual export`."""
    return [
        Provider(
            "command",
            "export",
            "perpetual_export.command:export",
            "Write runs, experiments, hypotheses or evidence as a table.",
            requires=("report",),
        )
    ]


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `frames`: what `lab.runs.df()` asks."""
    return [
        Slot("frames", "perpetual_frames", "data frames", "perpetual_export.frames:Frames", "one", default="frames")
    ]


@hookimpl
def perpetual_frames() -> list[Provider]:
    """Offers data frames of pandas or polars."""
    return [Provider("frames", "frames", "perpetual_export.frames:build", "Data frames of runs.", requires=("report",))]


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section of ad-hoc runs that go on."""
    return [
        Provider(
            slot="status_section",
            name="ad-hoc",
            factory="perpetual_export.live:build",
            summary="ad-hoc runs that are not in the record yet",
        )
    ]


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Records the ad-hoc runs whose process ended without doing so; looks at one folder."""
    if (lab.root / ".perpetual" / "adhoc").is_dir():
        from perpetual_export.left_over import collect

        collect(lab)
