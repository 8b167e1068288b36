"""``python -m discreet`` is the command ``discreet``, where no script is on the path."""

from discreet.cli.main import main

if __name__ == "__main__":
    main()
