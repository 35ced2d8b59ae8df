"""Recipes, a folder per product: the approval, the golden check, and the changeover."""
