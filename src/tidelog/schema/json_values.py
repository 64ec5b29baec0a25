"""What JSON has no form of its own for, as all of our JSON has it: lines of the command line, facts of a report."""

import base64
import math


def bytes_to_json(data: bytes) -> str | dict[str, str]:
    """Text if they are UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def float_to_json(value: float) -> float | str:
    """A number, or the name of what is none, as Protobuf spells it: `NaN` bare would end whoever reads the line."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
