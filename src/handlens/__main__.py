"""`python -m handlens`."""

from handlens.cli import main

if __name__ == "__main__":
    main()
