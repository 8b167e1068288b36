"""What carries messages between a coordinator and its sites."""
