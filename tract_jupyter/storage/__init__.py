"""The database: its tables, transactions and errors."""
