"""Pictures of retry policies: `data` says what is drawn, `terminal` and `figures` draw it, `classics` are known ones."""
