import builtIn from '../../handlers/built-in.json' with { type: 'json' }

/** The packages of the built-in handlers, by the names that Configurations use. */
export const BUILT_IN_HANDLERS: Readonly<Record<string, string>> = Object.fromEntries(
  builtIn.handlers.map((handler) => [handler.name, handler.package]),
)

/** Details to copy, as YAML without single quotes, of the handlers that need details. */
export const EXAMPLE_DETAILS: Readonly<Record<string, string>> = {
  udev: '{ udevRules: ["SUBSYSTEM==\\"net\\""] }',
  opcua: '{ opcuaDiscoveryMethod: { mdns: {} } }',
  mdns: '{ services: [_http._tcp] }',
  modbus: '{ addresses: [10.20.0.10] }',
  mqtt: '{ broker: mqtt://localhost:1883, homeAssistant: {} }',
  snmp: '{ addresses: [10.20.0.10] }',
  debugEcho: '{ descriptions: [foo0, foo1] }',
}

/** The directory of this program: handler packages are resolved as its dependencies. */
export const HANDLERS_FROM = import.meta.dirname
