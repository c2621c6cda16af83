import { isRecord, type Logger } from '@akrijs/runtime'
import type { DiscoveryProperties } from '../handler/properties.js'

/** A user name and password for a device. */
export interface PasswordCredential {
  /** Tells it from other kinds of credentials. */
  readonly kind: 'password'
  /** Not empty. */
  readonly username: string
  /** Empty if there is no password. */
  readonly password: string
}

/**
 * Another kind of credential than a user name and password: two texts, such as a certificate and
 * its key.
 */
export interface CredentialKind<C> {
  /**
   * The names of the texts: `first` and `second` in lists, `first_ref` in lists of references,
   * `first_<device>` as properties.
   */
  readonly parts: readonly [first: string, second: string]
  /** The expected texts, for the log, such as `an RSA certificate and its key, in PEM`. */
  readonly expected: string
  /** @returns undefined if the texts are no such credential */
  read(first: string, second: string): C | undefined
}

/** Options of {@link DeviceCredentials}. */
export interface DeviceCredentialsOptions<Other> {
  /** Gets the names of properties that cannot be used, and never their values. */
  readonly log: Logger
  /**
   * Gives one spelling for all names of a device: the case can differ, and `_` replaces what a
   * property name cannot have.
   */
  readonly spelling: (device: string) => string
  /** Another kind of credential; in the same form it counts before a password. @default none */
  readonly other?: CredentialKind<Other>
}

/** The name of the credential for every device without a credential of its own. */
const DEFAULT = 'default'
const LIST = 'device_credential_list'
const REFERENCES = 'device_credential_ref_list'

/** The expected entries, for the log. */
const PASSWORD = 'a username, and a password (in base64 where base64encoded is true)'
const PASSWORD_REFERENCES =
  'a username_ref, and a password_ref where there is a password, that name properties with text'

/**
 * Reads credentials of devices from the `discoveryProperties` of a Configuration, in the forms of
 * Akri's handlers. If a device has several, the last of these forms counts:
 * 1. `device_credential_list`: a JSON list of names of properties; each holds `{"<device>":
 *    {"username", "password"?, "base64encoded"?}}`; with `base64encoded` the password is in base64
 * 2. `device_credential_ref_list`: the same with `{"username_ref", "password_ref"?}`; each is the
 *    name of a property
 * 3. `username_<device>` and `password_<device>`
 * 4. `username_default` and `password_default`, for all devices without a credential
 *
 * A line break at the end of a user name or a password is left out.
 *
 * Entries that cannot be read are left out, with a warning. Make a new object in each call of
 * `discover`: a changed Secret causes a new call.
 *
 * @example
 * const credentials = new DeviceCredentials(properties, {
 *   spelling: (name) => name.toLowerCase(),
 *   log,
 * })
 * const { username = '', password = '' } = credentials.for('camera-1') ?? {}
 */
export class DeviceCredentials<Other = never> {
  readonly #byDevice = new Map<string, PasswordCredential | Other>()
  readonly #spelling: (device: string) => string

  constructor(properties: DiscoveryProperties, options: DeviceCredentialsOptions<Other>) {
    this.#spelling = options.spelling
    const reader = new CredentialReader(properties, options)
    for (const [device, credential] of reader.all())
      this.#byDevice.set(this.#spelling(device), credential)
  }

  /**
   * The credential of the first name that has a credential, else the credential for all devices.
   */
  for(...names: readonly string[]): PasswordCredential | Other | undefined {
    return this.own(...names, DEFAULT)
  }

  /** The credential of the first name that has a credential. */
  own(...names: readonly string[]): PasswordCredential | Other | undefined {
    for (const name of names) {
      const credential = this.#byDevice.get(this.#spelling(name))
      if (credential !== undefined) return credential
    }
    return undefined
  }
}

interface Found {
  readonly property: string
  readonly device: string
}

interface Listed extends Found {
  readonly entry: Readonly<Record<string, unknown>>
}

class CredentialReader<Other> {
  readonly #properties: DiscoveryProperties
  readonly #log: Logger
  readonly #other: CredentialKind<Other> | undefined

  constructor(properties: DiscoveryProperties, { log, other }: DeviceCredentialsOptions<Other>) {
    this.#properties = properties
    this.#log = log
    this.#other = other
  }

  /** All credentials; a credential that counts before another comes after it. */
  *all(): Generator<readonly [device: string, PasswordCredential | Other]> {
    for (const listed of this.#listed(LIST)) {
      const { entry } = listed
      const credential = this.#has(entry)
        ? this.#otherOf((part) => entry[part])
        : listedPassword(entry)
      yield* this.#kept(listed, credential, [PASSWORD, this.#other?.expected])
    }
    for (const listed of this.#listed(REFERENCES)) {
      const { entry } = listed
      const credential = this.#has(entry, '_ref')
        ? this.#otherOf((part) => this.#referred(entry[`${part}_ref`]))
        : passwordCredential(
            this.#referred(entry.username_ref),
            this.#passwordOf(entry.password_ref),
          )
      yield* this.#kept(listed, credential, [PASSWORD_REFERENCES, this.#other?.expected])
    }
    for (const found of this.#single('username')) {
      const credential = passwordCredential(
        this.#properties.text(found.property),
        this.#passwordOf(`password_${found.device}`),
      )
      yield* this.#kept(found, credential, [
        'a user name that is not empty, and a password of text',
      ])
    }
    if (this.#other === undefined) return
    for (const found of this.#single(this.#other.parts[0])) {
      const credential = this.#otherOf((part) => this.#properties.text(`${part}_${found.device}`))
      yield* this.#kept(found, credential, [this.#other.expected])
    }
  }

  /** The entries in each property that the list names. */
  *#listed(list: string): Generator<Listed> {
    if (!this.#properties.has(list)) return
    const names = this.#json(list)
    if (!Array.isArray(names) || !names.every((name) => typeof name === 'string')) {
      this.#log.warn(
        { property: list },
        'credential list ignored: it is not a JSON list of property names',
      )
      return
    }
    for (const property of new Set(names)) {
      const devices = this.#json(property)
      if (!isRecord(devices)) {
        this.#log.warn(
          { property, list },
          'property ignored: it has no JSON mapping of credentials',
        )
        continue
      }
      for (const [device, entry] of Object.entries(devices))
        yield { property, device, entry: isRecord(entry) ? entry : {} }
    }
  }

  /** The properties `<part>_<device>`. */
  *#single(part: string): Generator<Found> {
    const prefix = `${part}_`
    for (const property of this.#properties.names) {
      const device = property.startsWith(prefix) ? property.slice(prefix.length) : ''
      if (device !== '') yield { property, device }
    }
  }

  *#kept<C>(
    found: Found,
    credential: C | undefined,
    forms: (string | undefined)[],
  ): Generator<readonly [string, C]> {
    const { property, device } = found
    if (credential !== undefined) yield [device, credential]
    else {
      const expected = forms.filter((form) => form !== undefined).join('; or ')
      this.#log.warn({ property, device, expected }, 'credential ignored')
    }
  }

  /**
   * Whether an entry has the other kind. Such an entry has no password: the author's choice would
   * not be clear.
   */
  #has(entry: Listed['entry'], suffix = ''): boolean {
    return this.#other?.parts.some((part) => entry[`${part}${suffix}`] !== undefined) ?? false
  }

  #otherOf(textOf: (part: string) => unknown): Other | undefined {
    if (this.#other === undefined) return undefined
    const [first, second] = this.#other.parts.map(textOf)
    return typeof first === 'string' && typeof second === 'string'
      ? this.#other.read(first, second)
      : undefined
  }

  #referred(name: unknown): string | undefined {
    return typeof name === 'string' ? this.#properties.text(name) : undefined
  }

  /** The password; empty if the property is missing or has no value. */
  #passwordOf(name: unknown): string | undefined {
    if (name === undefined || name === null) return ''
    if (typeof name !== 'string') return undefined
    return this.#properties.get(name) === undefined ? '' : this.#properties.text(name)
  }

  #json(property: string): unknown {
    try {
      return JSON.parse(this.#properties.text(property) ?? '')
    } catch {
      // The error would quote the text.
      return undefined
    }
  }
}

function listedPassword({
  username,
  password,
  base64encoded,
}: Listed['entry']): PasswordCredential | undefined {
  const text = password ?? ''
  const encoded = base64encoded ?? false
  if (typeof text !== 'string' || typeof encoded !== 'boolean') return undefined
  return passwordCredential(username, encoded ? decodeBase64(text) : text)
}

function passwordCredential(
  username: unknown,
  password: string | undefined,
): PasswordCredential | undefined {
  if (typeof username !== 'string' || password === undefined) return undefined
  const name = withoutLineBreak(username)
  if (name === '') return undefined
  return { kind: 'password', username: name, password: withoutLineBreak(password) }
}

/** Files of Secrets end with a line break, which no credential has. */
function withoutLineBreak(text: string): string {
  return text.replace(/\r?\n$/, '')
}

function decodeBase64(base64: string): string | undefined {
  if (!/^[A-Za-z0-9+/\s]*(?:={1,2}\s*)?$/.test(base64)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      Buffer.from(base64, 'base64'),
    )
  } catch {
    return undefined
  }
}
