"""The study, the quickstart and the benchmarks of this repository. They are not installed with the plugin.

Run them from a clone: `python -m lab.study`, or `bash scripts/study.sh`.
"""

import logging
import sys

if sys.argv[0] == "-m":  # one of these modules is the program; fairseq logs a lot while it is imported
    logging.disable(logging.INFO)
