"""Speed and size against a floor that is measured in the same run: ``python -m bench``."""
