"""What a device can be told over MQTT: commands on `cmd/<verb>`, each answered on `resp/<verb>`."""
