"""How many tokens a text costs, before a provider has said so."""


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text: its UTF-8 bytes divided by four, rounded up."""
    return tokens_of_bytes(len(text.encode()))


def tokens_of_bytes(count: int) -> int:
    """Return the estimated number of tokens of so many bytes of UTF-8."""
    return -(-count // 4)
