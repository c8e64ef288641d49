"""`python -m hanlattice`: what the program `hanlattice` does, where it is not on the path."""

from __future__ import annotations

from hanlattice.cli import main

if __name__ == "__main__":
    main()
