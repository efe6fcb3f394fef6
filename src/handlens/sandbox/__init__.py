"""Running an ONNX file that nobody trusts: read with limits, in a locked child process, asked through a pipe."""
