"""Eunoe: a runtime for agents that stop and come back whole."""

__version__ = "0.1.0"
