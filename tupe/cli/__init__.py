"""The command `tupe`. Each other file here, save `main.py`, is one of its subcommands."""
