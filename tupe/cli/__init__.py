"""The command `tupe`. Each other file here, save `main.py` and `_labels.py`, is one of its subcommands."""
