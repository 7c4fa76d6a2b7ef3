"""The user's model settings, read out of the wire's form.

What is not named stays ``None`` and is left to the provider.
"""

from typing import Any, Literal

from msgspec import Struct, ValidationError, convert

from eunoe.state.errors import InvalidInput


class Reasoning(Struct, frozen=True, kw_only=True):
    """How hard a model of OpenAI's kind thinks."""

    reasoning_effort: str | None = None


class Thinking(Struct, frozen=True, kw_only=True):
    """How a model of Anthropic's kind thinks; the budget is in tokens."""

    type: Literal["enabled", "disabled", "adaptive"] = "enabled"
    budget_tokens: int | None = None


class ResponseFormat(Struct, frozen=True, kw_only=True):
    """The shape that the answer must have."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: dict[str, Any] | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """The fields of all providers' settings that Eunoe acts on; each dialect reads its own."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    strict: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning: Reasoning | None = None
    thinking: Thinking | None = None
    effort: str | None = None
    verbosity: str | None = None

    @property
    def reasoning_effort(self) -> str | None:
        """The effort that was named for reasoning."""
        return self.reasoning.reasoning_effort if self.reasoning else None


def read_settings(settings: dict[str, Any]) -> Settings:
    """Read settings in the wire's form; unknown fields are other parts' business.

    Raises ``InvalidInput`` when a field has a value that it cannot have.
    """
    try:
        read = convert(settings, Settings)
    except ValidationError as error:
        raise InvalidInput(f"The model settings are not valid: {error}", field="model_settings") from error
    shape = read.response_format
    if shape is not None and shape.type == "json_schema" and not shape.json_schema:
        raise InvalidInput(
            "A response_format of type json_schema needs the schema: give it as json_schema.", field="response_format"
        )
    return read
