"""The commands of `tupe`. Each is a function of the package, and has its parameters and docstring."""

import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

from tupe.util import UserError, import_user_package

#: Command -> the function, which is imported when the command runs, and its line in `tupe --help`.
COMMANDS = {
    "prepare-corpus": ("tupe.data.corpus:prepare_corpus", "Clean text, learn a vocabulary and encode."),
    "prepare-glue": ("tupe.data.glue.prepare:prepare_glue", "Prepare GLUE tasks, or your own."),
    "prepare-qa": ("tupe.data.questions:prepare_qa", "Prepare extractive question answering."),
    "prepare-translation": ("tupe.data.translation:prepare_translation", "Prepare parallel text."),
    "plan": ("tupe.cli.plan:plan", "Print the size and hours of a training run."),
    "pretrain": ("tupe.cli.plan:pretrain", "Pre-train a model, or train a translator."),
    "finetune": ("tupe.finetune.finetune:finetune", "Fine-tune a checkpoint on one task."),
    "sweep": ("tupe.finetune.sweep:sweep", "Fine-tune a checkpoint on a benchmark."),
    "table": ("tupe.finetune.table:table", "Print the table of sweeps."),
    "predict": ("tupe.finetune.predict:predict", "Predict test sets, and score them."),
    "qa-score": ("tupe.data.questions:qa_score", "Score answers by the official rules."),
    "systems": ("tupe.cli.listing:systems", "Print the named systems with their fields."),
    "describe": ("tupe.cli.models:describe", "Print a model's equation, parameters and cost."),
    "plot": ("tupe.cli.figures:plot", "Draw one of the papers' figures."),
    "report": ("tupe.cli.figures:report", "Compare models on one HTML page."),
    "loss-by-length": ("tupe.cli.figures:loss_by_length", "Print the loss in windows of several lengths."),
    "import": ("tupe.cli.models:import_", "Import a model from fairseq or Transformers."),
    "warm-start": ("tupe.cli.models:warm_start", "Convert a trained model to another position encoding."),
    "export": ("tupe.hf.export:export", "Write a model for Hugging Face Transformers."),
    "export-onnx": ("tupe.hf.onnx:export_onnx", "Write an exported model as an ONNX graph."),
    "convert average": ("tupe.checkpoints.edit:average", "Average checkpoints of a run."),
    "convert positions": ("tupe.checkpoints.edit:extend_positions", "Extend a checkpoint to more positions."),
    "convert electra": ("tupe.checkpoints.edit:export_discriminator", "Extract the discriminator of an ELECTRA model."),
    "convert release": ("tupe.checkpoints.release:convert_release", "Convert a checkpoint of the authors' code."),
    "doctor": ("tupe.cli.doctor:doctor", "Check this machine."),
    "user-dir": ("tupe.util:user_dir", "Print the folder for fairseq's --user-dir."),
    "config-dir": ("tupe.util:config_dir", "Print the folder of the configurations."),
}
_SETTINGS = {
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
_SECTIONS = re.compile(r"\n\n(?:Args|Returns|Raises):\n")


def listed(kind: Callable[[str], Any]) -> Callable[[str], list]:
    """Return a function that parses the value of an option `A,B` into a list."""
    return lambda text: [*map(kind, filter(None, text.split(",")))]


def command(function: Callable[..., Any]) -> TyperCommand:
    """Make a command from a function. The command prints the text or path that the function returns.

    Positional parameters become arguments, and keyword-only ones become options. The docstring's `Args:` are their
    help. A `Sequence` is any number of arguments, or an option `A,B`. A default may be typer's `Argument` or `Option`.
    """
    text, *sections = _SECTIONS.split(inspect.getdoc(function))
    about = dict(re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", "\n".join(sections), re.MULTILINE))
    hints, parameters = get_type_hints(function), []
    for name, parameter in inspect.signature(function).parameters.items():
        default, option, hint = parameter.default, parameter.kind is parameter.KEYWORD_ONLY, hints[name]
        settings: dict[str, Any] = {"help": about.get(name)}
        if get_origin(hint) is Sequence and option:
            hints[name], default = str, ""
            settings |= {"parser": listed(*get_args(hint)), "metavar": "A,B"}
        elif get_origin(hint) is Sequence:
            hints[name], default = list[get_args(hint)], []
        if not isinstance(default, ParameterInfo):
            make = typer.Option if option else typer.Argument
            flag = [f"--{name.replace('_', '-')}"] if option else []  # typer adds --no-NAME to a flag without a name
            default = make(... if default is parameter.empty else default, *flag, **settings)
        parameters.append(parameter.replace(default=default))

    def run(*args: Any, **options: Any) -> None:
        if isinstance(result := function(*args, **options), str | Path):
            print(result)

    run.__annotations__, run.__signature__ = hints, inspect.Signature(parameters)
    app = typer.Typer(add_completion=False, **_SETTINGS)
    app.command(help=re.sub(r"\n\n(?=tupe )", "\n\n\b\n", text))(run)  # keeps the line breaks of examples
    return typer.main.get_command(app)


class Lazy(TyperGroup):
    """Commands whose functions are imported when they run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple:
        """Return the name, the command and the arguments of a command line."""
        name, found, rest = super().resolve_command(ctx, args)
        if not isinstance(found, TyperGroup):
            found = load(f"convert {name}" if self.name == "convert" else name)
        return name, found, rest


def load(name: str) -> TyperCommand:
    """Import the function of a command, and make the command."""
    module, _, function = COMMANDS[name][0].partition(":")
    return command(getattr(importlib.import_module(module), function))


app = typer.Typer(
    cls=Lazy,
    help="Pre-train, compare and export encoders with TUPE's, DIET's and other position encodings.",
    no_args_is_help=True,
    **_SETTINGS,
)
convert = typer.Typer(cls=Lazy, help="Write a checkpoint in another form.", no_args_is_help=True, **_SETTINGS)
app.add_typer(convert, name="convert")
for _name, (_, _text) in COMMANDS.items():
    _group = convert if _name.startswith("convert ") else app
    _group.command(_name.removeprefix("convert "), help=_text)(lambda: None)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 1 after a `UserError`, 2 after a wrong argument."""
    given = sys.argv[1:] if argv is None else argv
    programs = str(Path(sys.executable).parent)  # has this environment's torchrun and fairseq's commands
    if programs not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    try:
        if given != ["user-dir"]:  # which scripts call before anything is imported
            import_user_package()
        logging.disable(logging.INFO)  # fairseq logs a lot
        app(given, prog_name="tupe")
    except SystemExit as end:
        return end.code
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
