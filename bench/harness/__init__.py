"""What every benchmark is made of: units of work, the machine, accuracy, tables, reports."""
