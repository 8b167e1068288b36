"""One HTTPS port: sites connect outwards, and every request is signed."""
