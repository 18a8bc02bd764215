"""The command that installs the packages that only Transformers and ONNX need."""

TRANSFORMERS = "pip install '.[transformers]'"
ONNX = "pip install '.[transformers,onnx]'"
