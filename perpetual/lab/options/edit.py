"""Options of plugins for `config show`, `config set` and `config unset`, and what is wrong with a file. Floor 2.

`perpetual.lab.options` reads the same sections for the parts that use them, and says which section is whose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from perpetual.config import GUARDED_OPTIONS, PLUGINS, inside, option_forms
from perpetual.errors import ConfigError, UsageError
from perpetual.lab.options import Leaf, Owner, PluginOptions, key_of, leaves_of, own_entries, parsed, settled
from perpetual.slots import Option
from perpetual.toolkit.config_keys import ABSENT, Item
from perpetual.toolkit.reserved import is_bundled
from perpetual.toolkit.secret import FORMS, is_reference

__all__ = ["Change", "Problem", "items", "problems", "references", "set_option", "unset_option"]

_DEAD = "Not used"


class Change(NamedTuple):
    """What a change of an option came to: what this user has accepted by it, and how the option is then in force."""

    accepted: dict[str, object]
    look: Callable[[], Item]


class Problem(NamedTuple):
    """What is wrong with the options in a file; `harms`: whether a part cannot be built for it."""

    key: str
    message: str
    hint: str | None
    harms: bool


class _Dead(NamedTuple):
    """A section or a key of a file that nothing reads; `sharing` are the owners of the section."""

    key: str
    origin: str
    why: str
    sharing: list[Owner]


class _Hit(NamedTuple):
    """An option that a key of the configuration may mean, by one form of its section."""

    form: tuple[str, ...]
    owner: Owner
    keys: tuple[str, ...]
    option: Option


# --- shown ------------------------------------------------------------------------------------------------------


def items(options: PluginOptions) -> list[Item]:
    """Returns every option with its value, origin and meaning, and each entry of a file that nothing reads.

    A secret is shown by its reference; one that is written out is not shown.
    """
    found: list[Item] = []
    for owner in options.owners:
        if owner.spec:
            found += _items_of(options, owner)
    dead = [Item(each.key, None, each.origin, f"{_DEAD}: {each.why}.") for each in _dead(options)]
    return [*sorted(found, key=lambda item: item.key), *dead]


def _items_of(options: PluginOptions, owner: Owner) -> Iterator[Item]:
    try:
        leaves = [*options.leaves(owner)]
    except ConfigError as problem:
        for keys, option in leaves_of(owner.spec):
            yield Item(
                _shown_key(options, owner, keys), option.default, "default", f"{option.meaning} ({problem.message})"
            )
        return
    for leaf in leaves:
        yield _item(options, owner, leaf)


def _item(options: PluginOptions, owner: Owner, leaf: Leaf, key: str | None = None) -> Item:
    value, origin, meaning = leaf.value, leaf.origin, leaf.option.meaning
    shown = key or _shown_key(options, owner, leaf.keys)
    if leaf.option.secret and value is not None:
        if origin == "environment":
            value = f"env:{leaf.option.variable}"
        elif not is_reference(value):
            value, meaning = None, f"{meaning} (a secret is written out in the file; it is not shown)"
        elif origin == "project" and leaf.path is not None and not options.config.accepts(leaf.path, value):
            origin = "held"
    elif origin == "environment":
        try:
            value = parsed(shown, leaf.option, value, leaf.option.variable or "")
        except ConfigError as problem:
            meaning = f"{meaning} ({problem.message})"
    if _guarded_key(owner, leaf.keys) in options.config.held:
        origin = "held"
    return Item(shown, value, origin, meaning)


def _shown_key(options: PluginOptions, owner: Owner, keys: tuple[str, ...]) -> str:
    """Returns the shortest key that means an option of this owner alone."""
    bare = owner.names[-1]
    for form in ((bare,), (owner.slot, bare)):
        is_cut = len(form) == 1 and (bare == "disabled" or (len(keys) > 1 and bare in options.slots))
        if not is_cut and options.meant(form, keys[0]) == [owner]:
            return key_of(form, keys)
    return key_of((owner.slot, owner.qualified_name), keys)


def _dead(options: PluginOptions) -> Iterator[_Dead]:
    """Yields each section that no provider or plugin reads, and each key that none has."""
    slots = options.slots
    for origin, data in options.config.sections.items():
        for name, section in data.items():
            inner = {key: value for key, value in section.items() if isinstance(value, dict)} if name in slots else {}
            for key, entries in inner.items():
                yield from _dead_keys(options, origin, (name, key), entries, f"no {name} {key} is loaded")
            own = own_entries(section) if name in slots else section
            if own or not inner:
                yield from _dead_keys(options, origin, (name,), own, f"no provider or plugin {name} is loaded")


def _dead_keys(
    options: PluginOptions, origin: str, form: tuple[str, ...], entries: dict[str, object], why: str
) -> Iterator[_Dead]:
    sharing = options.sharing(form)
    if not sharing:
        yield _Dead(key_of(form, ()), origin, why, sharing)
        return
    for key in entries:
        if not any(key in owner.spec for owner in sharing):
            why = f"{' and '.join(owner.title for owner in sharing)} has no such option"
            yield _Dead(key_of(form, (key,)), origin, why, sharing)


def problems(options: PluginOptions) -> list[Problem]:
    """Returns what is wrong with the options in the files: what a part would be refused for, and dead sections."""
    found: dict[str, Problem] = {}
    refused = []
    for owner in options.owners:
        if not any(options.sections(owner)):
            continue
        try:
            options.values(owner)
        except ConfigError as problem:
            found[problem.message] = Problem(owner.title, problem.message, problem.hint, True)
            refused.append(owner)
    for each in _dead(options):
        if any(owner in refused for owner in each.sharing):
            continue  # the owner's own error names the key
        is_own = each.origin == "project"
        hint = f"perpetual config unset {each.key}" if is_own else "take it out of your own config.yaml"
        found[each.key] = Problem(each.key, f"{each.key} is not used: {each.why}", hint, False)
    return [*found.values()]


def references(options: PluginOptions) -> dict[str, str]:
    """Returns the references to secrets in the project's file that do not count: `{config.KEY: reference}`."""
    found: dict[str, str] = {}
    if not options.config.sections.get("project"):
        return found
    for owner in options.owners:
        if not any(option.secret for _, option in leaves_of(owner.spec)):
            continue
        try:
            leaves = [*options.leaves(owner)]
        except ConfigError:
            continue  # it cannot be used as it is, and the doctor says why
        for leaf in leaves:
            is_of_project = leaf.option.secret and leaf.origin == "project" and leaf.path is not None
            if is_of_project and is_reference(leaf.value) and not options.config.accepts(leaf.path or (), leaf.value):
                found[f"config.{key_of(leaf.path or (), ())}"] = leaf.value
    return found


# --- changed ----------------------------------------------------------------------------------------------------


def set_option(options: PluginOptions, name: str, text: str) -> Change:
    """Writes an option of a provider or a plugin, given as text, into the project's file.

    Raises:
        UsageError: for a key that is no option of what is loaded, one that two providers have, and a secret that is
            written out.
        ConfigError: for a value that does not fit.
    """
    hit = _one(options, name, _hits(options, name))
    if hit is None:
        raise _unknown(options, name)
    _, owner, keys, option = hit
    if option.secret and not (option.nullable and text == "null") and not is_reference(text):
        raise UsageError(f"{name} is a secret: the file takes where it is kept, not the secret", hint=FORMS)
    value = parsed(name, option, text, "config.yaml")
    form = _written_form(options, hit)
    options.config.write((PLUGINS, *form, *keys), value)
    _clear(options, owner, keys, but=form)  # another form might win over the one that was just written
    accepted = {f"config.{key_of(form, keys)}": value} if option.secret else {}
    if guarded := _guarded_key(owner, keys):
        accepted[f"config.{guarded}"] = value
    return Change(accepted, lambda: _in_force(options, owner, keys, name))


def unset_option(options: PluginOptions, name: str) -> Change:
    """Takes an option out of the project's file, in whichever form it is there; also a section that nothing reads.

    Raises:
        UsageError: for a key that is neither in the file nor an option of what is loaded, and for one that two
            providers have and the file does not hold.
    """
    section = options.config.sections.get("project", {})
    path = next(_paths(section, name.removeprefix(f"{PLUGINS}.")), None)
    hits = _hits(options, name)
    hit = _one(options, name, hits) if path is None or len(settled([each.owner for each in hits])) == 1 else None
    if path is None and hit is None:
        raise _unknown(options, name)
    before = {key_of(each, ()): value for each, value in _values(section)}
    if path is not None:
        options.config.remove((PLUGINS, *path))
    if hit is not None:
        _clear(options, hit.owner, hit.keys)
    after = {key_of(each, ()) for each, _ in _values(options.config.sections.get("project", {}))}
    accepted: dict[str, object] = {
        f"config.{key}": None for key, value in before.items() if key not in after and is_reference(value)
    }
    protections = options.config.protections()
    for (_, bundled), keys in GUARDED_OPTIONS.items():
        lists = [f"config.{PLUGINS}.{bundled}.{key}" for key in keys]
        accepted |= {key: [] for key in lists if key not in protections}
    gone = Item(name, None, "default", "It is not in the file.")
    return Change(accepted, lambda: gone if hit is None else _in_force(options, hit.owner, hit.keys, name))


def _hits(options: PluginOptions, name: str) -> list[_Hit]:
    """Returns the options that a key may mean; the full form wins over the short one."""
    found: list[_Hit] = []
    for owner in options.owners:
        for form in option_forms(owner.slot, owner.names):
            prefix = key_of(form, ("",))
            if name.startswith(prefix):
                found += [
                    _Hit(form, owner, keys, option)
                    for keys, option in leaves_of(owner.spec)
                    if ".".join(keys) == name.removeprefix(prefix)
                ]
    return [hit for hit in found if len(hit.form) > 1] or found


def _one(options: PluginOptions, name: str, hits: Sequence[_Hit]) -> _Hit | None:
    """Returns the one option that a key means, None if it means none; raises UsageError if it means two."""
    owners = settled([hit.owner for hit in hits])
    if len(owners) > 1:
        ways = sorted({_full_key(options, hit) for hit in hits})
        titles = " and ".join(sorted({f"{owner.slot} {owner.qualified_name}" for owner in owners}))
        raise UsageError(
            f"{name} is ambiguous: an option of {titles}",
            hint=f"write {' or '.join(ways)}",
            code="option_ambiguous",
        )
    return next((hit for hit in hits if hit.owner in owners), None)


def _full_key(options: PluginOptions, hit: _Hit) -> str:
    form = (hit.owner.slot, hit.owner.names[-1])
    is_one = options.meant(form, hit.keys[0]) == [hit.owner]
    return key_of(form if is_one else (hit.owner.slot, hit.owner.qualified_name), hit.keys)


def _written_form(options: PluginOptions, hit: _Hit) -> tuple[str, ...]:
    """Returns the section in which an option is written: the one that was named, unless it would be read otherwise."""
    if len(hit.form) > 1 or (hit.form[0] != "disabled" and (len(hit.keys) == 1 or hit.form[0] not in options.slots)):
        return hit.form
    bare = (hit.owner.slot, hit.owner.names[-1])
    return bare if options.meant(bare, hit.keys[0]) == [hit.owner] else (hit.owner.slot, hit.owner.qualified_name)


def _clear(options: PluginOptions, owner: Owner, keys: tuple[str, ...], but: tuple[str, ...] | None = None) -> None:
    """Takes an option out of every section of the project's file that gives it to this owner alone."""
    slots = options.slots
    for form in option_forms(owner.slot, owner.names):
        section = options.config.sections.get("project", {})
        is_read = not (len(form) == 1 and form[0] in slots and len(keys) > 1)
        is_there = is_read and inside(section, (*form, *keys)) is not ABSENT
        if form != but and is_there and options.meant(form, keys[0]) == [owner]:
            options.config.remove((PLUGINS, *form, *keys))


def _in_force(options: PluginOptions, owner: Owner, keys: tuple[str, ...], name: str) -> Item:
    try:
        leaves = [*options.leaves(owner)]
    except ConfigError as problem:
        return Item(name, None, "project", problem.message)
    found = next((leaf for leaf in leaves if leaf.keys == keys[: len(leaf.keys)]), None)
    return Item(name, None, "default", "") if found is None else _item(options, owner, found, name)


def _guarded_key(owner: Owner, keys: tuple[str, ...]) -> str | None:
    """Returns the key by which an option is guarded, None if it protects nothing."""
    bare = owner.names[-1]
    if not is_bundled(owner.qualified_name) or keys[0] not in GUARDED_OPTIONS.get((owner.slot, bare), ()):
        return None
    return key_of((bare,), keys)


def _unknown(options: PluginOptions, name: str) -> UsageError:
    known = [_shown_key(options, owner, keys) for owner in options.owners for keys, _ in leaves_of(owner.spec)]
    return options.config.unknown_key(name, known)


def _paths(section: object, dotted: str) -> Iterator[tuple[str, ...]]:
    """Yields the paths of a section whose keys, joined by dots, are `dotted`: keys may have dots of their own."""
    for key, value in section.items() if isinstance(section, dict) else ():
        if key == dotted:
            yield (key,)
        elif dotted.startswith(f"{key}."):
            yield from ((key, *rest) for rest in _paths(value, dotted[len(key) + 1 :]))


def _values(section: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in section.items() if isinstance(section, dict) else ():
        if isinstance(value, dict):
            yield from _values(value, (*path, key))
        else:
            yield (*path, key), value
