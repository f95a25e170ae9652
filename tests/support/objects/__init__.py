"""An object store for tests: real requests of the S3 protocol, with objects that a test can change as files."""
