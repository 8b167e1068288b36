"""Privacy models: what each promises, accepts and does by default."""
