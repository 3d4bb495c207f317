from tests.kit.payments import payments

__all__ = ["payments"]
