"""At the data holder: sources of examples, and the answer to a plan."""
