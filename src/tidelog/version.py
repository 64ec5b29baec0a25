"""The version, in one place, without any import."""

__version__ = "0.1.0"
