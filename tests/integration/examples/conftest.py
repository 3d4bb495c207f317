from tests.kit.airports import airports, airports_database
from tests.kit.payments import payments

__all__ = ["airports", "airports_database", "payments"]
