"""What every benchmark is made of: units of work, the machine, tables, figures, reports."""
