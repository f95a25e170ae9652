"""An object store for tests: real requests of the S3 protocol, objects that a test can change as files."""
