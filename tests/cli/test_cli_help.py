"""Every command that help names exists, says what it does, and names only what it has (G15)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_rig import Cli, environment

from eunoe import __version__
from eunoe.cli.group import root
from eunoe.cli.main import told_at_once
from eunoe.cli.overview import COMMANDS, overview


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    def below(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                yield from below((*path, name), child)

    yield from below((), root)


ALL = list(commands())


def test_g15_the_commands_are_these() -> None:
    assert sorted(" ".join(path) for path, command in ALL if not isinstance(command, click.Group)) == [
        "agents check",
        "agents create",
        "agents delete",
        "agents list",
        "agents show",
        "blocks set",
        "blocks show",
        "chat",
        "conversations delete",
        "conversations fork",
        "conversations list",
        "doctor",
        "mcp add",
        "mcp list",
        "mcp refresh",
        "mcp remove",
        "mcp tools",
        "memory blame",
        "memory branch",
        "memory check",
        "memory convert",
        "memory diff",
        "memory export",
        "memory import",
        "memory log",
        "memory merge",
        "memory mirror push",
        "memory mirror remove",
        "memory mirror set",
        "memory mirror show",
        "memory reflect",
        "memory reflect-when",
        "memory restore",
        "memory review",
        "memory show",
        "memory status",
        "memory tag",
        "run",
        "runs cancel",
        "runs list",
        "serve",
        "skills install",
        "skills list",
        "skills remove",
        "skills show",
        "steps request",
    ]


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=" ".join)
def test_g15_every_command_tells_its_help(cli: Cli, path: tuple[str, ...]) -> None:
    assert cli.done(*path, "--help").startswith(f"Usage: {' '.join(('eunoe', *path))} ")


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_g15_every_command_and_option_says_what_it_is_for(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help, path
    assert [o.name for o in command.params if isinstance(o, click.Option) and not o.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_g15_the_list_of_commands_says_what_each_command_says(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.help is not None
    assert command.help.split("\n\n")[0] == COMMANDS[name].short_help


def test_the_version_is_the_package_s(cli: Cli) -> None:
    assert cli.done("--version") == f"eunoe, version {__version__}\n"


def test_an_unknown_command_is_a_usage_error(cli: Cli) -> None:
    result = cli.run("agnets")
    assert result.exit_code == 2
    assert "No such command 'agnets'" in result.stderr


def spent(program: str) -> float:
    """Run a program and return the seconds of CPU that it took."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


QUICK = "import sys; from eunoe.cli.main import main; sys.argv = ['eunoe', {!r}]; main()"


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["--help", "-h", "--version"])
def test_what_there_is_costs_little_more_than_python_itself(asked: str) -> None:
    # Taken in turns, so that what else the machine does weighs on both; the least is closest to the program's own.
    pairs = [(spent(QUICK.format(asked)), spent("pass")) for _ in range(20)]
    assert min(ours for ours, _ in pairs) <= 4 * min(nothing for _, nothing in pairs)


@pytest.mark.slow
def test_what_there_is_is_told_without_click() -> None:
    program = (
        QUICK.format("--help") + "; print([name for name in ('click', 'msgspec', 'shutil') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == f"{overview()}[]\n"


def test_what_is_told_at_once_is_what_click_tells(cli: Cli) -> None:
    env = {"COLUMNS": "80"}
    for asked in (["--help"], ["-h"], ["--version"]):
        assert told_at_once(asked, env) == cli.done(*asked, env=env)
    nothing = cli.run(env=env)
    assert told_at_once([], env) == nothing.output


def test_everything_else_is_click_s() -> None:
    assert told_at_once(["--help"], {"COLUMNS": "79"}) is None
    assert told_at_once(["--help", "--version"], {}) is None
    assert told_at_once(["agents"], {}) is None
    assert told_at_once([], {"_EUNOE_COMPLETE": "bash_complete"}) is None


@pytest.mark.slow
def test_no_command_is_a_usage_error_that_tells_what_there_is(cli: Cli) -> None:
    result = cli.process()
    assert (result.returncode, result.stdout, result.stderr) == (2, "", overview())


@pytest.mark.slow
def test_a_reader_who_has_had_enough_is_no_traceback(cli: Cli) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "eunoe", "--help"]
    told = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, env=environment(cli.home), check=False)
    os.close(writing)
    assert (told.returncode, told.stderr) == (1, b"")


@pytest.mark.slow
def test_the_shell_can_complete_commands(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    env = {"_EUNOE_COMPLETE": "bash_complete", "COMP_WORDS": "eunoe ag", "COMP_CWORD": "1"}
    assert cli.process(env=env).stdout == "plain,agents\n"
