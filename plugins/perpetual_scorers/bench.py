"""Policies that `bench-policy` runs: policies that can be sent to other processes.

Imported by the command beside it and by the workers, which are started anew: a policy travels as the name of its
factory, or as its file.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from perpetual.api import PluginError, Scorer, ScorerState, UsageError
from perpetual_scorers import simulate

__all__ = ["FilePolicy", "InstalledPolicy", "OfferedScorer", "ScorerPolicy", "chosen"]


class ScorerPolicy:
    """A scorer as a policy; built at its first use, so what is wrong with it is in its row."""

    def __init__(self) -> None:
        self._scorer: Scorer | None = None

    def build(self) -> object:
        """Returns the scorer; overridden."""
        raise NotImplementedError

    @property
    def weighs_baselines(self) -> bool:
        """Returns whether candidates of kind `baseline` are in its state."""
        with contextlib.redirect_stdout(sys.stderr):
            return self._built().weighs_baselines

    def __call__(self, state: ScorerState, k: int) -> Sequence[str]:
        """Returns the scorer's picks. What it prints goes to standard error: standard output is the command's."""
        with contextlib.redirect_stdout(sys.stderr):
            return self._built().pick(state, k)

    def _built(self) -> Scorer:
        if self._scorer is None:
            built = self.build()
            if not isinstance(built, Scorer):
                raise TypeError(f"its factory answered {type(built).__name__}, which is no Scorer")
            self._scorer = built
        return self._scorer

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_scorer": None}


class InstalledPolicy(ScorerPolicy):
    """The scorer that a provider's factory (`module:callable`) makes with these options."""

    def __init__(self, factory: str, options: Mapping[str, object]) -> None:
        super().__init__()
        self._factory, self._options = factory, dict(options)

    def build(self) -> object:
        """Imports the factory and calls it."""
        from importlib import import_module

        module, _, attribute = self._factory.partition(":")
        factory: Callable[[dict[str, object]], object] = getattr(import_module(module), attribute)
        return factory(dict(self._options))


class FilePolicy(ScorerPolicy):
    """The scorer of a Python file: what its `build(options)` answers, else its one subclass of Scorer."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)

    def build(self) -> object:
        """Runs the file, and calls its factory."""
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("benched_policy", self._path)
        if spec is None or spec.loader is None:
            raise PluginError(f"{self._path} cannot be imported", hint="a Python file, its name ending in .py")
        module = module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        if hasattr(module, "build"):
            factory: Callable[[dict[str, object]], object] = module.build
            return factory({})
        own = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Scorer) and value.__module__ == spec.name
        ]
        if len(own) != 1:
            raise UsageError(f"{self._path} holds {len(own)} subclasses of Scorer and no function build(options)")
        return own[0]()


class OfferedScorer(NamedTuple):
    """A scorer that is installed, with the options in force."""

    name: str
    qualified_name: str
    factory: str
    options: Mapping[str, object]


def chosen(names: Sequence[str], offers: Sequence[OfferedScorer]) -> dict[str, simulate.Policy]:
    """Returns the policies of these names (of all installed scorers, if none is given) by the names of their rows.

    Raises:
        UsageError: for a name that is neither a scorer nor a file.
    """
    from perpetual_scorers.proposing.strategies import STRATEGIES

    bare = [offer.name for offer in offers]
    installed = {(offer.name if bare.count(offer.name) == 1 else offer.qualified_name): offer for offer in offers}
    found: dict[str, simulate.Policy] = {}
    for name in names or installed:
        if name.endswith(".py"):
            path = Path(name)
            if not path.is_file():
                raise UsageError(f"there is no file {name}", hint="the path of a Python file that holds a Scorer")
            found[name] = FilePolicy(path.absolute())
            continue
        plain = "information-gain" if name in ("hypothesis_driven", "information_gain") else name
        plain = plain.replace("_", "-") if name in STRATEGIES else plain
        offer = installed.get(plain) or next((each for each in offers if each.qualified_name == plain), None)
        if offer is None:
            raise UsageError(
                f"no scorer is called {name!r}",
                hint=f"one of {', '.join(installed)}, or the path of a file that ends in .py",
            )
        found[name] = InstalledPolicy(offer.factory, offer.options)
    return found
