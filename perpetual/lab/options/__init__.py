"""The options of providers and plugins: which section of config.yaml is whose, and the values in force. Floor 2.

    plugins:
      store:                 # full form: a slot, then the provider by its name or as distribution/name
        postgres: {pool: 4}
      plugin:                # full form for options of a plugin itself
        bell: {channel: "#lab"}
      tinydb:                # short form: the name of a provider or a plugin
        lock_timeout_s: 60

A section may be named like a slot and like a provider. Then what it holds decides, entry by entry: a mapping is the
section of a provider of that slot, anything else is an option of the provider. An option that is itself a section is
therefore written in the full form there.

Within a file the full form wins over the short one, and a qualified name over a bare one; the project's file wins over
the user's, and an option's own variable of the environment over both. A key of a short section means the provider of
that name that has such an option. Where several have it, it means the bundled one; where none of them is bundled, it is
ambiguous, and only the providers that would read it are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from perpetual.catalogue import Offer, PluginInfo
from perpetual.config import FILE, PLUGINS, Config, inside, option_forms, user_file
from perpetual.errors import ConfigError, NotFound, NotPermitted, UsageError, unknown
from perpetual.registry import Registry
from perpetual.slots import OPTION_TYPES, Option, key_of_option
from perpetual.toolkit import yamlfile
from perpetual.toolkit.config_keys import check, parse_text
from perpetual.toolkit.reserved import is_bundled
from perpetual.toolkit.secret import FORMS, Secret, follow, is_reference

__all__ = [
    "PLUGIN",
    "Leaf",
    "Owner",
    "PluginOptions",
    "asked",
    "check_declared",
    "checked",
    "defaults_of",
    "key_of",
    "leaves_of",
    "parsed",
    "with_defaults",
]

PLUGIN = "plugin"  # stands for the slot where the options are those of a plugin itself
_FORMS_HINT = f"write where it is kept: {FORMS}"


class Owner(NamedTuple):
    """A provider, or a plugin with options of its own: `names` mean it, the qualified one first."""

    slot: str
    qualified_name: str
    names: tuple[str, ...]
    spec: Mapping[str, Option]

    @property
    def title(self) -> str:
        """Returns the owner as messages name it."""
        return f"{self.slot} {self.names[-1]}"


class Leaf(NamedTuple):
    """One option that holds a value: `keys` lead to it, and `path` to its place below `plugins`, if a file has it."""

    keys: tuple[str, ...]
    option: Option
    value: Any
    origin: str
    path: tuple[str, ...] | None = None


class _Found(NamedTuple):
    """What one section has for an option; `rivals` are the owners that it may be meant for, if not this one alone."""

    value: Any
    origin: str
    path: tuple[str, ...]
    rivals: tuple[Owner, ...] = ()


class PluginOptions:
    """The options of every provider and plugin of a registry, as a configuration has them."""

    def __init__(self, config: Config, registry: Registry) -> None:
        self.config, self._registry = config, registry
        self._owners: tuple[list[PluginInfo], list[Owner]] | None = None

    # --- values -------------------------------------------------------------------------------------------------

    def of(self, offer: Offer) -> dict[str, object]:
        """Returns a provider's options in force.

        Raises:
            ConfigError: for a key that the provider does not have, a value that does not fit, a secret that is written
                out, or a short section that may be meant for another provider too.
        """
        return self.values(_owner_of(offer))

    def of_plugin(self, name: str) -> dict[str, object]:
        """Returns the options in force of a plugin itself, {} for one that has none; raises as `of` does.

        Raises:
            NotFound: if no such plugin is loaded.
            UsageError: if two distributions have a plugin of that name.
        """
        loaded = [info for info in self._registry.plugins if info.state == "loaded"]
        hits = [info for info in loaded if name in (info.name, info.qualified_name)]
        hits = [info for info in hits if is_bundled(info.qualified_name)] or hits
        if not hits:
            raise NotFound(unknown("plugin", name, [info.name for info in loaded]), hint="perpetual plugins list")
        if len(hits) > 1:
            names = " or ".join(info.qualified_name for info in hits)
            raise UsageError(f"{name!r} is two plugins", hint=f"write {names}", code="plugin_ambiguous")
        found = [
            owner for owner in self.owners if (owner.slot, owner.qualified_name) == (PLUGIN, hits[0].qualified_name)
        ]
        return self.values(found[0]) if found else {}

    def values(self, owner: Owner) -> dict[str, object]:
        """Returns the options in force of one of the `owners`; raises as `of` does."""
        self._check_sections(owner)
        answer: dict[str, Any] = {}
        for leaf in self.leaves(owner):
            node = answer
            for key in leaf.keys[:-1]:
                node = node.setdefault(key, {})
            node[leaf.keys[-1]] = self._value(owner, leaf)
        return answer

    def leaves(self, owner: Owner) -> Iterator[Leaf]:
        """Yields each option that holds a value, unchecked; raises ConfigError for one that may be another's."""
        for key, option in owner.spec.items():
            yield from _resolved(option, (key,), list(self._found(owner, key)))

    def _value(self, owner: Owner, leaf: Leaf) -> object:
        """Returns a leaf's value, checked; a secret as one that its holder reveals."""
        name = key_of((owner.slot, owner.names[-1]), leaf.keys)
        if leaf.option.secret and (leaf.value is not None or not leaf.option.nullable):
            return self._secret(name, leaf)
        if leaf.origin == "environment":
            return parsed(name, leaf.option, leaf.value, leaf.option.variable or "")
        if leaf.value is None and not leaf.option.nullable:
            at = f" at {self.place(leaf)}" if leaf.path else ""
            raise ConfigError(
                f"{name} has no value{at}", hint=f"perpetual config set {name} VALUE: {leaf.option.meaning}"
            )
        try:
            return checked(name, leaf.option, leaf.value, FILE)
        except ConfigError:
            return checked(name, leaf.option, leaf.value, self.place(leaf))

    def _secret(self, name: str, leaf: Leaf) -> Secret:
        config = self.config
        where = "" if leaf.path is None else f" ({self.place(leaf)})"
        if leaf.value is None:
            raise ConfigError(f"{name} has no value{where}", hint=_FORMS_HINT)
        if leaf.origin != "environment" and not is_reference(leaf.value):
            raise ConfigError(f"{name} is a secret, and it is written out{where}", hint=_FORMS_HINT)

        def find() -> str:
            if config.project_id and config.trust is None:
                raise NotPermitted(
                    f"{name} is a secret, and this project is held", hint="perpetual trust --show", code="not_trusted"
                )
            if leaf.origin == "environment":
                return str(leaf.value)
            if leaf.origin == "project" and leaf.path is not None and not config.accepts(leaf.path, leaf.value):
                raise NotPermitted(
                    f"{name} refers to a secret, which was not accepted here{where}",
                    hint="see what would count and accept it: perpetual trust",
                    code="not_trusted",
                )
            return follow(name, leaf.value, config.root)

        return Secret(name, find)

    def place(self, leaf: Leaf) -> str:
        """Returns the file and line of a leaf."""
        path = self.config.path if leaf.origin == "project" else user_file()
        return str(path) if leaf.path is None else yamlfile.place_of(path, PLUGINS, *leaf.path)

    # --- sections -----------------------------------------------------------------------------------------------

    @property
    def owners(self) -> list[Owner]:
        """Returns everything that has options, by plugin."""
        plugins = self._registry.plugins
        if self._owners is None or self._owners[0] is not plugins:
            found = [
                owner
                for info in plugins
                for owner in (
                    *(_owner_of(offer) for offer in info.offers if offer.refused is None),
                    *(() if info.options is None else (_owner_of_plugin(info),)),
                )
            ]
            self._owners = plugins, found
        return self._owners[1]

    @property
    def slots(self) -> set[str]:
        """Returns the names of sections that hold providers."""
        return {*self._registry.slots, PLUGIN}

    def sharing(self, form: Sequence[str]) -> list[Owner]:
        """Returns the owners that a section means: by slot and name, or by name alone."""
        slot = form[0] if len(form) > 1 else None
        return [owner for owner in self.owners if form[-1] in owner.names and slot in (None, owner.slot)]

    def meant(self, form: Sequence[str], key: str) -> list[Owner]:
        """Returns the owners that a key of a section may be meant for: one, unless it is ambiguous or no option."""
        return settled([owner for owner in self.sharing(form) if key in owner.spec])

    def sections(self, owner: Owner) -> Iterator[tuple[str, tuple[str, ...], dict[str, object]]]:
        """Yields the sections that an owner reads as (origin, path, entries), the one that wins first."""
        slots = self.slots if self.config.sections else set()
        for origin in ("project", "user"):
            data = self.config.sections.get(origin, {})
            for form in option_forms(owner.slot, owner.names) if data else ():
                entries = inside(data, form)
                if isinstance(entries, dict):
                    is_short_slot = len(form) == 1 and form[0] in slots
                    yield origin, form, own_entries(entries) if is_short_slot else entries

    def _found(self, owner: Owner, key: str) -> Iterator[_Found]:
        for origin, form, entries in self.sections(owner):
            meant = self.meant(form, key) if key in entries else []
            if owner in meant:
                yield _Found(entries[key], origin, (*form, key), tuple(meant) if len(meant) > 1 else ())

    def _check_sections(self, owner: Owner) -> None:
        """Raises ConfigError for a key that no owner of a section has."""
        for origin, form, entries in self.sections(owner):
            sharing = self.sharing(form)
            known = {key for each in sharing for key in each.spec}
            wrong = next((key for key in entries if key not in known), None)
            if wrong is None or (not owner.spec and len(sharing) > 1):
                continue
            path = self.config.path if origin == "project" else user_file()
            gone = "" if origin != "project" else f"take it out: perpetual config unset {key_of(form, (wrong,))}"
            message = f"{yamlfile.place_of(path, PLUGINS, *form, wrong)}: " + unknown(
                f"option of {form[-1]}", wrong, known
            )
            raise ConfigError(message, hint=gone or None)


def settled(owners: list[Owner]) -> list[Owner]:
    """Returns the bundled one of several owners, if there is one; else all."""
    bundled = [owner for owner in owners if is_bundled(owner.qualified_name)]
    return bundled if len(bundled) == 1 else owners


def own_entries(section: Mapping[str, object]) -> dict[str, object]:
    """Returns the entries of a section named like a slot that are options of the provider of that name."""
    return {key: value for key, value in section.items() if not isinstance(value, dict)}


def key_of(form: Sequence[str], keys: Sequence[str]) -> str:
    """Returns the key of the configuration that leads to an option."""
    return ".".join((PLUGINS, *form, *keys))


def defaults_of(spec: Mapping[str, Option]) -> dict[str, object]:
    """Returns the options of a part that no file sets."""
    answer: dict[str, Any] = {}
    for leaf in (leaf for key, option in spec.items() for leaf in _resolved(option, (key,), [], environment=False)):
        node = answer
        for key in leaf.keys[:-1]:
            node = node.setdefault(key, {})
        node[leaf.keys[-1]] = leaf.value
    return answer


def leaves_of(spec: Mapping[str, Option], keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Option]]:
    """Yields each option that holds a value with the keys that lead to it."""
    for key, option in spec.items():
        if option.type == "section":
            yield from leaves_of(option.fields or {}, (*keys, key))
        else:
            yield (*keys, key), option


def checked(name: str, option: Option, value: object, where: str) -> object:
    """Returns the value of an option in its type; raises ConfigError as `perpetual.toolkit.config_keys.check` does."""
    if (option.type, option.items) != ("list", "section") or (value is None and option.nullable):
        return check(key_of_option(name, option), value, where)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ConfigError(f"{where}: {name} must be a list of sections", hint=option.meaning)
    return [_checked_item(name, option.fields or {}, item, where) for item in value]


def parsed(name: str, option: Option, text: str, where: str) -> object:
    """Returns the value that a person wrote as text; a list of sections is written as JSON."""
    if (option.type, option.items) != ("list", "section") or (option.nullable and text == "null"):
        return parse_text(key_of_option(name, option), text, where)
    import json

    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return checked(name, option, value, where)


def asked(spec: Mapping[str, Option], given: Mapping[str, object], title: str, place: str = "") -> dict[str, object]:
    """Returns the values that were given for declared options, checked; a text is read as what its option holds.

    Args:
        given: by key; the keys of a section in a mapping, or joined to its name by a dot.
        title: what one of the options is called in messages.

    Raises:
        UsageError: for a key that is not declared, with the nearest names, and for a value that does not fit.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        key, dot, inner = name.partition(".")
        option = spec.get(key)
        if option is None or (dot and option.type != "section"):
            raise UsageError(unknown(title, place + name, [place + ".".join(keys) for keys, _ in leaves_of(spec)]))
        if option.type != "section":
            if isinstance(value, str) and option.type != "str":
                found[key] = parsed(place + key, option, value, title)
            else:
                found[key] = checked(place + key, option, value, title)
        elif value is None and option.nullable and not dot:
            found[key] = None
        elif dot or isinstance(value, Mapping):
            items = {inner: value} if dot else cast("Mapping[str, object]", value)
            inside = asked(option.fields or {}, items, title, f"{place}{key}.")
            found[key] = {**(found.get(key) or {}), **inside}
        else:
            raise UsageError(f"{title}: {place}{key} must hold keys with values", hint=option.meaning)
    return found


def with_defaults(
    spec: Mapping[str, Option], given: Mapping[str, object], title: str, place: str = ""
) -> dict[str, object]:
    """Returns `asked` values with the defaults of the options that were left out.

    Raises:
        UsageError: for a compulsory one that was left out.
    """
    found: dict[str, object] = {}
    for key, option in spec.items():
        if option.type == "section" and not (option.nullable and given.get(key) is None):
            section = cast("Mapping[str, object]", given.get(key) or {})
            found[key] = with_defaults(option.fields or {}, section, title, f"{place}{key}.")
        elif key in given:
            found[key] = given[key]
        elif option.default is None and not option.nullable:
            hint = f"--engine {place}{key}=VALUE: {option.meaning}"
            raise UsageError(f"{title}: {place}{key} has no value", hint=hint)
        else:
            found[key] = None if option.type == "section" else option.default
    return found


def _checked_item(name: str, fields: Mapping[str, Option], item: Mapping[str, object], where: str) -> dict[str, object]:
    wrong = next((key for key in item if key not in fields), None)
    if wrong is not None:
        raise ConfigError(f"{where}: " + unknown(f"key of an item of {name}", wrong, fields))
    kept = next((key for key, option in fields.items() if option.secret), None)
    if kept is not None:
        raise ConfigError(f"{where}: {name}: a secret cannot be part of a list", hint=fields[kept].meaning)
    return {
        key: checked(f"{name}: {key}", option, item.get(key, option.default), where) for key, option in fields.items()
    }


def check_declared(spec: Mapping[str, Option], place: str = "") -> None:
    """Checks options as they are declared.

    Raises:
        ConfigError: naming the first that has no known type or no meaning, or whose default does not fit its type.
    """
    for name, option in spec.items():
        key = f"{place}{name}"
        fields = option.fields or {}
        if option.type not in OPTION_TYPES or option.items not in OPTION_TYPES or option.items == "list":
            kind = option.type if option.type != "list" else f"list of {option.items}"
            raise ConfigError(f"{key}: {kind!r} is no type of option")
        if not option.meaning.strip():
            raise ConfigError(f"{key} says nothing of what it means")
        if option.variable is not None and not option.variable.isidentifier():
            raise ConfigError(f"{key}: {option.variable!r} is no name of a variable")
        if ("section" in (option.type, option.items)) != (option.fields is not None):
            raise ConfigError(f"{key}: a section has fields, and nothing else has")
        if option.secret and (option.type != "str" or not (option.default is None or is_reference(option.default))):
            raise ConfigError(f"{key}: a secret is a str whose default is None or {FORMS}")
        if option.items == "section" and any(field.secret for field in fields.values()):
            raise ConfigError(f"{key}: a secret cannot be part of a list")
        check_declared(fields, f"{key}.")
        if option.type != "section" and option.default is not None:  # without one it is compulsory, or null
            checked(key, option, option.default, "its default")


def _resolved(
    option: Option, keys: tuple[str, ...], found: list[_Found], *, environment: bool = True
) -> Iterator[Leaf]:
    """Yields the leaves of an option, given what each section has for it, the one that wins first."""
    if found and found[0].rivals:
        names = " and ".join(sorted(owner.title for owner in found[0].rivals))
        ways = ", ".join(sorted(key_of((owner.slot, owner.qualified_name), keys) for owner in found[0].rivals))
        form = found[0].path[: -len(keys)]
        raise ConfigError(
            f"{key_of(form, keys)} is ambiguous: an option of {names}",
            hint=f"perpetual config unset {key_of(form, keys)}; then set {ways}",
            code="option_ambiguous",
        )
    found = [each for number, each in enumerate(found) if number == 0 or not each.rivals]
    if option.type == "section":
        wrong = next((each for each in found if each.value is not None and not isinstance(each.value, dict)), None)
        if wrong is not None:
            raise ConfigError(f"{'.'.join((PLUGINS, *wrong.path))} must hold keys with values", hint=option.meaning)
        if option.nullable and (found[0].value is None if found else option.default is None):
            first = found[0] if found else None
            yield Leaf(keys, option, None, first.origin if first else "default", first.path if first else None)
            return
        fields = option.fields or {}
        for each in found:
            for key in each.value or ():
                if key not in fields:
                    place = ".".join((PLUGINS, *each.path))
                    raise ConfigError(f"{place}: " + unknown(f"key of {keys[-1]}", key, fields))
        for key, inner in fields.items():
            below = [
                _Found(each.value[key], each.origin, (*each.path, key))
                for each in found
                if isinstance(each.value, dict) and key in each.value
            ]
            yield from _resolved(inner, (*keys, key), below, environment=environment)
        return
    if environment and option.variable and option.variable in os.environ:
        yield Leaf(keys, option, os.environ[option.variable], "environment")
    elif found:
        yield Leaf(keys, option, found[0].value, found[0].origin, found[0].path)
    else:
        yield Leaf(keys, option, option.default, "default")


def _owner_of(offer: Offer) -> Owner:
    return Owner(offer.provider.slot, offer.qualified_name, _names(offer.qualified_name, offer.name),
                 offer.provider.options or {})  # fmt: skip


def _owner_of_plugin(info: PluginInfo) -> Owner:
    return Owner(PLUGIN, info.qualified_name, _names(info.qualified_name, info.name), info.options or {})


def _names(qualified_name: str, name: str) -> tuple[str, ...]:
    return (qualified_name, name) if name != qualified_name else (qualified_name,)
