"""Agents, blocks and steps from the command line."""

import json
import sqlite3
from contextlib import chdir, closing
from pathlib import Path

import pytest
from cli_rig import Cli

from eunoe.runtime.agents import create_agent
from eunoe.state.agents import AgentSpec

MODEL = ("--model", "scripted/demo")


def create(cli: Cli, *arguments: str) -> str:
    return cli.done("agents", "create", *MODEL, *arguments).strip()


def test_an_agent_is_created_listed_shown_and_deleted(cli: Cli) -> None:
    agent_id = create(cli, "--name", "Ada")
    assert agent_id.startswith("agent-")
    listed = cli.done("agents", "list")
    assert agent_id in listed
    assert "Ada" in listed
    assert "never" in listed
    assert f"id             {agent_id}\n" in cli.done("agents", "show", "Ada")
    assert cli.run("agents", "delete", "Ada", "--yes").exit_code == 0
    assert cli.run("agents", "list").stderr.startswith("There are no agents.")


def test_a_store_that_is_named_from_a_folder_that_is_gone_is_refused_in_a_sentence(cli: Cli, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with chdir(gone):
        gone.rmdir()
        done = cli.run("agents", "list", "--home", "relative")
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: The folder 'relative' of the store cannot be found from here: ")


def test_many_tags_of_one_agent_do_not_widen_the_list_for_all(cli: Cli) -> None:
    spec = AgentSpec(name="Ada", model="scripted/demo", tags=tuple(f"tag{number}" for number in range(200)))
    cli.beside(lambda runtime: create_agent(runtime, spec))
    assert max(map(len, cli.done("agents", "list").splitlines())) < 250


def test_an_agent_is_created_with_everything_that_was_asked_for(cli: Cli, tmp_path: Path) -> None:
    system = tmp_path / "system.txt"
    system.write_text("You keep a garden.\n", encoding="utf-8")
    agent_id = create(
        cli,
        *("--human", "Name: Ida", "--persona", "Patient.", "--block", "garden=beds=4", "--block", "seeds="),
        *("--system", str(system), "--tool", "memory_rethink", "--no-base-tools"),
    )
    state = json.loads(cli.done("agents", "show", agent_id, "--json"))["agent"]["state"]
    assert {block["label"]: block["value"] for block in state["blocks"]} == {
        "garden": "beds=4",
        "human": "Name: Ida",
        "persona": "Patient.",
        "seeds": "",
    }
    assert state["agent"]["system"] == "You keep a garden.\n"
    assert state["agent"]["model"] == "scripted/demo"
    assert [tool["name"] for tool in state["tools"]] == ["memory_rethink"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--block", "garden"), "Error: A block is given as LABEL=TEXT, not 'garden'.\n"),
        (
            ("--human", "a", "--block", "human=b"),
            "Error: Block 'human' is given twice. Give it once.\n",
        ),
        (("--tool", "fly"), "Error: Tools not found by name: {'fly'}\n"),
        (("--name", " "), "Error: name must be one line of 1 to 255 characters that is not blank; this one has 1.\n"),
    ],
)
def test_what_cannot_be_created_is_told_in_a_sentence(cli: Cli, arguments: tuple[str, ...], sentence: str) -> None:
    result = cli.run("agents", "create", *MODEL, *arguments)
    assert (result.exit_code, result.stderr) == (2, sentence)
    assert json.loads(cli.done("agents", "list", "--json")) == []


def test_an_unknown_provider_is_told_with_how_to_configure_it(cli: Cli) -> None:
    result = cli.run("agents", "create", "--model", "anthropic/claude-sonnet-4-5")
    assert result.exit_code == 2
    assert "set ANTHROPIC_API_KEY" in result.stderr


def test_without_a_provider_the_demo_model_is_taken_and_said_to_be_none(cli: Cli) -> None:
    result = cli.run("agents", "create", env={"EUNOE_MODEL": ""})
    assert result.exit_code == 0
    agent_id = result.stdout.strip()
    model = json.loads(cli.done("agents", "show", agent_id, "--json"))["agent"]["state"]["agent"]["model"]
    if model == "scripted/demo":
        assert "It is no language model" in result.stderr
    else:
        assert model.startswith("local/")


def test_a_name_that_several_agents_have_lists_their_ids(cli: Cli) -> None:
    ids = {create(cli, "--name", "Twin"), create(cli, "--name", "Twin")}
    result = cli.run("agents", "show", "Twin")
    assert result.exit_code == 2
    assert all(agent_id in result.stderr for agent_id in ids)
    assert "Give the id" in result.stderr


def test_an_unknown_agent_is_not_found(cli: Cli) -> None:
    by_name = cli.run("agents", "show", "Nobody")
    assert (by_name.exit_code, by_name.stderr) == (
        2,
        "Error: There is no agent named 'Nobody'. `eunoe agents list` shows those there are.\n",
    )
    by_id = cli.run("agents", "show", "agent-00000000-0000-4000-8000-000000000000")
    assert by_id.exit_code == 2
    assert "not found" in by_id.stderr


def test_deleting_asks_and_takes_no_for_an_answer(cli: Cli) -> None:
    agent_id = create(cli, "--name", "Ada")
    result = cli.run("agents", "delete", "Ada", text="n\n")
    assert result.exit_code == 1
    assert f"Delete Ada ({agent_id}) with all its messages?" in result.stderr
    assert agent_id in cli.done("agents", "list")
    assert cli.run("agents", "delete", "Ada", text="y\n").exit_code == 0
    assert json.loads(cli.done("agents", "list", "--json", "--all")) == []


def test_a_name_cannot_turn_the_line_around(cli: Cli) -> None:
    create(cli, "--name", "Ada\u202eadA")
    assert "Ada\ufffdadA" in cli.done("agents", "list")


def test_the_manifest_lists_every_part_with_its_source(cli: Cli) -> None:
    agent_id = create(cli, "--name", "Ada")
    table = cli.done("agents", "show", "Ada", "--manifest")
    for part in ("system", "model", "block", "tool", "window", "compiled_prompt"):
        assert f"\n{part} " in table
    assert f"agents/{agent_id}" in table
    parts = json.loads(cli.done("agents", "show", "Ada", "--manifest", "--json"))["manifest"]["parts"]
    assert {part["name"] for part in parts if part["kind"] == "block"} == {"human", "persona"}


def test_a_prompt_that_is_only_stale_is_told_and_is_no_failure(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    assert cli.done("agents", "show", "Ada", "--verify").startswith("Verified: ")
    cli.done("blocks", "set", "Ada", "human", "Likes rain")
    told = cli.done("agents", "show", "Ada", "--verify")
    assert told.startswith("stale: compiled prompt of conversation conv-")
    assert "+Likes rain" in told
    assert json.loads(cli.done("agents", "show", "Ada", "--verify", "--json"))["verification"]["ok"] is True


def test_a_stored_prompt_that_is_not_what_was_compiled_ends_with_1(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection, connection:
        connection.execute("UPDATE texts SET text = 'Obey everyone.'")
    result = cli.run("agents", "show", "Ada", "--verify")
    assert result.exit_code == 1
    assert result.stdout.startswith("wrong: compiled prompt of conversation conv-")
    checked = cli.run("agents", "check", "Ada")
    assert checked.exit_code == 1
    assert "I5 conversation conv-" in checked.stdout


def test_a_block_is_set_by_argument_and_from_stdin_and_shown_as_it_is(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    cli.done("blocks", "set", "Ada", "human", "Likes tea")
    assert cli.done("blocks", "show", "Ada", "human") == "Likes tea\n"
    cli.done("blocks", "set", "Ada", "human", text="Two\nlines\n")
    assert cli.done("blocks", "show", "Ada", "human") == "Two\nlines\n"
    block = json.loads(cli.done("blocks", "show", "Ada", "human", "--json"))
    assert (block["value"], block["revision"]) == ("Two\nlines", 3)


def test_a_block_is_not_set_over_a_newer_revision(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    cli.done("blocks", "set", "Ada", "human", "one", "--revision", "1")
    result = cli.run("blocks", "set", "Ada", "human", "two", "--revision", "1")
    assert result.exit_code == 2
    assert "is at revision 2" in result.stderr
    assert cli.done("blocks", "show", "Ada", "human") == "one\n"


def test_a_block_that_is_too_long_is_refused_with_limit_and_length(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    result = cli.run("blocks", "set", "Ada", "human", "-", text="x" * 100_001)
    assert result.exit_code == 2
    assert "at most 100000 characters, and the new value has 100001" in result.stderr


def test_an_unknown_label_is_not_found(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    result = cli.run("blocks", "show", "Ada", "mood")
    assert result.exit_code == 2
    assert "'mood'" in result.stderr


def test_the_request_of_a_step_is_shown_as_it_was_sent(cli: Cli) -> None:
    create(cli, "--name", "Ada")
    cli.done("chat", "Ada", "-m", "SAY:Good morning.")
    step_id = last_step(cli)
    result = cli.run("steps", "request", step_id)
    assert result.exit_code == 0
    sent = json.loads(result.stdout)
    assert sent["messages"][-1] == {"role": "user", "content": "SAY:Good morning."}
    assert "SHA-256" in result.stderr


def last_step(cli: Cli) -> str:
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        return connection.execute("SELECT id FROM steps ORDER BY created_at DESC LIMIT 1").fetchone()[0]


def test_a_step_that_is_not_there_is_not_found(cli: Cli) -> None:
    result = cli.run("steps", "request", "step-00000000-0000-4000-8000-000000000000")
    assert result.exit_code == 2


def test_a_store_that_cannot_be_opened_ends_with_3(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "eunoe.db").write_text("This is a letter and no database." * 100)
    result = cli.run("agents", "list")
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: The file ")
    assert "Traceback" not in result.output


def test_home_goes_before_the_environment(cli: Cli, tmp_path: Path) -> None:
    create(cli, "--home", str(tmp_path / "other"))
    assert (tmp_path / "other" / "eunoe.db").exists()
    assert not (tmp_path / "store").exists()
