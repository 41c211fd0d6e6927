"""The table of providers of models: their keys, their addresses, and the packages that speak to them. Light."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from perpetual.api import unknown
from perpetual_agents.model import ModelUnavailable

__all__ = ["PROVIDERS", "STAND_IN", "Address", "ModelProvider", "address", "full_name", "problem_of", "split"]

STAND_IN = "test"  # the provider whose models are stand-ins
_ENGINE = "pydantic_ai"
_EXTRA = "agents"
_LONGEST_NAME = 300
_OLLAMA = "ollama"
_BOTH = ("mistral",)  # providers whose name is also that of a model of Ollama: `mistral:7b`
# What Ollama writes behind a name: 1.7b, 4b-instruct-q4_K_M, 8x7b, 135m, latest, e4b.
_SIZE = re.compile(r"\A(?:latest|cloud|[a-z]?\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bmt](?:-[\w.-]+)?|\d[\w.]*-cloud)\Z",
                   re.IGNORECASE | re.ASCII)  # fmt: skip
_MODEL = re.compile(r"\A[\w][\w./:@+-]*\Z", re.ASCII)
_LOCAL_NAME = re.compile(r"\A[\w][\w./-]*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """One provider.

    - `name`: as in `name:model`.
    - `keys`: variables that hold its key; the first that is set counts. None are needed where it has none.
    - `bases`: variables that hold another address; the first that is set counts.
    - `url`: its own address.
    - `package`: the Python package that speaks to it, `extra` the extra of ours that installs it.
    """

    name: str
    keys: tuple[str, ...]
    bases: tuple[str, ...]
    url: str
    package: str = "openai"
    extra: str = _EXTRA

    @property
    def needs_key(self) -> bool:
        """Returns whether its own address takes no request without a key."""
        return self.name != _OLLAMA


def _provider(name: str, url: str, key: str, *more: str, package: str = "openai", extra: str = _EXTRA,
              bases: tuple[str, ...] = ()) -> ModelProvider:  # fmt: skip
    own = f"{name.upper()}_BASE_URL"
    return ModelProvider(name, (key, *more), (own, *bases), url, package, extra)


PROVIDERS: Mapping[str, ModelProvider] = {one.name: one for one in (
    _provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    _provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _provider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    _provider(_OLLAMA, "http://127.0.0.1:11434/v1", "OLLAMA_API_KEY"),
    _provider("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
    _provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _provider("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _provider("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _provider("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    _provider("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    _provider("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", package="anthropic",
              extra="agents-anthropic"),
    _provider("google", "https://generativelanguage.googleapis.com", "GOOGLE_API_KEY", "GEMINI_API_KEY",
              package="google.genai", extra="agents-google", bases=("GOOGLE_GEMINI_BASE_URL",)),
)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """Where a provider is reached and by what key, as the environment says now; `is_own` unless a variable moved it."""

    url: str
    key: str | None
    is_own: bool

    def __repr__(self) -> str:
        return f"Address({self.url!r}, key={'set' if self.key else 'not set'})"


def address(provider: ModelProvider) -> Address:
    """Returns where a provider is reached. Reads the environment and contacts nothing."""
    moved = next((found for name in provider.bases if (found := os.environ.get(name, "").strip())), None)
    key = next((found for name in provider.keys if (found := os.environ.get(name, "").strip())), None)
    url = (moved or provider.url).rstrip("/")
    if provider.name == _OLLAMA and not urlsplit(url).path:
        url += "/v1"  # OLLAMA_BASE_URL is written with it and without
    return Address(url, key, moved is None)


def full_name(model: str) -> tuple[str, str | None]:
    """Returns the full name of a model, and a note where its provider was a guess.

    A name without a provider that ends with a size, such as `qwen3:1.7b`, is one of Ollama.
    """
    prefix, colon, rest = model.partition(":")
    if colon and (prefix == STAND_IN or prefix in PROVIDERS) and not (prefix in _BOTH and _SIZE.match(rest)):
        return model, None
    if colon and _LOCAL_NAME.match(prefix) and _SIZE.match(rest):
        full = f"{_OLLAMA}:{model}"
        return full, f"{model} ends with a size and names no provider, so it is taken for {full}"
    return model, None


def split(model: str) -> tuple[str, str]:
    """Returns the provider and the model's own name. Raises ModelUnavailable for a name that no provider has."""
    known = ", ".join(PROVIDERS)
    full, _ = full_name(model)
    prefix, colon, rest = full.partition(":")
    if len(model) > _LONGEST_NAME or not _MODEL.match(full):
        raise ModelUnavailable(
            f"{model[:60]!r} cannot be a model's name", hint="provider:name, such as ollama:qwen3:4b"
        )
    if not colon or not (prefix == STAND_IN or prefix in PROVIDERS):
        near = unknown("provider of models", prefix, PROVIDERS) if colon else f"{model!r} names no provider"
        raise ModelUnavailable(near, hint=f"provider:name, where the provider is one of {known}")
    if not rest and prefix != STAND_IN:
        raise ModelUnavailable(f"{full!r} names no model", hint=f"{prefix}:NAME")
    return prefix, rest


def problem_of(model: str) -> ModelUnavailable | None:
    """Returns why a model could not be asked: no such provider, no package, no key. Contacts and imports nothing."""
    try:
        name, _ = split(model)
    except ModelUnavailable as problem:
        return problem
    if name == STAND_IN:
        return None
    provider = PROVIDERS[name]
    for package, extra in ((_ENGINE, _EXTRA), (provider.package, provider.extra)):
        if not _is_installed(package):
            return ModelUnavailable(f"{name} needs the package {package.replace('.', '-')}, which is not installed",
                                    hint=f"pip install 'perpetual-lab[{extra}]'")  # fmt: skip
    found = address(provider)
    if urlsplit(found.url).scheme not in ("http", "https") or not urlsplit(found.url).hostname:
        moved = next(name for name in provider.bases if os.environ.get(name, "").strip())
        return ModelUnavailable(f"{moved} is no address", hint="http://HOST:PORT/v1")
    if found.key is None and found.is_own and provider.needs_key:
        return ModelUnavailable(f"{provider.keys[0]} is not set, and {name} takes no request without a key",
                                hint=f"export {provider.keys[0]}=..., or a model of ollama")  # fmt: skip
    return None


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # the parent of a nested one is not there
        return False
