"""``python -m deltamirror.cli`` is the command ``deltamirror``."""

from deltamirror.cli.main import main

if __name__ == "__main__":
    main()
