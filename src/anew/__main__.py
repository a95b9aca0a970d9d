"""``python -m anew`` is ``anew``."""

from anew.cli import main

if __name__ == "__main__":
    main()
