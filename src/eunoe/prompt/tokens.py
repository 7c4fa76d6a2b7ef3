"""How many tokens a text costs, before a provider has said so."""


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text: its UTF-8 bytes divided by four, rounded up."""
    return tokens_of_bytes(utf8_length(text))


def utf8_length(text: str) -> int:
    """Return how many bytes a text has in UTF-8, without encoding it where that can be seen."""
    return len(text) if text.isascii() else len(text.encode())


def tokens_of_bytes(count: int) -> int:
    """Return the estimated number of tokens of so many bytes of UTF-8."""
    return -(-count // 4)
