"""Large data of commands and events: payloads are files in a payload store, named by SHA-256 (docs/payloads.md)."""
