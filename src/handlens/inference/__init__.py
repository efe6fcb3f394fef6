"""How predictors are run: ONNX sessions, tiles, test-time augmentation, threads, processes."""
