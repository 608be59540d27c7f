"""`python -m mars_cli` is `mars`."""

from mars_cli.cli import main

if __name__ == "__main__":
    main()
