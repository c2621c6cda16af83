import { describe, expect, it } from 'vitest'
import { deviceKind } from './device-kind.js'
import { deviceTitle } from './device-title.js'

describe('the name of a device for people', () => {
  it.each([
    [
      'manufacturer and model of a camera, with its serial number',
      {
        ONVIF_DEVICE_SERVICE_URL: 'http://10.0.0.7/onvif/device_service',
        ONVIF_DEVICE_MANUFACTURER: 'Acme',
        ONVIF_DEVICE_MODEL: 'DS-2',
        ONVIF_DEVICE_SERIAL_NUMBER: 'SN-1',
      },
      { title: 'Acme DS-2', detail: 'SN-1' },
    ],
    [
      'the name that a camera announces, if it tells no manufacturer',
      {
        ONVIF_DEVICE_SERVICE_URL: 'http://10.0.0.7/onvif/device_service',
        ONVIF_DEVICE_SCOPES: 'onvif://www.onvif.org/name/Gate%20camera',
      },
      { title: 'Gate camera', detail: 'http://10.0.0.7/onvif/device_service' },
    ],
    [
      'the application name of an OPC UA server, with its address',
      { OPCUA_DISCOVERY_URL: 'opc.tcp://a:4840/', OPCUA_APPLICATION_NAME: 'Press' },
      { title: 'Press', detail: 'opc.tcp://a:4840/' },
    ],
    [
      'the device node of a device that udev knows, with its path',
      { UDEV_DEVPATH: '/devices/virtual/mem/null', UDEV_DEVNODE: '/dev/null' },
      { title: '/dev/null', detail: '/devices/virtual/mem/null' },
    ],
    [
      'manufacturer and product of a USB device, with its port if it has no serial number',
      {
        USB_DEVNODE: '/dev/bus/usb/001/004',
        USB_MANUFACTURER: 'FTDI',
        USB_PRODUCT: 'Serial',
        USB_PORT_PATH: '1-2',
      },
      { title: 'FTDI Serial', detail: '1-2' },
    ],
    [
      'the name that a device has for its MQTT broker, with its topic',
      { MQTT_BROKER: 'mqtt://a', MQTT_TOPIC: 'zigbee2mqtt/lamp', MQTT_NAME: 'lamp' },
      { title: 'lamp', detail: 'zigbee2mqtt/lamp' },
    ],
    [
      'vendor and product of a Modbus unit, with its address',
      { MODBUS_ADDRESS: '10.0.0.9', MODBUS_VENDOR_NAME: 'Acme', MODBUS_PRODUCT_NAME: 'M1' },
      { title: 'Acme M1', detail: '10.0.0.9' },
    ],
    [
      'the property that identifies a device of any other handler',
      { SENSOR_URL: 'http://a/1', SENSOR_UNIT: 'C' },
      { title: 'http://a/1', detail: '' },
    ],
    ['no property', {}, { title: 'a device without properties', detail: '' }],
  ])('is %s', (_, properties, name) => {
    expect(deviceTitle(properties, Object.values(properties)[0] ?? '')).toEqual(name)
  })

  it('survives what a device makes of its name', () => {
    const scopes = { ONVIF_DEVICE_SCOPES: 'onvif://www.onvif.org/name/%E0%A4%A' }
    expect(deviceTitle(scopes, 'http://a/')).toMatchObject({ title: '%E0%A4%A' })
    expect(deviceTitle({ SSDP_FRIENDLY_NAME: '   ' }, '').title).toBe('a device without properties')
  })
})

it.each([
  ['a camera of this machine', { UDEV_DEVNODE: '/dev/video0' }, 'udev', 'camera'],
  ['a disk', { UDEV_DEVPATH: '/devices/pci0/block/sda' }, 'udev', 'disk'],
  ['a printer', { MDNS_SERVICE_TYPE: '_ipp._tcp' }, 'mdns', 'printer'],
  ['another service', { MDNS_SERVICE_TYPE: '_hap._tcp' }, 'mdns', 'service'],
  ['a camera of the network', { ONVIF_DEVICE_UUID: 'a' }, 'onvif', 'camera'],
  ['a USB device', { USB_VENDOR_ID: '0403' }, 'usb', 'usb'],
  ['a device of another handler', { A: 'b' }, 'constructor', 'device'],
  ['a device without its Configuration', { A: 'b' }, undefined, 'device'],
])('the kind of %s follows from its properties and its handler', (_, properties, handler, kind) => {
  expect(deviceKind(properties, handler)).toBe(kind)
})
