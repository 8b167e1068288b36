"""What the caller gets: evaluations, comparisons and their reports."""
