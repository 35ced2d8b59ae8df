"""A folder per product: its approval, its golden check, and the change to the next one."""
