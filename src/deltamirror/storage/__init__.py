"""Object stores: locations, and (through obstore) what lies there."""
