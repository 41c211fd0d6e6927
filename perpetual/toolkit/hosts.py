"""The identity of this machine, by which a run on another one that shares the folder is recognised.

A boot id alone cannot say it: another boot id is a reboot on the same machine, and nothing at all on another one.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import NamedTuple

from perpetual.toolkit import platform

__all__ = ["HOST_VARIABLE", "Host", "is_loopback", "this_host"]

HOST_VARIABLE = "PERPETUAL_HOST_ID"
_PLACES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class Host(NamedTuple):
    """One machine: an id that stays over its boots, as a digest, since machine ids are confidential; and its name."""

    id: str
    name: str


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine by its name or its address alone."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def this_host() -> Host:
    """Returns the machine that this process runs on.

    The environment variable PERPETUAL_HOST_ID overrides the id. It exists so that tests can play another machine, and
    for machines that were cloned with their machine id.
    """
    return Host(_digest(os.environ.get(HOST_VARIABLE) or _machine_id()), platform.host_name() or "this machine")


@lru_cache(maxsize=1)
def _machine_id() -> str:
    for path in _PLACES:
        try:
            with open(path, encoding="ascii") as file:
                found = file.read(200).strip()
        except (OSError, ValueError):
            continue
        if found and found != "uninitialized":
            return found
    return f"name:{platform.host_name()}"  # of a container, which has none: at least its name is its own


@lru_cache(maxsize=8)
def _digest(words: str) -> str:
    from hashlib import sha256

    return sha256(f"perpetual host\n{words}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
