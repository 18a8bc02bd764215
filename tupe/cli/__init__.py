"""The command `tupe`. Each other file here, save `main.py` and those with a `_`, is one of its subcommands."""
