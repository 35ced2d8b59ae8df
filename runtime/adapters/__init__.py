"""Adapters: PLCs, brokers, services and programs trigger the station and read its results."""
