"""Run `fairseq-hydra-train` without the lines that fairseq's import logs: `python -m tupe.hydra_train ARGUMENT...`.

Some of fairseq's modules send the whole log, Hydra's own included, to the screen when they are imported. Hydra sets the
log up for the training, once it has composed the configuration.
"""

import argparse
import difflib
import logging
import signal
import sys
from pathlib import Path


def _refuse_unknown_configuration() -> None:
    """Exit with a sentence if `--config-dir` has no file `--config-name`: Hydra would compose fairseq's bare schema."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("--config-name", "-cn", default="config")
    args, _ = parser.parse_known_args()
    folder, name = args.config_dir, args.config_name.removesuffix(".yaml")
    if folder is not None and folder.is_dir() and not (folder / f"{name}.yaml").is_file():
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        near = "".join(f" (did you mean {one}?)" for one in difflib.get_close_matches(name, known, n=1))
        sys.exit(f"error: there is no configuration {folder / name}.yaml{near}: --config-name is {', '.join(known)}.")


def main() -> None:
    """Import fairseq while the log goes nowhere, and train."""
    _refuse_unknown_configuration()
    logging.basicConfig(handlers=[logging.NullHandler()], level=logging.WARNING, force=True)
    try:
        from fairseq_cli.hydra_train import cli_main

        cli_main()
    except KeyboardInterrupt:  # before the training listens to signals
        print("error: interrupted.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
