"""A lab's configuration: the project's own, and the methodology with it. Floor 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from perpetual.config import Config, user_file
from perpetual.errors import ConfigError
from perpetual.lab.methodology import FILE, KEYS, Methodology
from perpetual.slots.table import METHODOLOGY, Slot
from perpetual.toolkit import yamlfile
from perpetual.toolkit.config_keys import ABSENT, Key, check_entry, check_names

__all__ = ["LabConfig"]

_SECTION = "methodology"  # of the user's own file: values that the user lets any project have


class LabConfig(Config):
    """The values in force for one lab; raises as `Config` does, and for a wrong `methodology` of the user's own file.

    `methodology_keys` answers the keys that plugins bring, once they are known.
    """

    files = (*Config.files, FILE)

    def __init__(self, root: Path) -> None:
        self.methodology_keys: Callable[[], Mapping[str, Key]] = dict
        super().__init__(root)

    def reload(self) -> None:
        """Reads the files, again after another process has changed them; raises as the class does."""
        super().reload()
        self._methodology: Methodology | None = None
        self._user_methodology = self._of_user()

    def _of_user(self) -> dict[str, object]:
        section = self.user_methodology
        if section is ABSENT:
            return {}
        path = user_file()
        if not isinstance(section, dict):
            raise ConfigError(f"{yamlfile.place_of(path, _SECTION)}: methodology must hold keys with values")
        check_names(section, KEYS, yamlfile.place_of(path, _SECTION))
        return {name: check_entry(KEYS[name], value, path, _SECTION, name) for name, value in section.items()}

    @property
    def methodology(self) -> Methodology:
        """Returns `methodology.yaml`, read at first use."""
        if self._methodology is None:
            prefix = "methodology."
            values = {} if self.trust is None else self.trust.values
            accepted = {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
            self._methodology = Methodology(
                self.folder / FILE, user=self._user_methodology, accepted=accepted, brought=self.methodology_keys
            )
        return self._methodology

    def chosen(self, slot: Slot) -> str:
        """Returns the provider in force for a slot of which one serves; raises as `Config.chosen` does."""
        if slot.selection == METHODOLOGY:
            return self.methodology.scorer if slot.name == "scorer" else str(self.methodology[slot.key or slot.name])
        return super().chosen(slot)

    def protections(self) -> dict[str, object]:
        """Returns what protects, as it is in force: the values that trust in the project as it is covers."""
        own = {f"methodology.{name}": value for name, value in self.methodology.protections().items()}
        return {**super().protections(), **own}

    def weakening(self) -> dict[str, object]:
        """Returns the values of the project's files that weaken protection and do not count: `{key: value}`."""
        own = {f"methodology.{name}": value for name, value in self.methodology.held.items()}
        return {**super().weakening(), **own}
