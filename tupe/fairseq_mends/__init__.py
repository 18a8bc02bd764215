"""What fairseq needs on today's Python and PyTorch, applied by importing this package, once.

Each file mends the traps of one subject: a function of fairseq is wrapped (`mend.mends`), or one of its modules sees a
library with a few names replaced (`mend.overlay`); both refuse a fairseq for which the mend was not made. Runs of other
models in the same process stay fairseq's (`ours`). A mend can go when fairseq no longer does what its docstring says.
"""

from tupe.fairseq_mends import (  # noqa: F401
    data,
    dictionaries,
    ending,
    failures,
    folders,
    launch,
    loading,
    names,
    numpy2,
    paths,
    precision,
    printing,
    ranges,
    resume,
    seeds,
    stop,
    translation,
    uneven,
    validation,
)
from tupe.fairseq_mends.dictionaries import dictionary_sha256
from tupe.fairseq_mends.ours import serve

__all__ = ["dictionary_sha256", "serve"]
