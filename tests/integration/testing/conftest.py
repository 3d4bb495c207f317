from tests.integration.core.conftest import database, define, house, without_flush

__all__ = ["database", "define", "house", "without_flush"]
