/** A request that a built-in handler answers on any machine. */
export interface HandlerRequest {
  readonly details: object
  /** A part of the conditions that the answer gives: its own words, or its number of devices. */
  readonly answer: RegExp
}

/** By the names of the handlers. No device of a network is needed. */
export const HANDLER_REQUESTS: Readonly<Record<string, HandlerRequest>> = {
  udev: { details: { udevRules: ['KERNEL=="null"'] }, answer: /\b1 devices/ },
  // Without a USB bus, or without the binary of the package usb, the handler says so.
  usb: { details: {}, answer: /\b[1-9]\d* devices|USB hubs|no USB bus|the USB library failed/ },
  onvif: { details: { interfaces: ['lo'] }, answer: /WS-Discovery Probes \(UDP port 3702\)/ },
  opcua: {
    details: { opcuaDiscoveryMethod: { standard: { discoveryUrls: [] } } },
    answer: /there are no discovery URLs/,
  },
  mdns: {
    details: { services: ['_akri-test._tcp'] },
    answer: /mDNS queries for _akri-test\._tcp/,
  },
  ssdp: {
    details: { targets: ['urn:akri-test:device:none:1'] },
    answer: /SSDP searches for urn:akri-test:device:none:1/,
  },
  modbus: {
    details: { addresses: ['127.0.0.1'], port: 1 },
    answer: /no Modbus answer from 127\.0\.0\.1:1/,
  },
  mqtt: {
    details: { broker: 'mqtt://127.0.0.1:1', homie: {} },
    answer: /the broker mqtt:\/\/127\.0\.0\.1:1 cannot be used/,
  },
  snmp: {
    details: { addresses: ['127.0.0.1'], port: 1 },
    answer: /no SNMP answer on UDP port 1 from 127\.0\.0\.1/,
  },
  debugEcho: { details: { descriptions: ['foo0'] }, answer: /\b1 devices/ },
}
