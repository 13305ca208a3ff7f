"""Chat models by name: any provider that LangChain knows, and any OpenAI-compatible endpoint."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from egg_graph.model_requests import read_requests
from egg_graph.schema import BadInput
from egg_graph.schema.errors import ModelNotLoaded

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PROVIDERS = frozenset(
    {
        "anthropic",
        "anthropic_bedrock",
        "azure_ai",
        "azure_openai",
        "baseten",
        "bedrock",
        "bedrock_converse",
        "bedrock_mantle_anthropic",
        "bedrock_mantle_openai",
        "cohere",
        "deepseek",
        "fireworks",
        "google_anthropic_vertex",
        "google_genai",
        "google_vertexai",
        "groq",
        "huggingface",
        "ibm",
        "langsmith",
        "litellm",
        "meta",
        "mistralai",
        "nvidia",
        "ollama",
        "openai",
        "openrouter",
        "perplexity",
        "together",
        "upstage",
        "xai",
    }
)
"""Providers that `init_chat_model` knows. A name that begins with one of these and a colon goes to that provider."""

_FAMILIES = {
    "claude": "anthropic",
    "command": "cohere",
    "deepseek": "deepseek",
    "gemini": "google_genai",
    "grok": "xai",
    "mistral": "mistralai",
}
"""Whose a bare name is, by its beginning, where no endpoint is set; any other bare name is OpenAI's."""

WAIT = ",wait="
"""Stands before the seconds that a run waits for a file."""

_FINE_TUNED = "ft"
"""Names of fine-tuned OpenAI models begin with `ft:`."""

_OTHER_CREDENTIALS = ("anthropic_bedrock", "azure", "bedrock", "google_anthropic", "google_vertexai")
"""Beginnings of the providers whose libraries find credentials in other places than an API key."""


def load_chat_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    temperature: float | None = None,
    timeout: float | None = None,
) -> "BaseChatModel":
    """Load a chat model by name.

    | name | goes to |
    | --- | --- |
    | `handoff`, `handoff:folder`, `handoff:folder,wait=seconds` | files that another agent, or a person, answers: `HandoffModel` |
    | `replay:folder` | the answers that a run's folder keeps, and no others: `ReplayModel` |
    | `provider:model` with one of `PROVIDERS`, as for LangChain's `init_chat_model` | that provider, and to no other endpoint |
    | `openai:model` | `base_url`, or OPENAI_BASE_URL, or OpenAI |
    | anything else, with `base_url` or OPENAI_BASE_URL | that endpoint, the name as it is |
    | a bare name | the provider that makes such models (`claude-...`, `gemini-...`), otherwise OpenAI |

    Args:
        base_url: an OpenAI-compatible endpoint, e.g. "http://localhost:8000/v1"; with the name of another provider,
            that provider's endpoint.
        api_key: by default, the provider's environment variable. An endpoint of your own needs none.
        temperature: the server's default if None (some models accept no other).
        timeout: seconds of silence after which a request fails. None: in a team those of the run, else the library's.

    The model itself retries nothing (max_retries is 0), because the team does.

    Raises:
        BadInput: if the name is empty or its provider unknown, if the provider's package is not installed, if the URL
            is no http(s) URL, or if there is no key.
    """  # noqa: E501
    kind, _, place = name.strip().partition(":")
    if kind in ("handoff", "replay") and base_url is None:
        return _of_files(name, kind, place, timeout)
    given = {"base_url": base_url, "api_key": api_key, "temperature": temperature, "timeout": timeout}
    options = {"max_retries": 0, **{k: v for k, v in given.items() if v is not None}}
    endpoint = base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or None
    provider, bare = _split(name, endpoint)
    if provider == "openai":
        return _openai(name, bare, endpoint, options)
    return _of_provider(name, provider, bare, options)


def _of_files(name: str, kind: str, place: str, timeout: float | None) -> "BaseChatModel":
    """A model whose answers are files."""
    from egg_graph.agents.handoff import PATIENCE, HandoffModel
    from egg_graph.agents.replay import ReplayModel

    if kind == "handoff":
        folder, asked, seconds = place.partition(WAIT)
        try:
            wait = float(seconds) if asked else None
        except ValueError as error:
            raise ModelNotLoaded(f"model {name!r}: {seconds!r} are no seconds") from error
        return HandoffModel(folder=Path(folder).absolute() if folder else None, timeout=timeout or PATIENCE, wait=wait)
    if not (requests := read_requests(Path(place)) if place else []):
        raise ModelNotLoaded(
            f"model {name!r}: that folder keeps no request; name a run's folder, such as replay:runs/<id>"
        )
    return ReplayModel(requests=requests)


def _split(name: str, endpoint: str | None) -> tuple[str, str]:
    """The provider of a name, and the provider's own name for the model."""
    bare = name.strip()
    prefix, colon, rest = bare.partition(":")
    provider = prefix.lower().replace("-", "_")
    if colon and provider in PROVIDERS:
        bare = rest
    elif endpoint is not None or (colon and prefix == _FINE_TUNED):
        provider = "openai"
    elif colon:
        raise ModelNotLoaded(f"model {name!r}: no provider {prefix!r}; there are {', '.join(sorted(PROVIDERS))}")
    else:
        provider = next((owner for family, owner in _FAMILIES.items() if bare.startswith(family)), "openai")
    if not bare:
        raise BadInput('model: the name is empty; write for example "openai:gpt-5"')
    return provider, bare


def _openai(name: str, bare: str, endpoint: str | None, options: dict[str, Any]) -> "BaseChatModel":
    """A model of OpenAI, or of an endpoint that speaks OpenAI's protocol."""
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise BadInput(f"OPENAI_BASE_URL {endpoint!r}: not an http(s) URL; write for example http://localhost:8000/v1")
    api_key = options.get("api_key") or os.environ.get("OPENAI_API_KEY") or ("EMPTY" if endpoint else None)
    if api_key is None:
        raise ModelNotLoaded(
            f"model {name!r}: OPENAI_API_KEY is not set; set it, or OPENAI_BASE_URL to an endpoint of your own"
        )
    if endpoint is not None:
        # Names such as gpt-5.2-pro would go to /v1/responses, which other servers do not have.
        options = {**options, "base_url": endpoint, "use_responses_api": False}
    # A team watches for silence itself; the library's own watch would end a model that thinks for two minutes.
    options["stream_chunk_timeout"] = None

    from langchain_openai import ChatOpenAI  # imports openai, which `import egg_graph` must not
    from openai import DefaultAsyncHttpxClient

    # A client of its own: the library shares one among all models, with connections that belong to other event loops.
    options["http_async_client"] = DefaultAsyncHttpxClient()

    # Without stream_usage, streaming loses the token counts on such endpoints.
    return ChatOpenAI(model=bare, stream_usage=True, **{**options, "api_key": api_key})


def _of_provider(name: str, provider: str, bare: str, options: dict[str, Any]) -> "BaseChatModel":
    """A model of any other provider."""
    from langchain.chat_models import init_chat_model

    try:
        model: BaseChatModel = init_chat_model(bare, model_provider=provider, **options)
    except Exception as error:  # a missing package is an ImportError, a missing key the provider's own error
        raise ModelNotLoaded(f"model {name!r}: {_first_line(error)}") from error
    keys = {field: variable for field, variable in model.lc_secrets.items() if field.endswith("api_key")}
    if keys and not provider.startswith(_OTHER_CREDENTIALS) and not any(_is_set(model, field) for field in keys):
        raise ModelNotLoaded(f"model {name!r}: {' or '.join(keys.values())} is not set")
    return model


def _is_set(model: "BaseChatModel", field: str) -> bool:
    value: Any = getattr(model, field, None)
    return bool(value.get_secret_value() if isinstance(value, SecretStr) else value)


def _first_line(error: Exception) -> str:
    """What is wrong, in one line; of a pydantic error, the message of its first part."""
    parts = getattr(error, "errors", None)
    text = str(parts()[0]["msg"]).removeprefix("Value error, ") if callable(parts) else str(error)
    return " ".join(text.split()) or type(error).__name__
