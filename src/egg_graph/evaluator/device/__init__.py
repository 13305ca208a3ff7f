"""The GPU as a device: detection, leases, the driver, clocks, shared memory; and a simulated GPU where there is none."""
