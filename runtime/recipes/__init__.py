"""A folder per product: model, region, operating point and golden pictures."""
