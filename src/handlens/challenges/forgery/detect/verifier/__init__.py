"""What a candidate match is worth: evidence, vetoes, features, and the verifier that turns them into a probability."""
