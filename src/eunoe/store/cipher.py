"""How secrets are encrypted at rest (I14).

AES-256-GCM with a random 96-bit nonce (NIST SP 800-38D). A sealed value is one version byte (1), the nonce, then the
ciphertext with its tag. What the value belongs to goes in as associated data, so that a value moved to another row
does not open.
"""

import base64
import binascii
import os
from pathlib import Path
from typing import Final

from eunoe.state.errors import StoreError

KEY_VARIABLE: Final = "EUNOE_SECRET_KEY"
"""Environment variable with the key: 32 bytes in base64."""

KEY_FILE: Final = "secret.key"
"""Name of the key's file, beside the database, when the variable is not set."""

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_VERSION: Final = b"\x01"


class Cipher:
    """Encrypts and decrypts with one key. Raises ``StoreError`` for a key that is not 32 bytes long."""

    def __init__(self, key: bytes) -> None:
        # Imported here because it costs some 30 ms and most commands never touch a secret.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(key) != _KEY_BYTES:
            raise StoreError(f"The key for secrets has {len(key)} bytes; it must have {_KEY_BYTES}.")
        self._aead = AESGCM(key)

    def seal(self, value: str, *, belongs_to: str) -> bytes:
        """Return ``value`` encrypted."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._aead.encrypt(nonce, value.encode(), belongs_to.encode())

    def unseal(self, sealed: bytes, *, belongs_to: str) -> str:
        """Return the value again. Raises ``StoreError`` when the key is another one or the bytes were changed."""
        from cryptography.exceptions import InvalidTag

        if sealed[:1] != _VERSION:
            raise StoreError("A secret is stored in a form that this Eunoe does not know. Upgrade Eunoe to read it.")
        nonce, ciphertext = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._aead.decrypt(nonce, ciphertext, belongs_to.encode()).decode()
        except InvalidTag:
            raise StoreError(
                f"A secret cannot be decrypted: its key is not the one in use. Set {KEY_VARIABLE} to the key that it "
                f"was stored with, or put that key's {KEY_FILE} back beside the database; or set the secret anew."
            ) from None


def load_cipher(database: Path) -> Cipher:
    """Return the cipher of a store: key from ``EUNOE_SECRET_KEY``, or from the file beside the database.

    The file is made on first use, readable by its owner only. Raises ``StoreError`` for a key that is not 32 bytes in
    base64 or a file that cannot be read or made.
    """
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return Cipher(_decoded(given, f"The environment variable {KEY_VARIABLE}"))
    path = database.with_name(KEY_FILE)
    try:
        if not path.exists():
            _create(path)
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"The key for secrets in {path} cannot be read or made ({error.__class__.__name__}). "
            f"Mend its permissions, or set {KEY_VARIABLE}."
        ) from error
    return Cipher(_decoded(text, f"The file {path}"))


def _create(path: Path) -> None:
    """Make the key's file whole or not at all; when another process made it meanwhile, leave that one."""
    unfinished = path.with_name(f"{KEY_FILE}.{os.getpid()}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64encode(os.urandom(_KEY_BYTES)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return
    finally:
        unfinished.unlink()


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        # The error of the decoder is left out: it could show the key.
        raise StoreError(f"{where} does not hold a key: {_KEY_BYTES} bytes in base64.") from None
