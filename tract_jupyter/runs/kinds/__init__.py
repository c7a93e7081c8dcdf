"""What an operation does inside: a kind reads its `params` and makes a value or effects of its context."""
