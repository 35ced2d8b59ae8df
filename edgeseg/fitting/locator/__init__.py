"""Locators learned in a fit, from good images alone."""
