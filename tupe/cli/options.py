"""Arguments and options that several commands have."""

from typer import Argument, Option

CHECKPOINT = Argument(help="Checkpoint of this plugin.")
CORPUS = Argument(help="Prepared corpus, or an imported model.")
FOLDER = Argument(help="Folder to write.")
LANGUAGE = Option("en", help="Language of the text.")
NEW_FILE = Argument(help="New file.")
OVERRIDES = Argument([], metavar="key=value", help="Changes of the configuration.")
RULES = Option("squad", help="Rules by which answers are scored.")
WORKERS = Option(None, help="Processes; all cores by default.")
