"""The papers behind discreet, measured again: their numbers beside ours."""
