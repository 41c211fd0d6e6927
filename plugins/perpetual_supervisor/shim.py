"""The program `python -I -S shim.py RUN_DIR`: leaves the launcher and its session, and is the run's supervisor.

`rundir.py` starts it (without -S on macOS, where identity needs psutil). What it does is in `supervisor.py`: a module,
whose bytecode is cached, while a program is compiled at each start. So next to nothing is here.
"""

import os
import sys


def main(argv: list[str]) -> int:
    """Detaches from the launcher and supervises the run of the directory `argv[1]`; returns the exit status."""
    if len(argv) != 2:
        sys.stderr.write("usage: shim.py RUN_DIR\n")
        return 2
    run_dir = os.path.abspath(argv[1])
    if os.fork():  # before the imports: a small process is forked sooner
        os._exit(0)
    os.setsid()
    if "perpetual_supervisor" not in sys.modules:
        _offer_modules()
    from perpetual_supervisor import supervisor

    return supervisor.main(run_dir)


def _offer_modules() -> None:
    """Makes this package and `perpetual.toolkit` importable from where they lie, and nothing else that is installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(here)
    # Installed, the packages lie side by side; in a checkout the plugins have a folder of their own.
    toolkits = [os.path.join(root, "perpetual", "toolkit") for root in (above, os.path.dirname(above))]
    toolkit = next((each for each in toolkits if os.path.isdir(each)), toolkits[0])
    for name, places in (("perpetual", []), ("perpetual.toolkit", [toolkit]), ("perpetual_supervisor", [here])):
        package = type(sys)(name)
        package.__path__ = places
        sys.modules[name] = package


if __name__ == "__main__":
    code = main(sys.argv)
    # The interpreter has nothing left to tidy, and a launch is billed for its CPU.
    os._exit(code)
