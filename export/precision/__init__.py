"""Write graphs in fewer bits, and choose which layers stay exact."""
