"""The service: cameras in, MQTT messages out."""
