"""What asks a model through pydantic-ai. Imported where a model is asked, as it is heavy: see `pydantic_backend`."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx2
from pydantic import ValidationError
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from perpetual.toolkit.fence import neutralise
from perpetual_agents.model import ModelError, ModelReply, ModelUnavailable
from perpetual_agents.pydantic_messages import BadCall, as_raw, bare_json, calls_of, to_engine, with_own_ids

if TYPE_CHECKING:
    from perpetual_agents.model import ModelRequest, Say
    from perpetual_agents.providers import Address, ModelProvider

__all__ = ["ask", "client", "failure", "model_of"]

_NO_KEY = "none"  # a server of one's own takes any; the client refuses to be made without one
_CONNECTS_S, _CLOSES_S = 10.0, 1.0
_CERTIFICATES = httpx2.create_ssl_context()  # costs more than all else of a client
_MOST_TEXT = 1_000_000  # characters of a reply
_LONGEST_REASON = 400
_LONGEST_WAIT_S = 24 * 3600.0
_SECRET = re.compile(r"(?i)\b(?:sk|gsk|hf|pk|csk|fw|tgp|xai|key|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{8,}|\bBearer\s+\S+")
_DETAIL = re.compile(r" \[type=[^\n]*(?:\n +For further information[^\n]*)?")  # of pydantic, for its own developers
# Those that know the limit of a reply by its older name, `max_tokens`, and would take no notice of the newer one.
_OLDER_LIMIT = ("ollama", "huggingface", "together", "fireworks", "mistral")
_NOT_STRICT = ("groq", "huggingface", "mistral")  # their servers know no strict schemas of tools
_TRANSIENT_STATUS = (408, 409, 425, 429)
_PERMANENT = (exceptions.ModelRequestRejectedError, exceptions.ModelQuotaExceededError)


@asynccontextmanager
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    """Yields a client of HTTP for one request, and closes its connections in any case, also where it was cancelled."""
    opened = httpx2.AsyncClient(verify=_CERTIFICATES, timeout=httpx2.Timeout(None, connect=_CONNECTS_S))
    try:
        yield opened
    finally:
        with anyio.move_on_after(_CLOSES_S, shield=True):
            await opened.aclose()


def model_of(provider: ModelProvider, name: str, found: Address, client: httpx2.AsyncClient) -> Model:
    """Returns the engine's model of a name, which neither reads the environment nor tries again by itself."""
    key = found.key or _NO_KEY
    if provider.name == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(name, provider=AnthropicProvider(api_key=key, base_url=found.url, http_client=client))
    if provider.name == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(name, provider=GoogleProvider(api_key=key, base_url=found.url, http_client=client))
    return _over_openai(provider.name, name, found.url, key, client)


def _over_openai(provider: str, name: str, url: str, key: str, client: httpx2.AsyncClient) -> Model:
    """Returns a model behind the chat API that OpenAI has begun with and the others have taken over."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.mistral import mistral_model_profile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    speaks = AsyncOpenAI(base_url=url, api_key=key, http_client=client, max_retries=0)
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)  # a stream without one was cut
    if provider in _OLDER_LIMIT:
        profile["openai_chat_supports_max_completion_tokens"] = False
    if provider in _NOT_STRICT:
        profile["openai_supports_strict_tool_definition"] = False
    if provider == "openai":
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=speaks), profile=profile)
    speaks.organization = speaks.project = None  # those of OpenAI concern no other provider
    if provider == "ollama":
        from pydantic_ai.models.ollama import OllamaModel
        from pydantic_ai.providers.ollama import OllamaProvider

        if name.endswith("-cloud") or (urlsplit(url).hostname or "").endswith("ollama.com"):
            profile["supports_json_schema_output"] = False  # it takes a schema there, and does not hold it
        return OllamaModel(name, provider=OllamaProvider(openai_client=speaks), profile=profile)
    if provider == "openrouter":
        from pydantic_ai.models.openrouter import OpenRouterModel
        from pydantic_ai.providers.openrouter import OpenRouterProvider

        return OpenRouterModel(name, provider=OpenRouterProvider(openai_client=speaks), profile=profile)
    if provider == "cerebras":
        from pydantic_ai.models.cerebras import CerebrasModel
        from pydantic_ai.providers.cerebras import CerebrasProvider

        return CerebrasModel(name, provider=CerebrasProvider(openai_client=speaks), profile=profile)
    if provider == "deepseek":
        from pydantic_ai.providers.deepseek import DeepSeekProvider

        return OpenAIChatModel(name, provider=DeepSeekProvider(openai_client=speaks), profile=profile)
    if provider == "together":
        from pydantic_ai.providers.together import TogetherProvider

        return OpenAIChatModel(name, provider=TogetherProvider(openai_client=speaks), profile=profile)
    if provider == "fireworks":
        from pydantic_ai.providers.fireworks import FireworksProvider

        return OpenAIChatModel(name, provider=FireworksProvider(openai_client=speaks), profile=profile)
    by_vendor = mistral_model_profile(name) if provider == "mistral" else None  # it says which ids of calls it takes
    return OpenAIChatModel(name, provider=OpenAICompatibleProvider(provider, openai_client=speaks),
                           profile=merge_profile(by_vendor, profile))  # fmt: skip


async def ask(model: Model, request: ModelRequest, say: Say | None, *, is_priced: bool = False) -> ModelReply:
    """Sends a request once, and returns the reply. Raises what the engine raises; see `failure`.

    Args:
        is_priced: whether the price list of the model's provider holds.
    """
    settings = ModelSettings(max_tokens=request.max_tokens, timeout=request.timeout_s, max_retries=0,
                             extra_headers={"Idempotency-Key": request.key})  # fmt: skip
    parameters = _parameters(model, request)
    messages = to_engine(request.messages)
    if say is None:
        response = await model_request(model, messages, model_settings=settings, model_request_parameters=parameters,
                                       instrument=False)  # fmt: skip
    else:
        response = await _streamed(model, messages, settings, parameters, say)
    return _reply(with_own_ids(response), request, is_priced)


def _parameters(model: Model, request: ModelRequest) -> ModelRequestParameters:
    tools = [ToolDefinition(name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description)
             for tool in request.tools]  # fmt: skip
    instructions = [InstructionPart(content=request.system)] if request.system else None
    if request.output is None:
        return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)
    shape = OutputObjectDefinition(json_schema=dict(request.output), name="answer")
    is_native = model.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions, output_object=shape,
                                  output_mode="native" if is_native else "prompted")  # fmt: skip


async def _streamed(
    model: Model, messages: Sequence[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters,
    say: Say,
) -> ModelResponse:  # fmt: skip
    length = 0
    async with model_request_stream(model, messages, model_settings=settings, model_request_parameters=parameters,
                                    instrument=False) as stream:  # fmt: skip
        async for event in stream:
            piece = ""
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                piece = event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                piece = event.delta.content_delta
            length += len(piece)
            if length > _MOST_TEXT:
                raise ModelError(f"the reply is longer than {_MOST_TEXT:,} characters", code="reply_too_long")
            if piece:
                say(piece)
        return stream.get()


def _reply(response: ModelResponse, request: ModelRequest, is_priced: bool) -> ModelReply:
    """Returns our form of a reply. Raises ModelError for one that was cut at its limit or that a filter has stopped."""
    text = response.text or ""
    if response.finish_reason == "content_filter":
        said = neutralise((response.provider_details or {}).get("refusal") or "the provider's filter", 200)
        raise ModelError(f"the model refuses to answer: {said}", code="model_refused")
    try:
        calls = calls_of(response)
    except BadCall as problem:
        if response.finish_reason == "length":
            raise _cut(request) from problem
        raise
    if response.finish_reason == "length" and (request.output is not None or not (text or calls)):
        raise _cut(request)
    if len(text) > _MOST_TEXT:
        raise ModelError(f"the reply is longer than {_MOST_TEXT:,} characters", code="reply_too_long")
    usage = response.usage
    is_counted = usage.has_values() and not usage.unmeasured_requests
    return ModelReply(
        text=text if request.output is None else bare_json(text), calls=calls,
        tokens_in=usage.input_tokens if is_counted else None, tokens_out=usage.output_tokens if is_counted else None,
        usd=_price(response) if is_priced else None, model=neutralise(response.model_name or request.model, 200),
        raw=as_raw(response),
    )  # fmt: skip


def _cut(request: ModelRequest) -> ModelError:
    return ModelError(f"the reply was cut at its limit of {request.max_tokens} tokens",
                      hint="raise max_tokens of the agent", code="reply_cut")  # fmt: skip


def _price(response: ModelResponse) -> float | None:
    """Returns US dollars: what the provider says, else by the price list that came with the engine."""
    price = (response.provider_details or {}).get("cost")
    if price is None:
        try:
            price = float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError, TypeError):
            return None
    is_price = isinstance(price, int | float) and not isinstance(price, bool) and math.isfinite(price) and price >= 0
    return float(price) if is_price else None


def failure(problem: Exception, provider: str, *, key: str | None, variable: str | None) -> ModelError:
    """Returns our one error for whatever went wrong, without the key.

    Args:
        problem: what was raised.
        provider: its name.
        key: the key that was sent.
        variable: the variable that holds it.
    """
    if isinstance(problem, ModelError):
        return problem
    if isinstance(problem, exceptions.ModelHTTPError):
        return _of_status(problem, provider, key, variable)
    words = _shown(problem, key)
    if isinstance(problem, exceptions.UserError | ImportError):
        return ModelUnavailable(f"{provider}: {words}")
    if isinstance(problem, TimeoutError | exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout):
        return ModelError(f"{provider} did not answer in time", is_transient=True, code="model_timeout")
    if isinstance(problem, exceptions.ModelConnectionError | httpx2.TransportError):
        return ModelError(f"{provider} cannot be reached, or the connection broke: {words}", is_transient=True,
                          retry_after_s=_wait(getattr(problem, "retry_after", None)),
                          hint="start it: ollama serve" if provider == "ollama" else None)  # fmt: skip
    if isinstance(problem, exceptions.ModelAPIError):
        return ModelError(f"{provider}: {words}", is_transient=not isinstance(problem, _PERMANENT),
                          retry_after_s=_wait(problem.retry_after))  # fmt: skip
    if isinstance(problem, exceptions.ContentFilterError):
        return ModelError(f"{provider} refuses: {words}", code="model_refused")
    bad = (exceptions.UnexpectedModelBehavior, ValidationError, BadCall, ValueError, LookupError, httpx2.HTTPError)
    if isinstance(problem, bad):
        return ModelError(f"{provider} sent what cannot be read: {words}", is_transient=True, code="bad_reply")
    return ModelError(f"{provider}: {type(problem).__name__}: {words}")


def _of_status(problem: exceptions.ModelHTTPError, provider: str, key: str | None, variable: str | None) -> ModelError:
    status = problem.status_code
    permanent = isinstance(problem, _PERMANENT)
    body = problem.body
    inner = body.get("error", body) if isinstance(body, dict) else body
    said = inner.get("message", inner) if isinstance(inner, dict) else inner
    words = _shown(said or "", key)
    hint = None
    if isinstance(problem, exceptions.ModelAuthenticationError):
        hint = f"check {variable}" if variable else None
    elif isinstance(problem, exceptions.ModelNotFoundError):
        hint = f"ollama pull {problem.model_name}" if provider == "ollama" else "check the model's name"
    elif isinstance(problem, exceptions.ModelQuotaExceededError):
        hint = f"the account at {provider} has no credit left"
    elif isinstance(problem, exceptions.ModelContextWindowExceededError):
        hint = "a smaller window: perpetual agent set AGENT window=N"
    return ModelError(
        f"{provider} answered {status}: {words}" if words else f"{provider} answered {status}", hint=hint,
        is_transient=not permanent and (status in _TRANSIENT_STATUS or status >= 500),
        retry_after_s=_wait(problem.retry_after),
    )  # fmt: skip


def _wait(seconds: object) -> float | None:
    """Returns how long a provider asks to wait; None for what is no time, such as a negative one."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(float(seconds), _LONGEST_WAIT_S)


def _shown(problem: object, key: str | None) -> str:
    """Returns words on one printable line, without the key that was sent and without what looks like one."""
    text = " ".join(_DETAIL.sub("", str(problem)[: 8 * _LONGEST_REASON]).split())
    if key:
        text = text.replace(key, "[key]")
    return neutralise(_SECRET.sub("[key]", text), _LONGEST_REASON)
