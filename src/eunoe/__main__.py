"""``python -m eunoe`` is the ``eunoe`` command."""

from eunoe.cli.main import main

if __name__ == "__main__":
    main()
