"""Privacy: units, losses, models, claims and the account of what was spent."""
