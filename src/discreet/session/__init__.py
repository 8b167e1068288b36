"""A session of a plan: both of its ends, sans-IO but for the ledger's file."""
