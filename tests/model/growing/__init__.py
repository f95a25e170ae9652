"""A model of partitions that grow while they are decided: owners, stale clients, a stale broker, crashes."""
