"""How far a backend may be from float64."""

import torch

#: Largest |got - exact| of an output or gradient over |exact| plus the root of its number of elements, by type: what is
#: zero because terms cancel is held to the bound of numbers of size 1. Triton's interpreter cuts bfloat16 numbers off,
#: where a GPU rounds them.
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 3e-3}
