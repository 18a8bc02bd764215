"""Run `fairseq-hydra-train` without the lines that fairseq's import logs: `python -m tupe.hydra_train ARGUMENT...`.

Some of fairseq's modules send the whole log, Hydra's own included, to the screen when they are imported. Hydra sets the
log up for the training, once it has composed the configuration.
"""

import logging
import signal
import sys


def main() -> None:
    """Import fairseq while the log goes nowhere, and train."""
    logging.basicConfig(handlers=[logging.NullHandler()], level=logging.WARNING, force=True)
    try:
        from fairseq_cli.hydra_train import cli_main

        cli_main()
    except KeyboardInterrupt:  # before the training listens to signals
        print("error: interrupted.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
