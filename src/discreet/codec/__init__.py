"""The bytes of the package: binary messages, and TOML and JSON documents."""
