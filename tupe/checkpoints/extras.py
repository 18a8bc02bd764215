"""How to get the packages that only Transformers and ONNX need."""

TRANSFORMERS = "pip install 'tupe[transformers]' (Python >= 3.11)"
ONNX = "pip install 'tupe[transformers,onnx]' (Python >= 3.11)"
