"""What is MariaDB's own: nothing of it is needed for SQLite and PostgreSQL."""
