"""What an agent may call next, when its turn ends, and which rules make sense."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.models.protocol import FinishReason, ToolChoice
from eunoe.runtime.argument_checks import check_arguments
from eunoe.runtime.rule_checks import check_rules, without_duplicates
from eunoe.runtime.rule_results import matching_key
from eunoe.runtime.rules import (
    Nudge,
    Offer,
    ToolUse,
    after_calls,
    after_text,
    needs_approval,
    offer,
    parallel_allowed,
    prefill,
    violation,
)
from eunoe.state.errors import InvalidInput
from eunoe.state.rules import (
    ApprovalRule,
    ChildArgs,
    ChildRule,
    ConditionalRule,
    ContinueRule,
    InitRule,
    MaxCountRule,
    ParentRule,
    RequiredBeforeExitRule,
    TerminalRule,
    ToolRule,
)
from eunoe.state.runs import StopReason
from eunoe.state.tools import ToolSchema

TOOLS = ("a", "b", "c", "d", "e")
AUTO = ToolChoice()
REQUIRED = ToolChoice(mode="required")
NONE = ToolChoice(mode="none")


def only(name: str) -> ToolChoice:
    return ToolChoice(mode="tool", name=name)


def used(*names: str, result: str = "") -> tuple[ToolUse, ...]:
    return tuple(ToolUse(name=name, result=result) for name in names)


def refused(name: str) -> ToolUse:
    return ToolUse(name=name, refused=True)


INIT = InitRule(tool_name="a")
CHILD = ChildRule(tool_name="a", children=("c", "b"))
PARENT = ParentRule(tool_name="a", children=("b",))
TWICE = MaxCountRule(tool_name="a", max_count_limit=2)
EXIT = TerminalRule(tool_name="e")
NEED = RequiredBeforeExitRule(tool_name="b")
VERDICT = ConditionalRule(tool_name="a", child_output_mapping={"yes": "b", "no": "c"})


@pytest.mark.parametrize(
    ("rules", "history", "names", "choice"),
    [
        ([], (), "abcde", AUTO),
        ([INIT], (), "a", only("a")),
        ([INIT, InitRule(tool_name="c")], (), "ac", REQUIRED),
        ([INIT], used("a"), "abcde", AUTO),
        ([INIT], (refused("b"),), "a", only("a")),
        ([InitRule(tool_name="gone")], (), "abcde", AUTO),
        ([CHILD], (), "abcde", AUTO),
        ([CHILD], used("a"), "bc", REQUIRED),
        ([CHILD], used("a", "b"), "abcde", AUTO),
        ([CHILD], (*used("a"), refused("d")), "bc", REQUIRED),
        ([ChildRule(tool_name="a", children=("b", "gone"))], used("a"), "b", only("b")),
        ([ChildRule(tool_name="a", children=("gone",))], used("a"), "abcde", AUTO),
        ([PARENT], (), "acde", AUTO),
        ([PARENT], used("a"), "abcde", AUTO),
        ([PARENT], used("a", "c"), "acde", AUTO),
        ([PARENT, ParentRule(tool_name="c", children=("b",))], used("c"), "abcde", AUTO),
        ([ParentRule(tool_name="gone", children=("b",))], used("a"), "acde", AUTO),
        ([VERDICT], used("a", result="yes"), "b", only("b")),
        ([VERDICT], used("a", result='{"message": "no"}'), "c", only("c")),
        ([VERDICT], used("a", result="perhaps"), "abcde", AUTO),
        ([VERDICT], (*used("a", result="yes"), *used("b", result="no")), "abcde", AUTO),
        ([TWICE], used("a"), "abcde", AUTO),
        ([TWICE], used("a", "b", "a"), "bcde", AUTO),
        ([TWICE], (*used("a"), refused("a"), refused("a")), "abcde", AUTO),
        ([TWICE, MaxCountRule(tool_name="a", max_count_limit=1)], used("a"), "bcde", AUTO),
        ([CHILD, MaxCountRule(tool_name="b", max_count_limit=1)], used("b", "a"), "c", only("c")),
        ([EXIT, ContinueRule(tool_name="a"), NEED, ApprovalRule(tool_name="a")], used("a"), "abcde", AUTO),
    ],
)
def test_what_may_be_called(rules: list[ToolRule], history: tuple[ToolUse, ...], names: str, choice: ToolChoice):
    assert offer(rules, TOOLS, history) == Offer(names=tuple(names), choice=choice)


def test_an_unmapped_result_leads_to_the_default_even_when_a_mapping_is_required():
    rule = ConditionalRule(
        tool_name="a", child_output_mapping={"yes": "b"}, default_child="d", require_output_mapping=True
    )
    assert offer([rule], TOOLS, used("a", result="perhaps")).names == ("d",)


def test_a_mapping_to_a_tool_that_the_agent_lost_leads_to_the_default():
    rule = ConditionalRule(tool_name="a", child_output_mapping={"yes": "gone"}, default_child="d")
    assert offer([rule], TOOLS, used("a", result="yes")).names == ("d",)


def test_an_unmapped_result_without_a_default_lets_no_tool_follow_when_a_mapping_is_required():
    rule = ConditionalRule(tool_name="a", child_output_mapping={"yes": "b"}, require_output_mapping=True)
    assert offer([rule], TOOLS, used("a", result="perhaps")) == Offer(
        names=(),
        choice=NONE,
        reason="The tool rules leave no tool to call. No tool may follow what a returned: its rule maps it to none of "
        "the agent's tools.",
    )


def test_rules_that_leave_nothing_offer_nothing_and_say_why():
    rules = [ChildRule(tool_name="a", children=("b",)), MaxCountRule(tool_name="b", max_count_limit=1)]
    assert offer(rules, TOOLS, used("a", "b", "a")) == Offer(
        names=(),
        choice=NONE,
        reason="The tool rules leave no tool to call. Right after a, the call must be of b. "
        "b may be called 1 time(s) in one turn, and that is used up.",
    )


def test_an_agent_that_used_up_its_only_tool_can_still_answer():
    assert offer([TWICE], ["a"], used("a", "a")) == Offer(names=(), choice=NONE)


def test_a_denied_call_is_not_forced_again_but_nothing_else_is_opened():
    assert offer([INIT], TOOLS, (refused("a"),)) == Offer(names=("a",), choice=AUTO)
    assert offer([CHILD], TOOLS, (*used("a"), refused("c"))) == Offer(names=("b", "c"), choice=AUTO)


@pytest.mark.parametrize(
    ("keys", "result", "key"),
    [
        (["yes", "no"], "no", "no"),
        (["yes"], " yes\n", "yes"),
        (["yes"], "Yes", None),
        (["true", "false"], "True", "true"),
        (["True"], "true", "True"),
        (["1"], "true", None),
        (["true"], "1", None),
        (["2"], "2.0", "2"),
        (["1.0", "1"], "1", "1"),
        (["0.5"], '{"result": 0.5}', "0.5"),
        (["9007199254740993"], "9007199254740992", None),
        (["true", "false"], '{"message": false, "result": true}', "false"),
        (["ok"], '{"message": "done", "result": "ok"}', "ok"),
        (["ok"], '"ok"', "ok"),
        (["none"], "null", "none"),
        (["ok"], '["ok"]', None),
        (["nan"], "NaN", None),
        (['{"a": 1}'], '{"a": 1}', '{"a": 1}'),
        (["ok"], "[" * 100_000, None),
        (["yes"], "", None),
    ],
)
def test_a_result_matches_a_key(keys: list[str], result: str, key: str | None):
    assert matching_key(keys, result) == key


@pytest.mark.parametrize(
    ("rules", "history", "name", "told"),
    [
        ([INIT], (), "b", "Cannot call b, valid tools include: ['a']. The first call must be of a."),
        (
            [CHILD],
            used("a"),
            "d",
            "Cannot call d, valid tools include: ['b', 'c']. Right after a, the call must be of c or b.",
        ),
        (
            [PARENT, ParentRule(tool_name="c", children=("b",))],
            (),
            "b",
            "Cannot call b, valid tools include: ['a', 'c', 'd', 'e']. b may be called only right after a or c.",
        ),
        (
            [VERDICT],
            used("a", result="yes"),
            "c",
            "Cannot call c, valid tools include: ['b']. After what a returned, the call must be of b.",
        ),
        (
            [TWICE],
            used("a", "a"),
            "a",
            (
                "Cannot call a, valid tools include: ['b', 'c', 'd', 'e']. "
                "a may be called 2 time(s) in one turn, and that is used up."
            ),
        ),
    ],
)
def test_a_call_that_breaks_a_rule_is_told_which(
    rules: list[ToolRule], history: tuple[ToolUse, ...], name: str, told: str
):
    assert violation(rules, TOOLS, history, name) == f"[ToolConstraintError] {told}"


def test_a_result_is_not_repeated_in_what_is_told_of_a_rule():
    told = violation([VERDICT], TOOLS, used("a", result='{"message": "yes", "key": "hunter2"}'), "c")
    assert told is not None
    assert "hunter2" not in told


def test_a_tool_that_the_agent_does_not_have_is_no_matter_of_rules():
    assert violation([INIT], TOOLS, (), "gone") is None


def test_a_count_of_three_allows_three_calls_and_no_fourth():
    rules = [MaxCountRule(tool_name="a", max_count_limit=3)]
    allowed = [violation(rules, TOOLS, used("a") * count, "a") is None for count in range(5)]
    assert allowed == [True, True, True, False, False]


def test_arguments_of_the_first_call_come_from_the_rule_and_win():
    rules = [InitRule(tool_name="a", args={"depth": 3})]
    assert prefill(rules, (), "a", {"depth": 1, "topic": "maps"}) == {"depth": 3, "topic": "maps"}
    assert prefill(rules, used("b"), "a", {"depth": 1}) == {"depth": 1}
    assert prefill(rules, (), "b", {"depth": 1}) == {"depth": 1}


def test_arguments_of_a_child_come_from_the_rule_right_after_its_parent_only():
    nodes = (ChildArgs(name="b", args={"unit": "km"}), ChildArgs(name="c"))
    rules = [ChildRule(tool_name="a", children=("b", "c"), child_arg_nodes=nodes)]
    assert prefill(rules, used("a"), "b", {"unit": "mile"}) == {"unit": "km"}
    assert prefill(rules, used("a"), "c", {"unit": "mile"}) == {"unit": "mile"}
    assert prefill(rules, used("a", "b"), "b", {"unit": "mile"}) == {"unit": "mile"}


def test_filling_in_leaves_the_models_arguments_alone():
    given_by_model = {"depth": 1}
    prefill([InitRule(tool_name="a", args={"depth": 3})], (), "a", given_by_model)
    assert given_by_model == {"depth": 1}


PLACE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SCHEMA = ToolSchema(
    name="travel",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "to": PLACE,
            "days": {"type": "integer"},
            "price": {"type": "number"},
            "by": {"type": "string", "enum": ["train", "foot"]},
            "stops": {"type": "array", "items": PLACE},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tip": {"type": ["number", "null"]},
        },
        "required": ["to"],
        "additionalProperties": False,
    },
)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, None),
        ({"days": 2, "price": 3, "by": "foot", "stops": [{"name": "Metz"}], "note": None, "tip": None}, None),
        ({"days": 2.0, "price": 2.5, "note": "slow"}, None),
        ({"days": "two"}, "days must be integer, not string"),
        ({"days": True}, "days must be integer, not boolean"),
        ({"days": 2.5}, "days must be integer, not number"),
        ({"by": "car"}, "by must be one of 'train', 'foot'"),
        ({"to": {}}, "to.name missing"),
        ({"to": None}, "to must be object, not null"),
        ({"stops": [{"name": "Metz"}, {"name": 4}]}, "stops[1].name must be string, not integer"),
        ({"note": 4}, "note must be string, not integer or note must be null, not integer"),
        ({"tip": "much"}, "tip must be number or null, not string"),
        (
            {"dyas": 2},
            "dyas unknown; known are to, days, price, by, stops, note, tip",
        ),
    ],
)
def test_arguments_are_held_to_the_tools_schema(arguments: dict[str, Any], fault: str | None):
    assert check_arguments(SCHEMA, {"to": {"name": "Paris"}, **arguments}) == fault


def test_a_required_argument_may_not_be_missing():
    assert check_arguments(SCHEMA, {"days": 2}) == "to missing"


@pytest.mark.parametrize(
    ("rules", "uses", "history", "steps_done", "reason"),
    [
        ([], used("a"), (), 1, None),
        ([], used("a"), (), 9, "max_steps"),
        ([EXIT], used("e"), (), 1, "tool_rule"),
        ([EXIT], used("e"), (), 9, "tool_rule"),
        ([EXIT], used("a", "e", "b"), (), 1, "tool_rule"),
        ([EXIT], (refused("e"),), (), 1, None),
        ([EXIT], (refused("e"),), (), 9, "max_steps"),
        ([EXIT], used("a"), used("e"), 2, None),
        ([EXIT, NEED], used("e"), (), 1, None),
        ([EXIT, NEED], used("e"), (), 9, "max_steps"),
        ([EXIT, NEED], used("e", "b"), (), 1, "tool_rule"),
        ([EXIT, NEED], used("e"), used("b"), 2, "tool_rule"),
        ([EXIT, NEED], used("e"), (refused("b"),), 2, None),
        ([EXIT, RequiredBeforeExitRule(tool_name="gone")], used("e"), (), 1, "tool_rule"),
        ([ContinueRule(tool_name="a")], used("a"), (), 1, None),
    ],
)
def test_when_a_turn_ends_after_calls(
    rules: list[ToolRule],
    uses: tuple[ToolUse, ...],
    history: tuple[ToolUse, ...],
    steps_done: int,
    reason: StopReason | None,
):
    assert after_calls(rules, TOOLS, uses, history, steps_done=steps_done, max_steps=9) == reason


@pytest.mark.parametrize(
    ("finish", "reason"), [("stop", "end_turn"), ("length", "max_tokens_exceeded"), ("content_filter", "end_turn")]
)
def test_text_ends_a_turn(finish: FinishReason, reason: StopReason):
    assert after_text([EXIT], TOOLS, (), finish) == reason
    assert after_text([NEED], TOOLS, used("b"), finish) == reason


def test_text_does_not_end_a_turn_while_required_tools_were_not_called():
    rules = [RequiredBeforeExitRule(tool_name=name) for name in ("c", "b", "a", "gone", "b")]
    assert after_text(rules, TOOLS, (*used("c"), refused("b")), "length") == Nudge(
        text="[This is an automated system message hidden from the user] ToolRuleViolated: "
        "You must call b, a at least once to exit the loop.",
        missing=("b", "a"),
    )


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (EXIT, True),
        (NEED, True),
        (TWICE, True),
        (ApprovalRule(tool_name="a"), True),
        (ContinueRule(tool_name="a"), True),
        (INIT, False),
        (CHILD, False),
        (PARENT, False),
        (VERDICT, False),
    ],
)
def test_several_calls_in_one_answer_are_allowed_when_no_rule_is_about_order(rule: ToolRule, *, allowed: bool):
    assert parallel_allowed([EXIT, rule]) is allowed


def test_a_call_waits_when_a_rule_says_so_or_the_client_runs_it():
    rules = [ApprovalRule(tool_name="a"), ApprovalRule(tool_name="gone"), EXIT]
    waiting = {name: needs_approval(rules, TOOLS, {"open_map"}, name) for name in ("a", "e", "gone", "open_map")}
    assert waiting == {"a": True, "e": False, "gone": False, "open_map": True}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([TerminalRule(tool_name="gone")], "The exit_loop rule of 'gone' names 'gone', which the agent does not have"),
        ([ChildRule(tool_name="a", children=("b", "gone"))], "names 'gone'.*The agent's tools: a, b, c, d, e"),
        ([ParentRule(tool_name="a", children=("gone",))], "names 'gone'"),
        ([ConditionalRule(tool_name="a", child_output_mapping={"x": "gone"})], "names 'gone'"),
        ([ConditionalRule(tool_name="a", child_output_mapping={"x": "b"}, default_child="gone")], "names 'gone'"),
        ([ConditionalRule(tool_name="a", child_output_mapping={})], "empty child_output_mapping"),
        ([ChildRule(tool_name="a", children=())], "The constrain_child_tools rule of 'a' has no children"),
        ([ParentRule(tool_name="a", children=())], "The parent_last_tool rule of 'a' has no children"),
        (
            [ChildRule(tool_name="a", children=("b",), child_arg_nodes=(ChildArgs(name="c"),))],
            "gives arguments to c .* none of its children",
        ),
        ([MaxCountRule(tool_name="a", max_count_limit=0)], "max_count_limit 0; it must be 1 or more"),
        ([EXIT, ContinueRule(tool_name="e")], "'e' has both an exit_loop and a continue_loop rule"),
        ([PARENT, INIT, InitRule(tool_name="b")], "'b' has a run_first rule, .* can never be called first"),
        (
            [ChildRule(tool_name="a", children=("b",)), ChildRule(tool_name="a", children=("c",))],
            "after 'a' no tool could follow",
        ),
        (
            [ChildRule(tool_name="c", children=("b",)), PARENT],
            "after 'c' no tool could follow.*b may be called only right after a",
        ),
        ([VERDICT, ChildRule(tool_name="a", children=("d",))], "after 'a' no tool could follow"),
    ],
)
def test_rules_that_make_no_sense_are_refused_with_the_reason(rules: list[ToolRule], words: str):
    with pytest.raises(InvalidInput, match=words) as caught:
        check_rules(rules, TOOLS)
    assert caught.value.field == "tool_rules"


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [INIT, CHILD, EXIT, NEED, TWICE, ApprovalRule(tool_name="a"), ContinueRule(tool_name="a")],
        [ChildRule(tool_name="a", children=("b",)), ChildRule(tool_name="b", children=("a",))],
        [PARENT, ParentRule(tool_name="c", children=("b",))],
        [VERDICT, ChildRule(tool_name="a", children=("b",))],
        [ConditionalRule(tool_name="a", child_output_mapping={"x": "b"}, require_output_mapping=True)],
        [EXIT, EXIT],
        [PARENT, PARENT, INIT],
    ],
)
def test_rules_that_make_sense_are_accepted(rules: list[ToolRule]):
    check_rules(rules, TOOLS)


def test_a_rule_that_is_given_twice_is_kept_once():
    other = ChildRule(tool_name="a", children=("b",), child_arg_nodes=(ChildArgs(name="b", args={"x": [1]}),))
    assert without_duplicates([EXIT, other, EXIT, INIT, other]) == (EXIT, other, INIT)


NAMES = st.sampled_from(TOOLS)
SOME = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
RESULTS = st.sampled_from(("yes", "no", "1", '{"message": true}', ""))
RULES: st.SearchStrategy[list[ToolRule]] = st.lists(
    st.one_of(
        st.builds(InitRule, tool_name=NAMES),
        st.builds(ChildRule, tool_name=NAMES, children=SOME),
        st.builds(ParentRule, tool_name=NAMES, children=SOME),
        st.builds(
            ConditionalRule,
            tool_name=NAMES,
            child_output_mapping=st.dictionaries(st.sampled_from(("yes", "1.0", "true")), NAMES, min_size=1),
            default_child=st.none() | NAMES,
            require_output_mapping=st.booleans(),
        ),
        st.builds(MaxCountRule, tool_name=NAMES, max_count_limit=st.integers(1, 3)),
        st.builds(TerminalRule, tool_name=NAMES),
        st.builds(ContinueRule, tool_name=NAMES),
        st.builds(RequiredBeforeExitRule, tool_name=NAMES),
        st.builds(ApprovalRule, tool_name=NAMES),
    ),
    max_size=8,
)


def _is_fair(rules: Sequence[ToolRule], have: Sequence[str], history: Sequence[ToolUse]) -> Offer:
    """Check what holds of every offer, and return it."""
    now = offer(rules, have, history)
    assert offer(without_duplicates(rules), have, history) == now
    assert list(now.names) == [name for name in have if violation(rules, have, history, name) is None]
    expected = {"auto": len(now.names) > 0, "required": len(now.names) > 1, "tool": len(now.names) == 1}
    assert expected.get(now.choice.mode, not now.names)
    if now.choice.mode == "tool":
        assert now.names == (now.choice.name,)
    assert now.reason is None or now.choice == NONE
    return now


@settings(deadline=None)
@given(rules=RULES, have=st.lists(NAMES, unique=True, min_size=1), data=st.data())
def test_a_model_that_follows_its_offers_never_breaks_a_rule(
    rules: list[ToolRule], have: list[str], data: st.DataObject
):
    history: list[ToolUse] = []
    for _ in range(8):
        now = _is_fair(rules, have, history)
        if not now.names:
            break
        name = data.draw(st.sampled_from(now.names))
        history.append(ToolUse(name=name, result=data.draw(RESULTS), refused=data.draw(st.booleans())))
    called = [use.name for use in history if not use.refused]
    limits = [(rule.tool_name, rule.max_count_limit) for rule in rules if isinstance(rule, MaxCountRule)]
    assert all(called.count(name) <= limit for name, limit in limits)
    guards = [rule for rule in rules if isinstance(rule, ParentRule)]
    for before, name in zip([None, *called], called, strict=False):
        parents = {rule.tool_name for rule in guards if name in rule.children}
        assert not parents or before in parents


@settings(deadline=None)
@given(rules=RULES)
def test_accepted_rules_leave_a_first_call(rules: list[ToolRule]):
    try:
        check_rules(rules, TOOLS)
    except InvalidInput:
        return
    assert offer(rules, TOOLS, ()).reason is None
