"""Read Hopper's machine code for one mistake of a compiler: a register that is written while a product reads it.

`HGMMA` is asynchronous. Where its left operand is in registers, they may be written again only after
`WARPGROUP.DEPBAR` has waited for its group, or after a wait for the barrier that it sets when it has read them. ptxas
before CUDA 13.3 is reported to write earlier (triton-lang/triton pull request 11781).

Each loop that has products is read twice in a row, for what goes around it.
"""

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

NO_BARRIER = 7
#: Registers of a thread that an `HGMMA` reads as its left operand, 64 x 16 numbers of 16 bits.
OPERAND = 4
_OPERATION = re.compile(r"(?:@!?U?P[T\d]+\s+)?([A-Z][\w.]*)\s*(.*)")
#: What has a register as its first operand, and does not write it.
_READERS = {
    *("ST", "STG", "STS", "STL", "STSM", "LDGSTS", "RED", "R2UR", "R2P", "R2B", "BAR", "BRA", "BRX", "CALL", "RET"),
    *("EXIT", "NOP", "WARPSYNC", "WARPGROUP", "DEPBAR", "LDGDEPBAR", "MEMBAR", "FENCE", "SYNCS", "ERRBAR", "CCTL"),
    *("BSSY", "BSYNC", "ISETP", "FSETP", "HSETP2", "DSETP", "PLOP3", "VOTEU", "YIELD"),
}


@dataclass(frozen=True)
class Instruction:
    """One line of machine code.

    text: without its guard's effect, such as "FADD R4, R5, R6".
    waits: the barriers for which it waits, as bits.
    read_barrier: the barrier that it sets when its operands were read, `NO_BARRIER` for none.
    target: the number of the instruction to which it jumps, `None` where it does not.
    """

    text: str
    waits: int = 0
    read_barrier: int = NO_BARRIER
    target: int | None = None

    @property
    def guarded(self) -> bool:
        """Tell whether the instruction depends on a predicate."""
        return self.text.startswith("@") or re.match(r"BRA(?:\.\w+)* !?U?P\d", self.text) is not None

    @property
    def operation(self) -> str:
        return _OPERATION.match(self.text)[1]

    @property
    def operands(self) -> str:
        return _OPERATION.match(self.text)[2]

    def writes(self) -> range:
        """Return the registers that it writes."""
        name, *flags = self.operation.split(".")
        first = re.match(r"(?:U?P[T\d]+,\s*)*R(\d+)\b", self.operands)
        if first is None or name in _READERS or name.startswith("U"):
            return range(0)
        count = 1
        if name == "HGMMA":
            rows, columns, _ = map(int, flags[0].split("x"))
            count = rows * columns // 128 // (2 if "F16" in flags[1:2] else 1)
        elif "128" in flags or (name == "LDSM" and "4" in flags):
            count = 4
        elif {"64", "WIDE"} & set(flags) or name in ("HMMA", "CS2R") or (name == "LDSM" and "2" in flags):
            count = 4 if name == "HMMA" else 2
        return range(int(first[1]), int(first[1]) + count)

    def reads_as_operand(self) -> range:
        """Return the registers of the left operand of an `HGMMA`; none where it is in shared memory."""
        found = re.match(r"R\d+, R(\d+), g?desc", self.operands) if self.operation.startswith("HGMMA") else None
        return range(int(found[1]), int(found[1]) + OPERAND) if found else range(0)


def disassemble(cubin: bytes, nvdisasm: Path) -> str:
    """Return the machine code of a cubin as text, with its encoding."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([nvdisasm, "-c", "-hex", file.name], capture_output=True, text=True, check=True).stdout


def parse(text: str) -> tuple[list[Instruction], list[tuple[int, int]]]:
    """Return the instructions, and the first and last one of every loop."""
    code, labels, loops, jumps = [], {}, [], {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        found = re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;\s+/\* 0x[0-9a-f]{16} \*/", line)
        if found is None:
            continue
        upper = re.search(r"/\* 0x([0-9a-f]{16}) \*/", lines[number + 1]) if number + 1 < len(lines) else None
        control = int(upper[1], 16) if upper else NO_BARRIER << 49
        code.append(Instruction(found[1], control >> 52 & 63, control >> 49 & 7))
        jump = re.search(r"BRA(?:\.\w+)* .*`\((\.L_x_\d+)\)", found[1])
        if jump:
            jumps[len(code) - 1] = jump[1]
    for number, label in jumps.items():
        code[number] = replace(code[number], target=labels.get(label))
        if label in labels and labels[label] <= number:
            loops.append((labels[label], number))
    return code, loops


def early_writes(code: list[Instruction], loops: list[tuple[int, int]], waits: bool = True) -> list[str]:
    """Return a sentence for each register that is written while a product may still read it.

    Args:
        code, loops: as `parse` returns them.
        waits: `False` takes every wait away, a mistake made on purpose, which this must find.
    """
    found: dict[str, None] = {}
    for order in (range(len(code)), *((*range(a, b + 1), *range(a, b + 1)) for a, b in loops if _products(code, a, b))):
        group, flight = 0, []  # (number, registers, read barrier, group)
        for number in order:
            instruction = code[number]
            if waits:
                if done := re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\w+)", instruction.text):
                    flight = [each for each in flight if each[3] >= group - int(done[1], 16)]
                flight = [each for each in flight if each[2] == NO_BARRIER or not instruction.waits >> each[2] & 1]
            if not instruction.operation.startswith("HGMMA"):
                written = instruction.writes()
                for product, registers, _, _ in flight:
                    if set(registers) & set(written):
                        found[f"#{number} {instruction.text} writes what #{product} {code[product].text} reads"] = None
            elif operand := instruction.reads_as_operand():
                flight.append((number, operand, instruction.read_barrier, group))
            if instruction.operation.startswith("HGMMA") and "gsb0" in instruction.text:
                group += 1
    return list(found)


def inner_loop(code: list[Instruction], loops: list[tuple[int, int]]) -> Counter:
    """Return how often each operation occurs on the shortest way through the shortest loop with matrix products.

    That is the way of a tile that skips what only some tiles need, such as looking for hidden keys.
    """
    hot = [(a, b) for a, b in loops if _products(code, a, b)]
    if not hot:
        return Counter()
    first, last = min(hot, key=lambda loop: loop[1] - loop[0])
    ways: dict[int, tuple[int, int]] = {last: (1, last + 1)}  # instructions to the loop's end, and the next one
    for number in range(last - 1, first - 1, -1):
        jump, following = code[number].target, [number + 1]
        if jump is not None and number < jump <= last:
            following = [jump] if not code[number].guarded else [number + 1, jump]
        best = min(following, key=lambda other: ways[other][0])
        ways[number] = (ways[best][0] + 1, best)
    counts, number = Counter(), first
    while number <= last:
        counts[code[number].operation.split(".")[0]] += 1
        number = ways[number][1]
    return counts


def _products(code: list[Instruction], first: int, last: int) -> list[Instruction]:
    return [c for c in code[first : last + 1] if c.operation.split(".")[0] in ("HGMMA", "HMMA", "UTCHMMA", "QGMMA")]
