import {
  excess,
  isRecord,
  isSecretName,
  MASK,
  maskUrls,
  mentionsSecret,
  valueAt,
} from '@akrijs/runtime'
import { dump, load } from 'js-yaml'
import type { Configuration, Instance } from './types.js'

/** An object for people and for scripts, without the secrets of its spec. */
export function maskObject<Item extends Configuration | Instance>(item: Item): Item {
  // The names of slots come from the names of Configurations.
  const { deviceUsage } = { deviceUsage: undefined, ...item.spec }
  const spec: Item['spec'] = masked(item.spec)
  return {
    ...item,
    metadata: { ...item.metadata, ...annotationsOf(item) },
    spec: deviceUsage === undefined ? spec : { ...spec, deviceUsage },
  }
}

/** Annotations can hold the whole object, as `kubectl apply` writes it. */
function annotationsOf({ metadata: { annotations } }: Configuration | Instance) {
  return annotations === undefined ? {} : { annotations: masked(annotations) }
}

/** The properties of a device without their secrets. */
export function maskProperties(
  properties: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [name, maskValue(name, value)]),
  )
}

/** JSON whose texts have no passwords of URLs: other programs write ids and messages. */
export function jsonWithoutPasswords(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'string' ? maskUrls(inner) : inner,
  )
}

/** The same value without its secrets; it keeps its type, as a text takes the place of a text. */
function masked<T>(value: T): T {
  return mask(value) as T
}

function mask(value: unknown): unknown {
  if (typeof value === 'string') return maskText(value)
  if (Array.isArray(value)) {
    const secret = referencedBy(value)
    return value.map((entry) => maskEntry(entry, secret))
  }
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, maskMember(name, inner)]),
  )
}

function maskMember(name: string, value: unknown): unknown {
  if (isScalar(value)) return maskValue(name, value)
  return Array.isArray(value) && value.every(isScalar)
    ? value.map((item: unknown) => maskValue(name, item))
    : mask(value)
}

function maskValue<Scalar>(name: string, value: Scalar): Scalar | string {
  if (isSecretName(name) && value !== '' && typeof value !== 'boolean') return MASK
  return typeof value === 'string' ? maskText(value) : value
}

/** An entry of a list of properties, or of variables: `{ name, value }`. */
function maskEntry(entry: unknown, secret: ReadonlySet<string>): unknown {
  const inner = mask(entry)
  const name = valueAt(entry, 'name')
  const value = valueAt(entry, 'value')
  if (!isRecord(inner) || typeof name !== 'string' || !isScalar(value)) return inner
  return { ...inner, value: secret.has(name) ? MASK : maskValue(name, value) }
}

/** The properties that lists of credentials name: they have names of any kind. */
function referencedBy(entries: readonly unknown[]): ReadonlySet<string> {
  const texts = new Map<string, string>()
  for (const entry of entries) {
    const name = valueAt(entry, 'name')
    const value = valueAt(entry, 'value')
    if (typeof name === 'string' && typeof value === 'string') texts.set(name, value)
  }
  const referenced = new Set<string>()
  const open = [...texts.keys()].filter((name) => CREDENTIAL_LIST.test(name))
  for (let list = open.pop(); list !== undefined; list = open.pop()) {
    for (const [, name = ''] of (texts.get(list) ?? '').matchAll(/"([^"\\]+)"/g)) {
      if (!texts.has(name) || referenced.has(name)) continue
      referenced.add(name)
      open.push(name)
    }
  }
  return referenced
}

const CREDENTIAL_LIST = /^device_credential_(ref_)?list$/
const SCALARS = ['string', 'number', 'bigint', 'boolean']

function isScalar(value: unknown): boolean {
  return SCALARS.includes(typeof value)
}

/** A text that may be YAML or JSON, such as `discoveryDetails`. */
function maskText(text: string): string {
  if (!mentionsSecret(text)) return maskUrls(text)
  try {
    const value = load(text)
    if (typeof value !== 'object' || value === null) return maskUrls(text)
    // An alias can stand for more values than memory holds.
    if (excess(value) !== undefined) return MASK
    const shown = mask(value)
    if (JSON.stringify(shown) === JSON.stringify(value)) return maskUrls(text)
    return /^\s*[[{]/.test(text) ? JSON.stringify(shown) : dump(shown)
  } catch {
    return MASK
  }
}
