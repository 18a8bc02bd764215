"""Write the records of a study as Markdown tables: every number is read from the files."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from scipy.special import stdtrit
from scipy.stats import spearmanr

from lab.design import BASELINE, CONTROL, Design, Run
from lab.records import Record, best_rate
from tupe.analysis.curves import TrainingLog, reaches
from tupe.analysis.heads import PATTERNS
from tupe.finetune.columns import GLUE, Column

#: Systems whose final losses the others are to reach; "" is the baseline.
TARGETS = (CONTROL, "", "bert_r", "bert_a_warm")
#: What distinguishes the first of two systems from the second.
STEPS = (
    ("TUPE's scale of the content", "bert_a_scaled", BASELINE),
    ("untied positions, the reset, and that scale", "tupe_a_plain", BASELINE),
    ("the layer norm of untied positions", "tupe_a", "tupe_a_plain"),
    ("the reset", "tupe_a", "tupe_a_tie_cls"),
    ("the products of content with untied positions", "bert_ad", "tupe_a_tie_cls"),
    ("T5's bias, on untied positions", "tupe_r", "tupe_a"),
    ("T5's bias, on added positions", "bert_r", BASELINE),
    ("all that TUPE-A has", "tupe_a", BASELINE),
    ("a warm-up of 10% instead of 2%, on added positions", "bert_a_warm", BASELINE),
    ("a warm-up of 10%, on untied positions", "tupe_a_warm", "tupe_a"),
    ("all that TUPE-A has, with that warm-up", "tupe_a_warm", "bert_a_warm"),
)
_MODES = ("training", "inference")
_NONE = "–"
#: A model this many bits below the model without positions has learned word order.
_ORDER = 0.1


class Results:
    """Records of a study, with the look-ups that tables need."""

    def __init__(self, design: Design, records: dict[Run, Record]) -> None:
        self.design, self.records = design, records

    def of(self, part: str, system: str, at: str = "") -> dict[int, Record]:
        """Map each seed to the system's record of a part."""
        runs = [run for run in self.records if (run.part, run.system, run.at) == (part, system, at)]
        return {run.seed: self.records[run] for run in runs}

    def finals(self, system: str) -> dict[int, Record]:
        return self.of("final", system)

    def shorts(self, system: str, updates: int) -> dict[int, Record]:
        """Map each seed to the system's short run of this number of updates; 0 is the loss before any."""
        return self.of("short", system, str(updates))

    def losses(self, system: str, updates: int | None = None) -> list[float]:
        """Return the final losses of a system's pre-trainings, or of its short runs of so many updates."""
        found = self.finals(system) if updates is None else self.shorts(system, updates)
        return [record.loss for record in found.values()]

    def differences(self, system: str, target: str) -> list[float]:
        """Return, seed by seed, how much higher the final loss of a system is than the target's."""
        return [ours.loss - theirs.loss for ours, theirs in paired(self.finals(system), self.finals(target))]

    @property
    def trained(self) -> list[str]:
        """The systems that have been pre-trained, in the order of the design."""
        return [name for name in self.design.systems if self.finals(name)]

    @property
    def systems(self) -> list[str]:
        """The systems in `trained` without their variants, plus the model without positions."""
        return [name for name in self.trained if name in (CONTROL, self.design.model(name))]

    @property
    def columns(self) -> list[Column]:
        """The columns of the tasks that are fine-tuned."""
        return [column for task in self.design.finetuning.tasks for column in GLUE if column.task == task]

    def scores(self, system: str, column: Column, at: str) -> dict[int, float]:
        """Map each pre-training seed to the median over fine-tuning seeds, at the rate best for the first column."""
        first = next(one for one in GLUE if one.task == column.task)
        found = {}
        for seed, record in self.of("glue", system, at).items():
            rates = (record.scores.get(one.name, {}) for one in (first, column))
            choice, ours = ({lr: statistics.median(some) for lr, some in of.items() if some} for of in rates)
            best = max(choice, key=choice.get, default=None)
            if best in ours:
                found[seed] = ours[best]
        return found

    def averages(self, system: str, at: str) -> list[float]:
        """Average the scores of all tasks, as GLUE does, for each pre-training that has all of them."""
        of_tasks = [self.scores(system, column, at) for column in self.columns]
        seeds = set.intersection(*map(set, of_tasks)) if of_tasks else ()
        return [statistics.fmean(scores[seed] for scores in of_tasks) for seed in sorted(seeds)]

    def losses_and_scores(self, system: str, column: Column, at: str) -> list[tuple[float, float]]:
        """Pair the validation loss and the score of each checkpoint that was fine-tuned."""
        curves = {seed: dict(map(tuple, record.curve)) for seed, record in self.finals(system).items()}
        losses = {seed: curve.get(self.design.after(at)) for seed, curve in curves.items()}
        scores = self.scores(system, column, at).items()
        return [(losses[seed], score) for seed, score in scores if losses.get(seed) is not None]

    @property
    def cost(self) -> Record | None:
        """The measured costs of the systems."""
        return self.records.get(Run("cost", "all", 1))

    def start_cost(self, system: str) -> list[float]:
        """Return the time of a row's warm starts, in updates of its longest short run."""
        longest, starts = self.design.short[-1], self.of("start", system)
        runs = self.shorts(system, longest).items()
        pairs = [(starts[seed], record) for seed, record in runs if seed in starts and record.processor_seconds]
        return [start.seconds * longest / record.processor_seconds for start, record in pairs]


def paired(ours: dict[int, Record], theirs: dict[int, Record]) -> list[tuple[Record, Record]]:
    """Pair the runs of the same seed, which see the same data and masks."""
    return [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]


def state(results: Results) -> list[str]:
    """Write which records exist and which are missing, where runs were done, and how long they took."""
    design, records = results.design, results.records
    runs = list(design.runs())
    if not any(record.curve for record in records.values()):
        return ["No run of this size has been done yet."]
    hours = sum(record.processor_seconds for record in records.values()) / 3600
    hosts = dict.fromkeys(record.host.get("gpu", record.host["processor"]) for record in records.values())
    torch = sorted({record.versions["torch"] for record in records.values()})
    done = f"{len(records)} of {len(runs)} runs, {hours:.1f} processor hours"
    lines = [f"{done}, on {', '.join(hosts)}; PyTorch {', '.join(torch)}."]
    missing = Counter(run.part for run in runs if run not in records)
    if missing:
        lines.append(f"Missing: {', '.join(f'{number} of `{part}`' for part, number in missing.items())}.")
    return lines


def pretraining(results: Results) -> list[str]:
    """Write the final validation loss of every system, and which systems have not learned word order."""
    design, rows, without = results.design, [], []
    baseline = design.baseline
    for name in results.trained:
        finals = list(results.finals(name).values())
        difference = [] if name == baseline else results.differences(name, baseline)
        order = results.differences(CONTROL, name)
        if order and name != CONTROL and statistics.fmean(order) < _ORDER:
            without.append(design.label(name))
        right = [record.accuracy for record in finals if record.accuracy is not None]
        about = (design.label(name), f"{finals[0].parameters:,}", f"{finals[0].lr:g}", str(len(finals)))
        rows.append((*about, _spread(results.losses(name), 3), _interval(difference, 3, sign="+"), _mean(right)))
    about = ("system", "parameters", "learning rate", "seeds")
    lines = _table((*about, "validation loss, bits", f"minus {design.label(baseline)}'s", "right, %"), rows)
    if without:
        label = design.label(CONTROL)
        lines += ["", f"Still on the plateau, less than {_ORDER} bits below {label}: {', '.join(without)}."]
    return lines + _one_seed(results, results.trained)


def everything(*studies: Results) -> list[str]:
    """Write the systems of several studies by loss, with the difference of each from TUPE-A in its study."""
    rows = []
    for results in studies:
        for name in results.systems:
            losses = results.losses(name)
            difference = [] if name == "tupe_a" else results.differences(name, "tupe_a")
            cells = (str(len(losses)), _spread(losses, 3), _interval(difference, 3, sign="+"))
            rows.append((statistics.fmean(losses), (results.design.label(name), results.design.name, *cells)))
    head = ("system", "study", "seeds", "validation loss, bits", "minus TUPE-A's, same study and seeds")
    return _table(head, [cells for _, cells in sorted(rows)])


def summary(results: Results) -> list[str]:
    """Write one row for each of the papers' systems, the lowest loss first, without variants of a system."""
    design, rows = results.design, []
    costs = results.cost.times if results.cost else {}
    for name in results.systems:
        losses, times = results.losses(name), costs.get(name, {})
        about = (design.label(name), str(len(losses)), _spread(losses, 3), _share(results, name, design.baseline))
        cells = (f"{times[mode][1]:.2f}" if mode in times else _NONE for mode in _MODES)
        rows.append((statistics.fmean(losses), (*about, _spread(results.averages(name, "end"), 1), *cells)))
    reached = f"{design.label(design.baseline)}'s final loss after"
    scores = f"mean of {', '.join(column.name for column in results.columns)}"
    head = ("system", "seeds", "validation loss, bits", reached, scores, *(f"time, {mode}" for mode in _MODES))
    return _table(head, [cells for _, cells in sorted(rows)]) + _one_seed(results, results.systems)


def shares(results: Results) -> list[str]:
    """Write the share of the updates after which systems reach the baselines' final losses."""
    label, targets = results.design.label, [target or results.design.baseline for target in TARGETS]
    targets = [target for target in dict.fromkeys(targets) if results.finals(target)]
    rows = [(label(name), *(_share(results, name, target) for target in targets)) for name in results.trained]
    return _table(("system", *(f"final loss of {label(target)} after" for target in targets)), rows)


def ablations(results: Results) -> list[str]:
    """Write how much each step between two systems changes the final loss."""
    label, rows, shown = results.design.label, [], {}
    for what, name, without in STEPS:
        if change := results.differences(name, without):
            rows.append((what, f"{label(name)}, {label(without)}", str(len(change)), _interval(change, 3, sign="+")))
            shown |= {name: None, without: None}
    head = ("what is added", "with it, without it", "seeds", "validation loss, bits")
    return _table(head, rows) + _one_seed(results, list(shown))


def rates(results: Results) -> list[str]:
    """Write the search: the loss at each learning rate, the best of each system in bold."""
    design, rows, at_edge = results.design, [], []
    columns = sorted({lr for name in design.systems for lr in design.rates(name)})
    for name in design.systems:
        found = {run.lr: results.records[run].loss for run in design.searches(name) if run in results.records}
        if not found:
            continue
        best, tried = best_rate(design, name, results.records), design.rates(name)
        texts = [f"{found[lr]:.3f}".replace("inf", "diverged") if lr in found else _NONE for lr in columns]
        rows.append((design.label(name), *(f"**{t}**" if lr == best else t for t, lr in zip(texts, columns))))
        if best in (tried[0], tried[-1]):
            at_edge.append(f"{design.label(name)} ({best:g})")
    lines = _table(("system", *(f"{lr:g}" for lr in columns)), rows)
    if at_edge:
        lines += ["", f"Best at an end of the search, so that a rate beyond it may be better: {', '.join(at_edge)}."]
    return lines


def glue(results: Results) -> list[str]:
    """Write the scores of the fine-tuned checkpoints, at the end and after `mid` updates."""
    design, rows = results.design, []
    for name in design.systems:
        for at in ("mid", "end"):
            scores = [list(results.scores(name, column, at).values()) for column in results.columns]
            if any(scores):
                about = (design.label(name), f"{design.after(at):,}", str(max(map(len, scores))))
                rows.append((*about, *(_spread(found, 1) for found in (*scores, results.averages(name, at)))))
    return _table(("system", "updates", "seeds", *(column.name for column in results.columns), "average"), rows)


def correlation(results: Results) -> list[str]:
    """Write Spearman's rank correlation between loss and score over the checkpoints."""
    rows = []
    for column in results.columns:
        ends, mids = (
            [pair for name in results.design.systems for pair in results.losses_and_scores(name, column, at)]
            for at in ("end", "mid")
        )
        if len(ends + mids) > 2:
            rows.append((column.name, _rank(ends), _rank(ends + mids if mids else [])))
    return _table(("score", "ends alone", f"with those after {results.design.mid:,} updates"), rows)


def length(results: Results) -> list[str]:
    """Write the final loss in both halves of sequences, at the length of training and beyond."""
    design, rows, head = results.design, [], ["system"]
    for n in design.lengths:
        head += [f"{n}: positions 1 to {n // 2 - 1}", f"{n // 2} to {n - 1}"]  # position 0 is [CLS]
    for name in results.trained:
        found = [record.loss_by_position for record in results.finals(name).values() if record.loss_by_position]
        cells = []
        for n in design.lengths:
            losses = [loss[str(n)] for loss in found if str(n) in loss]
            for half in (slice(1, n // 2), slice(n // 2, n)):
                masked = [[bits for bits in loss[half] if bits] for loss in losses]
                cells.append(_spread([statistics.fmean(bits) for bits in masked if bits], 3))
        if found:
            rows.append((design.label(name), *cells))
    return _table(head, rows)


def longer(results: Results) -> list[str]:
    """Write the final loss at the length of training, and its change for the same masked tokens in longer windows.

    A model whose positions end with a table slides windows of its own length over the text, so that nothing changes.
    """
    design, rows = results.design, []
    for name in results.trained:
        records = [record.loss_by_length for record in results.finals(name).values() if record.loss_by_length]
        for extension in dict.fromkeys(extension for found in records for extension in found):
            found = [record[extension] for record in records if extension in record]
            plain = [record["none"] for record in records]
            trained = [next(loss["bits"] for loss in of.values() if not loss["half_interval"]) for of in plain]
            changes = [[of[n]["difference"] for of in found if n in of] for n in map(str, design.lengths)]
            cells = [_interval(of, 3, "+") if any(of) else "0" if of else "0 (slid)" for of in changes]
            label = design.label(name) + ("" if extension == "none" else f", {extension}")
            rows.append((label, _spread(trained, 3), *cells))
    return _table(("system", "loss at the length of training", *(f"{n}" for n in design.lengths)), rows)


def starts(results: Results) -> list[str]:
    """Write the losses of the short runs, the time of their starts, and when they reach the loss of a whole run."""
    design, rows = results.design, []
    longest = design.short[-1]
    going_on = next((n for n, row in design.started.items() if design.model(n) == design.model(row.start.row)), "")
    for name in design.started:
        losses = {updates: results.losses(name, updates) for updates in design.short}
        if not any(losses.values()):
            continue
        both = paired(results.shorts(name, longest), results.shorts(going_on, longest))
        difference = [] if name == going_on else [ours.loss - theirs.loss for ours, theirs in both]
        cost = results.start_cost(name)
        cells = (
            str(max(map(len, losses.values()))),
            f"{statistics.fmean(cost):,.0f}" if cost else _NONE,
            *(_spread(found, 3) for found in losses.values()),
            _interval(difference, 3, "+"),
            _whole_reached(results, name, losses),
        )
        rows.append((design.label(name), *cells))
    lengths = [f"{updates:,}" if updates else "at once" for updates in design.short]
    minus = f"minus {design.label(going_on)}'s" if going_on else "minus that of the old model trained on"
    head = ("", "seeds", "start, in updates", *lengths, minus, f"reaches its loss after {design.updates:,} at")
    lines = _table(head, rows)
    whole = [f"{design.label(name)} {_spread(results.losses(name), 3)}" for name in results.trained]
    return [*lines, "", f"After {design.updates:,} updates from scratch: {', '.join(whole)}."] if whole else lines


def _whole_reached(results: Results, name: str, losses: dict[int, list[float]]) -> str:
    """Return after how many updates the mean loss reaches that of the row's system trained in full from scratch."""
    design = results.design
    same = [other for other in results.trained if design.model(other) == design.model(name)]
    if not same:
        return _NONE
    target = statistics.fmean(results.losses(same[0]))
    means = {updates: statistics.fmean(found) for updates, found in losses.items() if found}
    first = next((updates for updates, loss in means.items() if loss <= target), None)
    return f"not by {max(means):,}" if first is None else f"{first:,}" if first else "once"


def heads(results: Results) -> list[str]:
    """Write how many heads have each pattern of position correlation, as a mean over the seeds."""
    rows = []
    for name in results.trained:
        found = [record.heads for record in results.finals(name).values() if record.heads]
        if found:
            means = (_mean([counts.get(pattern, 0) for counts in found]) for pattern in PATTERNS)
            rows.append((results.design.label(name), *means))
    return _table(("system", *PATTERNS), rows)


def cost(results: Results) -> list[str]:
    """Write the time of a training step and of inference, divided by the first system's."""
    record, rows = results.cost, []
    if record is None:
        return ["Nothing yet."]
    for rival, modes in record.times.items():
        cells = ("{1:.2f} ({0:.2f}-{2:.2f})".format(*modes[mode]) if mode in modes else _NONE for mode in _MODES)
        rows.append((results.design.label(rival), *cells))
    return [*_table(("system", *_MODES), rows), "", f"{record.conditions}."]


_TABLES = (state, everything, summary, pretraining, shares, ablations, rates)
_TABLES += (glue, correlation, length, longer, starts, heads, cost)
#: Name of a mark in a document -> the function that writes the table there.
BLOCKS: dict[str, Callable[..., list[str]]] = {table.__name__: table for table in _TABLES}


def _one_seed(results: Results, names: Sequence[str]) -> list[str]:
    """List which of the compared systems have only one seed, so that their differences mean nothing."""
    single = [results.design.label(name) for name in names if len(results.finals(name)) == 1]
    if not single or len(names) < 2:
        return []
    which = "All have" if len(single) == len(names) else f"{', '.join(single)}: there is"
    return ["", f"{which} one seed: a difference from another system may come from the seed, and means nothing."]


def _share(results: Results, name: str, target: str) -> str:
    """Return after which fraction of a system's updates the target's final loss is reached, seed by seed.

    The loss is interpolated linearly between validations.
    """
    both = paired(results.finals(name), results.finals(target))
    if name == target or not both:
        return _NONE
    reached = []
    for ours, theirs in both:
        log = TrainingLog({}, {update: {"loss": loss} for update, loss in ours.curve})
        if (update := reaches(log, theirs.loss)) is not None:
            reached.append(100 * update / ours.curve[-1][0])
    if not reached:
        return "never"
    text = f"{_interval(reached, 0, limits=(0, 100))}%"
    return text if len(reached) == len(both) else f"{text}; {len(both) - len(reached)} of {len(both)} never"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1), *lines] if lines else ["Nothing yet."]


def _rank(pairs: Sequence[tuple[float, float]]) -> str:
    """Format Spearman's rank correlation, with the number of pairs."""
    return f"{spearmanr(pairs).statistic:+.2f} of {len(pairs)}" if len(pairs) > 2 else _NONE


def _mean(values: Sequence[float], digits: int = 1, sign: str = "") -> str:
    return f"{statistics.fmean(values):{sign}.{digits}f}" if values else _NONE


def _spread(values: Sequence[float], digits: int) -> str:
    """Format mean ± standard deviation."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{_mean(values, digits)}{spread}"


def _interval(
    values: Sequence[float], digits: int, sign: str = "", limits: tuple[float, float] = (-math.inf, math.inf)
) -> str:
    """Format the mean with its 95% interval by Student's t, cut at the limits; a single value without one."""
    text, number = _mean(values, digits, sign), len(values)
    if number < 2:
        return text
    half = stdtrit(number - 1, 0.975) * statistics.stdev(values) / math.sqrt(number)
    low, high = (min(max(statistics.fmean(values) + end, limits[0]), limits[1]) for end in (-half, half))
    return f"{text} [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"
