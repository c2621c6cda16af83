import { isRecord } from '@akrijs/runtime'
import { load } from 'js-yaml'

// What handlers of the existing system make of details that handlers of akri.js read. Those ignore
// a field that they do not have. Details that they cannot read end the discovery.

/** @returns what differs; empty if the existing system reads the value as akri.js does */
type Field = (value: unknown) => readonly string[]

const same: Field = () => []

/** A field that the existing system does not have. */
function ignored(effect: string, without?: unknown): Field {
  return (value) => (value === without ? [] : [`the existing system ignores it: ${effect}`])
}

const ignoredList =
  (effect: string): Field =>
  (value) =>
    Array.isArray(value) && value.length === 0 ? [] : ignored(effect)(value)

function unreadable(reason: string): readonly string[] {
  return [`the existing system cannot read it, and finds nothing: ${reason}`]
}

const filter: Field = (value) => {
  if (!isRecord(value)) return []
  if (!Array.isArray(value.items)) return unreadable('a filter needs items; remove it')
  return value.action === null ? unreadable('action is null; remove it') : []
}

const seconds: Field = (value) =>
  typeof value === 'number' && !Number.isInteger(value) ? unreadable('write a whole number') : []

const method: Field = (value) =>
  isRecord(value) && 'mdns' in value ? unreadable('the only method there is standard') : []

/** A condition as the grammar there has it: ASCII, without spaces around the operator. */
const CONDITION = /\b[A-Z]+(?:\{[\w $.*?[\]\-|\\/]+\})?[!=]="[\w $.*?[\]\-|\\/:%{}]*"/g

const rules: Field = (value) =>
  (Array.isArray(value) ? value : []).flatMap((rule: unknown, index) =>
    typeof rule === 'string' && /[^ ,]/.test(rule.replace(CONDITION, ''))
      ? unreadable(
          `rule ${index} needs no spaces around an operator, and in values only letters, digits, ` +
            'spaces and $._*?[]-|\\/:%{}',
        )
      : [],
  )

/** The fields of the built-in handlers of akri.js. */
export const EXISTING_DETAILS: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  debugEcho: { descriptions: same },
  udev: { udevRules: rules, groupRecursive: same, permissions: same },
  onvif: {
    ipAddresses: filter,
    macAddresses: filter,
    scopes: filter,
    uuids: filter,
    discoveryTimeoutSeconds: seconds,
    probeAddresses: ignoredList('it finds no cameras behind a router'),
    interfaces: ignored('it probes on the default interface for multicast'),
    allowedNetworks: ignored('it calls and offers cameras of all networks'),
    certificates: ignored('it calls cameras by http only', 'any'),
    certificateAuthorities: ignored('it calls cameras by http only'),
    mediaProfiles: ignored('brokers get no media profiles', false),
    deviceId: ignored('ids have the URL of a camera, so all Instances get other names', 'url'),
    refreshSeconds: ignored('it reads the facts of a camera once'),
  },
  opcua: {
    opcuaDiscoveryMethod: method,
    applicationNames: filter,
    allowedNetworks: ignored('it calls and offers servers of all networks'),
    serverDetails: ignored('brokers get no details of the server', false),
    allowUnencryptedPasswords: ignored('it logs in to no server', false),
    trustAnyServer: ignored('it logs in to no server', false),
  },
}

/** What differs in the details for a built-in handler, each text with the path of its field. */
export function existingDetailsTexts(handler: string, details: string): string[] {
  const fields = Object.hasOwn(EXISTING_DETAILS, handler) ? EXISTING_DETAILS[handler] : undefined
  const read = readMapping(details)
  if (fields === undefined || read === undefined) return []
  return Object.entries(read).flatMap(([name, value]) => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    return (field?.(value) ?? []).map(
      (text) => `spec.discoveryHandler.discoveryDetails.${name}: ${text}`,
    )
  })
}

/** @returns undefined if the text is no mapping in YAML: akri.js does not serve it either */
function readMapping(text: string): Record<string, unknown> | undefined {
  try {
    const read = load(text)
    return isRecord(read) ? read : undefined
  } catch {
    return undefined
  }
}
