/** What people call a device, and what tells it from others of its kind. */
export interface DeviceTitle {
  readonly title: string
  /** @default '' */
  readonly detail: string
}

type Properties = Readonly<Record<string, string>>

/** Properties that together name a device, of the best kind first. */
const NAMES: readonly (readonly string[])[] = [
  ['ONVIF_DEVICE_MANUFACTURER', 'ONVIF_DEVICE_MODEL'],
  ['SSDP_FRIENDLY_NAME'],
  ['OPCUA_APPLICATION_NAME'],
  ['OPCUA_MANUFACTURER', 'OPCUA_PRODUCT_NAME'],
  ['MDNS_SERVICE_NAME'],
  ['MQTT_NAME'],
  ['SNMP_NAME'],
  ['MODBUS_VENDOR_NAME', 'MODBUS_PRODUCT_NAME'],
  ['USB_MANUFACTURER', 'USB_PRODUCT'],
  ['UDEV_PRODUCT'],
  ['DEBUG_ECHO_DESCRIPTION'],
  ['SSDP_MANUFACTURER', 'SSDP_MODEL_NAME'],
  ['UDEV_DEVNODE'],
]

/** Properties that tell a device from another one with the same name. */
const DETAILS: readonly string[] = [
  'ONVIF_DEVICE_SERIAL_NUMBER',
  'ONVIF_DEVICE_IP_ADDRESS',
  'ONVIF_DEVICE_SERVICE_URL',
  'SSDP_MODEL_NAME',
  'SSDP_ADDRESS',
  'OPCUA_DISCOVERY_URL',
  'MDNS_ADDRESS',
  'MQTT_MODEL',
  'MQTT_TOPIC',
  'MODBUS_ADDRESS',
  'SNMP_ADDRESS',
  'MDNS_HOST',
  'USB_SERIAL_NUMBER',
  'USB_PORT_PATH',
  'UDEV_DEVNODE',
  'UDEV_DEVPATH',
]
const DIGEST = /_[0-9A-F]{6}([0-9A-F]{10})?$/

/**
 * The name of a device for people, from its properties.
 * @param known the property that identifies the device, as `akri get` shows it
 */
export function deviceTitle(properties: Properties, known: string): DeviceTitle {
  const named = NAMES.map((names) => texts(properties, names).join(' ')).find(Boolean)
  const title = named || onvifScope(properties, 'name') || known || 'a device without properties'
  const detail = [...texts(properties, DETAILS), known].find(
    (text) => text !== '' && text !== title,
  )
  return { title, detail: detail ?? '' }
}

/** A device may have its properties under names with its digest alone. */
export function texts(properties: Properties, names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const key = Object.hasOwn(properties, name)
      ? name
      : Object.keys(properties).find((each) => each.replace(DIGEST, '') === name)
    const text = key === undefined ? '' : (properties[key] ?? '').trim()
    return text === '' ? [] : [text]
  })
}

/** Cameras announce their names in scopes: `onvif://www.onvif.org/name/Gate%20camera`. */
function onvifScope(properties: Properties, kind: string): string {
  const [scopes = ''] = texts(properties, ['ONVIF_DEVICE_SCOPES'])
  const [, text = ''] = new RegExp(`/www\\.onvif\\.org/${kind}/(\\S+)`, 'i').exec(scopes) ?? []
  try {
    return decodeURIComponent(text).trim()
  } catch {
    return text
  }
}
