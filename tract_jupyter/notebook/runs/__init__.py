"""What a person sees of runs: graph, time line, prompt, profiles; and the magics for them."""
