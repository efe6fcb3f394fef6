"""Running an untrusted ONNX file: read with limits, in a locked child process, queried through a pipe."""
