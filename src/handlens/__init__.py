"""Four scientific-image challenges, from a data folder to a valid, exactly scored submission."""
