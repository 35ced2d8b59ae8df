"""What every room may use: errors, files, progress and options. This room imports no other."""
