"""Chat models by name: OpenAI, and any OpenAI-compatible endpoint."""

import os
from typing import TYPE_CHECKING, Any

from egg_graph.schema import BadInput

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_OTHER_PROVIDERS = (
    "anthropic:",
    "azure_openai:",
    "bedrock:",
    "cohere:",
    "deepseek:",
    "google_genai:",
    "google_vertexai:",
    "groq:",
    "huggingface:",
    "mistralai:",
    "ollama:",
    "together:",
    "xai:",
)


def load_chat_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    temperature: float | None = None,
    timeout: float = 120.0,
) -> "BaseChatModel":
    """A chat model for "openai:gpt-5", a bare name, or whatever name an OpenAI-compatible endpoint knows.

    Args:
        base_url: the endpoint, e.g. "http://localhost:8000/v1"; OPENAI_BASE_URL by default, without it OpenAI's own.
        api_key: OPENAI_API_KEY by default. An endpoint of your own needs none.
        temperature: the server's default if None (some models accept no other).
        timeout: seconds that one request may take.

    The model itself retries nothing (max_retries is 0), because the graph's retry policy does.

    Raises:
        BadInput: if the name is empty or another provider's, if the URL is no http(s) URL, or if there is no key.
    """
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or None
    bare = name.strip().removeprefix("openai:")
    if not bare:
        raise BadInput('model: the name is empty; write for example "openai:gpt-5"')
    if base_url is None and bare.startswith(_OTHER_PROVIDERS):
        provider = bare.partition(":")[0]
        raise BadInput(f"model {name!r}: only OpenAI's go by name; pass the {provider} chat model itself")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise BadInput(f"OPENAI_BASE_URL {base_url!r}: not an http(s) URL; write for example http://localhost:8000/v1")
    api_key = api_key or os.environ.get("OPENAI_API_KEY") or ("EMPTY" if base_url else None)
    if api_key is None:
        raise BadInput(
            f"model {name!r}: OPENAI_API_KEY is not set; set it, or OPENAI_BASE_URL to an endpoint of your own"
        )

    from langchain_openai import ChatOpenAI  # imports openai, which `import egg_graph` must not

    options: dict[str, Any] = {}
    if base_url is not None:
        # Names such as gpt-5.2-pro would go to /v1/responses, which other servers do not have.
        options |= {"base_url": base_url, "use_responses_api": False}
    return ChatOpenAI(
        model=bare,
        api_key=api_key,  # type: ignore[arg-type]
        temperature=temperature,
        timeout=timeout,
        max_retries=0,
        stream_usage=True,  # else streaming loses the token counts on such endpoints
        **options,
    )
