"""MariaDB's own ways: nothing of it is needed for SQLite and PostgreSQL."""
