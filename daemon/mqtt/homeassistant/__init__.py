"""Home Assistant finds the device by itself: MQTT discovery, one retained message per device."""
