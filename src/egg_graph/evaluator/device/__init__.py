"""The GPU as a device: detection, leases, driver, clocks and shared memory; and a simulated GPU."""
