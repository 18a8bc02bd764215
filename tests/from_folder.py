"""Run a module that is found in a folder first, as by PYTHONPATH, which a fork's Python has read long before.

python -m tests.from_folder FOLDER MODULE ARGUMENT...
"""

import runpy
import sys

if __name__ == "__main__":
    _, folder, module, *arguments = sys.argv
    sys.path.insert(0, folder)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
