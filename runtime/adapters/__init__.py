"""How others trigger the station and read its results: PLCs, brokers, services, programs."""
