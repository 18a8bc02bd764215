"""The command that installs the packages that only Transformers and ONNX need."""

TRANSFORMERS = "pip install '.[transformers]' (Python >= 3.11)"
ONNX = "pip install '.[transformers,onnx]' (Python >= 3.11)"
