"""Examples and what is declared about them: scores, labels, edges, sources."""
