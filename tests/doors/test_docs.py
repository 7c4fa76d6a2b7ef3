"""The docs tell what is there, all of it, and their examples run (G15)."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from http_door import HttpDoor
from main_job import environment

from eunoe.cli.group import root as main
from eunoe.models.providers import providers_from_env
from eunoe.server.routes.table import ROUTES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# ---- routes, settings, commands -------------------------------------------------------------------------------------


def test_every_route_is_in_the_docs_and_no_other_is():
    told = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/v1/[^`?\s]*)`", page("http.md")))
    served = {(route.method, route.path.replace(":path}", "}")) for route in ROUTES}
    assert served - told == set(), "docs/http.md does not tell of these"
    assert told - served == set(), "docs/http.md tells of these, and the server does not have them"


def test_every_setting_is_in_the_docs_and_no_other_is():
    used = {name for path in SOURCES for name in re.findall(r"\bEUNOE_[A-Z_]+\b", path.read_text(encoding="utf-8"))}
    assert used - set(re.findall(r"`(EUNOE_[A-Z_]+)`", page("operations.md"))) == set()
    outside = {"EUNOE_SOAK"}  # of the tests
    told = {name for path in PAGES for name in re.findall(r"\bEUNOE_[A-Z_]+\b", path.read_text(encoding="utf-8"))}
    assert told - used - outside == set()


def test_every_variable_of_a_provider_is_in_the_docs():
    text = (ROOT / "src/eunoe/models/providers.py").read_text(encoding="utf-8")
    variables = set(re.findall(r'"([A-Z]+_(?:API_KEY|BASE_URL|API_BASE))"', text))
    both = {f"{name.upper()}_API_KEY" for name in re.findall(r'_hosted\("(\w+)"', text) if name != "google_ai"}
    told = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", page("models.md")))
    assert (variables | both) - told == set()
    found = providers_from_env(dict.fromkeys(told, "x"))
    handles = {handle.partition("/")[0] for handle in re.findall(r"`([a-z_-]+/…)`", page("models.md"))}
    assert set(found) - {"scripted"} <= handles


def commands() -> Iterator[tuple[str, click.Command]]:
    def below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield path, command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from below(f"{path} {name}".strip(), child)

    return below("", main)


COMMANDS = dict(commands())


def options_of(command: click.Command) -> set[str]:
    return {name for option in command.params if isinstance(option, click.Option) for name in option.opts}


def code_in(text: str) -> Iterator[str]:
    """Yield lines of shell blocks, and what stands in back ticks."""
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", outside)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_g15_commands_in_the_docs_exist_with_these_options(path: Path):
    for line in code_in(path.read_text(encoding="utf-8")):
        for call in re.findall(r"(?:^|[\s/(|])eunoe ([a-z][^#|)&]*)", line):
            words = call.split()
            name = next((n for n in (" ".join(words[:count]) for count in (3, 2, 1)) if n in COMMANDS), None)
            group = [n for n in COMMANDS if n.startswith(words[0] + " ")]
            assert name is not None or (group and len(words) == 1), f"{line!r} in {path.name}"
            if name is not None:
                given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
                assert given <= options_of(COMMANDS[name]) | {"--help"}, f"{line!r} in {path.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_g15_every_command_is_in_the_docs_with_its_options(name: str):
    sections = re.split(r"^## ", page("terminal.md"), flags=re.MULTILINE)
    told = [section for section in sections if re.match(rf"`eunoe {name}[ `]", section)]
    assert len(told) == 1, f"docs/terminal.md has no section for eunoe {name}"
    missing = [option for option in options_of(COMMANDS[name]) if not re.search(rf"`{option}\b", told[0])]
    assert missing == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    lost = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert lost == []


def test_tests_that_the_guarantees_name_exist():
    named = re.findall(r"`(tests/[^`]+)`", page("guarantees.md"))
    assert len(named) > 14
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert re.findall(r"^## (I\d+)", page("guarantees.md"), re.MULTILINE) == [f"I{n}" for n in range(1, 15)]


# ---- examples -------------------------------------------------------------------------------------------------------

EXAMPLES = [
    pytest.param(path, code, id=f"{name_of(path)}-{number}")
    for path in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL), start=1
    )
]
USUAL_ADDRESS = "http://127.0.0.1:8283"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with HttpDoor(tmp_path_factory.mktemp("served"), {}) as door:
        yield door.url


@pytest.mark.slow
@pytest.mark.parametrize(("path", "code"), EXAMPLES)
def test_python_examples_run(path: Path, code: str, address: str, tmp_path: Path):
    program = tmp_path / "example.py"
    program.write_text(code.replace(USUAL_ADDRESS, address), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env=environment(tmp_path, {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{path.name}:\n{code}\n{done.stderr}"


@pytest.mark.slow
def test_the_first_example_says_what_the_readme_shows(address: str, tmp_path: Path):
    first = next(example.values[1] for example in EXAMPLES if example.values[0] == ROOT / "README.md")
    program = tmp_path / "example.py"
    program.write_text(str(first).replace(USUAL_ADDRESS, address), encoding="utf-8")
    env = {**os.environ, **environment(tmp_path, {})}
    told = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["I noted: I like tea", "用户希望回答短一点", "I like tea"]
