"""The command line. Parses, calls the core, prints; decides nothing."""
