// What a client of the broker can make the handler keep and do: any device publishes what it likes.

/** The longest packet that is read, in bytes. An announcement has some kilobytes. */
export const MAX_PACKET_BYTES = 256 * 1024

/** The same of zigbee2mqtt: one message has all devices, with some kilobytes each. */
export const MAX_DEVICE_LIST_BYTES = 4 * 1024 * 1024

/** Devices in all. */
export const MAX_DEVICES = 1000

/** What messages say of devices: Home Assistant has a message for each entity of a device. */
export const MAX_PARTS = 5000
export const MAX_PARTS_OF_DEVICE = 200

/** Topics of a device that its properties name. */
export const MAX_TOPICS = 32

/** The longest text of a device that becomes an id or a property, in characters. */
export const MAX_TEXT = 256
