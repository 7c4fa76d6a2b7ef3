"""What MCP servers may take and which may be asked, as it is set."""

from pathlib import Path

import pytest

from eunoe.runtime.settings import open_to_others, settings_from
from eunoe.state.errors import InvalidInput
from eunoe.tools.mcp.limits import McpLimits


def limits(**environment: str) -> McpLimits:
    return settings_from(environment, Path("/nowhere")).mcp


def test_what_is_not_set_is_cautious_about_programs_and_bounded():
    assert limits() == McpLimits(connect=30.0, list=30.0, call=60.0, idle=300.0, private=True, programs=False)


def test_each_limit_has_its_variable():
    found = limits(
        EUNOE_MCP_CONNECT_TIMEOUT="1",
        EUNOE_MCP_LIST_TIMEOUT="2",
        EUNOE_MCP_CALL_TIMEOUT="3",
        EUNOE_MCP_IDLE="4",
        EUNOE_MCP_PRIVATE_ADDRESSES="0",
        EUNOE_MCP_STDIO="1",
    )
    assert found == McpLimits(connect=1.0, list=2.0, call=3.0, idle=4.0, private=False, programs=True)


@pytest.mark.parametrize(("given", "private"), [({}, False), ({"EUNOE_MCP_PRIVATE_ADDRESSES": "1"}, True)])
def test_a_server_that_others_can_reach_calls_private_addresses_only_if_it_was_told_to(
    given: dict[str, str], private: bool
):
    assert open_to_others(settings_from(given, Path("/nowhere"))).mcp.private is private


@pytest.mark.parametrize("name", ["EUNOE_MCP_STDIO", "EUNOE_MCP_PRIVATE_ADDRESSES"])
def test_a_switch_is_0_or_1(name: str):
    with pytest.raises(InvalidInput, match=f"{name} must be 0 or 1, not 'yes'"):
        limits(**{name: "yes"})
