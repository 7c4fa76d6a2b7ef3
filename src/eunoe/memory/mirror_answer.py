"""What git says of a push, made out: taken, or why not.

Source: git-push(1), "OUTPUT", for ``--porcelain``; the sentences of git, curl and OpenSSH in English, which ``LC_ALL``
makes them speak.
"""

import re
from typing import Final

from msgspec import Struct

from eunoe.memory.mirror_address import without_secrets
from eunoe.state.mirrors import MirrorFault

_MAIN: Final = ":refs/heads/main\t"
_MOST_SAID: Final = 500
"""Characters of git's own words that are kept."""


class PushOutcome(Struct, frozen=True, kw_only=True):
    """How a push ended: whether main is there now, and what failed (``None``: nothing), with git's own words."""

    main_taken: bool
    fault: MirrorFault | None = None
    detail: str = ""


_SAID: Final[tuple[tuple[MirrorFault, re.Pattern[str]], ...]] = (
    (
        "unreachable",
        re.compile(
            r"could not resolve|name or service not known|temporary failure in name resolution|failed to connect"
            r"|couldn't connect|connection (?:refused|reset|closed|timed out)|timed out|network is unreachable"
            r"|no route to host|operation too slow|unexpected disconnect|early eof"
            r"|rpc failed|empty reply|broken pipe|gnutls|ssl_read|proxy connect aborted",
            re.IGNORECASE,
        ),
    ),
    (
        "access",
        re.compile(
            r"authentication failed|could not read (?:username|password)|permission denied|host key verification"
            r"|too many authentication failures|certificate|dubious ownership|access denied|unauthorized",
            re.IGNORECASE,
        ),
    ),
    (
        "missing",
        re.compile(
            r"does not appear to be a git repository|repository .*not found|no such file or directory",
            re.IGNORECASE,
        ),
    ),
)
"""What is said of a push that did not come to its references. The first that fits decides: the way comes first."""

_STATUS: Final = re.compile(r"(?:returned error:|HTTP) (\d{3})\b")
"""How curl and git tell the status of an HTTP answer."""

_OF_STATUS: Final[dict[int, MirrorFault]] = {
    **dict.fromkeys((401, 403, 407), "access"),
    **dict.fromkeys((404, 410), "missing"),
    **dict.fromkeys((408, 425, 429), "unreachable"),
}

_SAYS_NOTHING: Final = ("hint:", "Please make sure", "and the repository exists", "error: failed to push some refs")

_DIVERGED: Final = re.compile(r"\[rejected\]|non-fast-forward|\(fetch first\)|already exists")
_PASSING: Final = re.compile(r"cannot lock ref|failed to update ref|incorrect old value|remote failure")


def read_answer(code: int, stdout: str, stderr: str) -> PushOutcome:
    """Return what a push with this exit code and these words came to."""
    refused = [line for line in stdout.splitlines() if line.startswith("!")]
    main_taken = any(_MAIN in line and not line.startswith("!") for line in stdout.splitlines())
    if code == 0 and not refused:
        return PushOutcome(main_taken=main_taken)
    return PushOutcome(main_taken=main_taken, fault=_fault(refused, stderr), detail=_detail(refused, stderr))


def _fault(refused: list[str], stderr: str) -> MirrorFault:
    if refused:
        if all(_DIVERGED.search(line) for line in refused):
            return "diverged"
        others = [line for line in refused if not _DIVERGED.search(line)]
        return "unreachable" if all(_PASSING.search(line) for line in others) else "rejected"
    told = _STATUS.search(stderr)
    if told is not None:
        status = int(told[1])
        return _OF_STATUS.get(status, "rejected" if status < 500 else "unreachable")
    for fault, words in _SAID:
        if words.search(stderr):
            return fault
    return "unknown"


def _detail(refused: list[str], stderr: str) -> str:
    said = [line for line in stderr.splitlines() if line.strip() and not line.startswith(_SAYS_NOTHING)]
    names = [line.lstrip("!\t").partition(":")[2].replace("\t", " ") for line in refused]
    text = without_secrets(" ".join(" ".join([*names, *said]).split()))
    return "".join(character for character in text if character.isprintable())[:_MOST_SAID]
