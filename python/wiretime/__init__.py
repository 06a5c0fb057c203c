"""Wiretime: a full-system simulator for host networking."""

__version__ = "0.1.0"
