"""The settings of compaction: defaults, merging, and what is refused before it is stored."""

import pytest

from eunoe.models.registry import ModelRegistry
from eunoe.runtime.compaction_settings import (
    DEFAULT_PROMPTS,
    CompactionSettings,
    check_compaction_settings,
    merge_compaction_settings,
    read_compaction_settings,
)
from eunoe.state.errors import InvalidInput


def test_what_is_not_named_has_the_defaults_of_the_wire() -> None:
    for nothing in (None, {}, {"mode": None, "prompt": None, "sliding_window_percentage": None}):
        settings = read_compaction_settings(nothing)
        assert settings == CompactionSettings()
        assert (settings.mode, settings.clip_chars, settings.sliding_window_percentage) == (
            "sliding_window",
            50_000,
            0.3,
        )
        assert settings.instruction == DEFAULT_PROMPTS["sliding_window"]


def test_a_null_clip_is_no_limit() -> None:
    assert read_compaction_settings({"clip_chars": None}).clip_chars is None


@pytest.mark.parametrize(
    "wrong", [{"mode": "some"}, {"clip_chars": 0}, {"sliding_window_percentage": 1.0}, {"sliding_window_percentage": 0}]
)
def test_a_value_that_a_field_cannot_have_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))) as raised:
        read_compaction_settings(wrong)
    assert raised.value.field == "compaction_settings"


def test_another_mode_without_a_prompt_takes_that_modes_default() -> None:
    stored = {"mode": "sliding_window", "prompt": "Mine.", "clip_chars": 900}
    merged = merge_compaction_settings(stored, {"mode": "all"})
    assert merged == {"mode": "all", "clip_chars": 900}
    assert read_compaction_settings(merged).instruction == DEFAULT_PROMPTS["all"]


def test_a_prompt_stays_while_the_mode_does() -> None:
    stored = {"prompt": "Mine."}
    assert merge_compaction_settings(stored, {"mode": "sliding_window"})["prompt"] == "Mine."
    assert merge_compaction_settings(stored, {"clip_chars": 10})["prompt"] == "Mine."
    assert merge_compaction_settings(stored, {"mode": "all", "prompt": "New."})["prompt"] == "New."


def test_a_summariser_that_cannot_be_resolved_is_refused_at_write_time() -> None:
    models = ModelRegistry.from_env({})
    check_compaction_settings(models, {"model": "scripted/demo"})
    for handle in ("nowhere/model", "no-slash"):
        with pytest.raises(InvalidInput, match=handle) as raised:
            check_compaction_settings(models, {"model": handle})
        assert raised.value.field == "compaction_settings.model"


def test_default_prompts_are_short() -> None:
    assert all(len(prompt) < 2_500 for prompt in DEFAULT_PROMPTS.values())
