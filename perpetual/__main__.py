"""`python -m perpetual` is the command `perpetual`."""

from perpetual.entry import main

if __name__ == "__main__":
    main()
