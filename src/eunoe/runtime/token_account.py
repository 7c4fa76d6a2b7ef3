"""How many tokens a request takes of the window, and when that is too many (pure).

The provider's own count of the last request is the anchor; what was added since is estimated at four bytes a token.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from eunoe.models.protocol import ModelInfo, ModelRequest
from eunoe.models.settings import read_settings
from eunoe.prompt.tokens import estimate_tokens
from eunoe.state.messages import ImagePart, Message
from eunoe.state.tools import ToolSchema

IMAGE_TOKENS: Final = 1_000
"""What an image is taken to cost; vendors charge from 85 to about 1,600 tokens."""


def message_tokens(message: Message) -> int:
    """Estimate the tokens of one message: its texts, calls, returns and images."""
    total = estimate_tokens(message.text)
    total += sum(estimate_tokens(call.name + call.arguments) for call in message.tool_calls)
    total += sum(estimate_tokens(returned.content) for returned in message.tool_returns)
    return total + IMAGE_TOKENS * sum(isinstance(part, ImagePart) for part in message.parts)


def window_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of several messages."""
    return sum(map(message_tokens, messages))


def fixed_tokens(system: str, tools: Sequence[ToolSchema]) -> int:
    """Estimate what every request carries whatever was said: the system text and the tool definitions."""
    return estimate_tokens(system) + (estimate_tokens(msgspec.json.encode(tools).decode()) if tools else 0)


def estimate_request(request: ModelRequest, context_tokens: int | None = None) -> int:
    """Estimate the tokens of a request.

    ``context_tokens`` is what the provider counted for the last request of this window together with its answer, which
    is the window's last assistant message; then only what follows that message is estimated. Without it everything is.
    """
    if context_tokens:
        answered = max((i for i, message in enumerate(request.messages) if message.role == "assistant"), default=None)
        if answered is not None:
            return context_tokens + window_tokens(request.messages[answered + 1 :])
    return fixed_tokens(request.system, request.tools) + window_tokens(request.messages)


def reserve_for(request: ModelRequest) -> int:
    """Return the tokens of the window that are kept free for the answer.

    A tenth of the window, or more when longer answers are asked for or are the model's habit, but never above half of
    it: some models may fill their whole window with one answer. Raises ``InvalidInput`` for settings that are not
    valid.
    """
    return answer_reserve(request.model, read_settings(request.settings).max_output_tokens)


def answer_reserve(model: ModelInfo, max_output_tokens: int | None) -> int:
    """Return the reserve in a model's window for an answer of at most so many tokens; see ``reserve_for``."""
    window = model.context_window
    longest = max_output_tokens or model.max_output_tokens or 0
    return max(window // 10, min(longest, window // 2))


def due(estimate: int, window: int, reserve: int) -> bool:
    """Say whether a request of so many tokens leaves less than the reserve. A window of 0 is unknown: never due."""
    return window > 0 and estimate + reserve > window
