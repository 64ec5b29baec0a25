"""How many of something, as people say it: the one place that knows of plurals, for all layers."""


def counted(count: int, one: str, several: str | None = None) -> str:
    """As `1 segment`, `2 segments`; `several` where it is not `one` with an s."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"
