"""NIC settings that are lost at a boot: queues, read requests, flow control."""
