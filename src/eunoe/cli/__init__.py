"""The terminal: the ``eunoe`` command."""
