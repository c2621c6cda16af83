import { defineError } from '@akrijs/sdk'

/** An MQTT broker cannot be reached, or refuses the credentials or a subscription. */
export class MqttBrokerError extends defineError('AKRI_ERR_MQTT_BROKER', 'transient') {}

/** A message is no announcement of a device: it is left out, and the list says why. */
export class MqttMessageError extends defineError('AKRI_ERR_MQTT_MESSAGE', 'terminal') {}
