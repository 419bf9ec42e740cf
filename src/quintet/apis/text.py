"""Text for messages and status fields."""


def truncate(text: str, longest: int) -> str:
    """Return the text, cut to `longest` characters; a cut text ends with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
