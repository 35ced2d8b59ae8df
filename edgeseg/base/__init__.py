"""What every room may use: errors, files, progress, options. It imports no other room."""
