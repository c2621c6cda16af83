import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import { z } from 'zod'

/** What a camera is logged in to with. */
export interface Credential {
  readonly username: string
  readonly password: string
}

/** The name under which a credential is for every camera that has none of its own. */
const DEFAULT = 'default'

const names = z.array(z.string())
const devices = z.record(z.string(), z.unknown())
const named = z.object({
  username: z.string().min(1),
  password: z.string().nullish(),
  base64encoded: z.boolean().nullish(),
})
const referring = z.object({ username_ref: z.string().min(1), password_ref: z.string().nullish() })

/**
 * Credentials of cameras, out of discovery properties in the forms of the existing system. Of several for one camera the last
 * counts: `device_credential_list`, `device_credential_ref_list`, `username_<uuid>` and `username_default`.
 */
export class Credentials {
  readonly #byDevice = new Map<string, Credential>()

  /** What cannot be read is left out, and `log` told of which property it is; never of what it holds. */
  constructor(properties: DiscoveryProperties, log: Logger) {
    const reader = new Reader(properties, log)
    for (const [device, credential] of [...reader.listed(), ...reader.referredTo(), ...reader.single()]) {
      this.#byDevice.set(key(device), credential)
    }
  }

  /** The credential of the camera with this UUID, or else the one for all. */
  for(uuid: string): Credential | undefined {
    return this.#byDevice.get(key(uuid)) ?? this.#byDevice.get(DEFAULT)
  }
}

/** Names of properties cannot have `-`, and UUIDs are written in either case. */
function key(device: string): string {
  return device.toLowerCase().replaceAll('_', '-')
}

class Reader {
  readonly #properties: DiscoveryProperties
  readonly #log: Logger

  constructor(properties: DiscoveryProperties, log: Logger) {
    this.#properties = properties
    this.#log = log
  }

  *listed(): Generator<readonly [string, Credential]> {
    for (const { property, device, entry } of this.#entries('device_credential_list')) {
      const { data } = named.safeParse(entry)
      const password = data?.base64encoded ? decodeBase64(data.password ?? '') : (data?.password ?? '')
      if (data === undefined || password === undefined) {
        this.#skip(property, device, 'it needs a username, and a password in base64 where base64encoded is true')
      } else yield [device, { username: data.username, password }]
    }
  }

  *referredTo(): Generator<readonly [string, Credential]> {
    for (const { property, device, entry } of this.#entries('device_credential_ref_list')) {
      const { data } = referring.safeParse(entry)
      const credential = data && this.#fromProperties(data.username_ref, data.password_ref ?? undefined)
      if (credential === undefined) {
        this.#skip(
          property,
          device,
          'it needs a username_ref, and a password_ref where there is one, that name properties with text',
        )
      } else yield [device, credential]
    }
  }

  /** `username_<uuid>` and `username_default`. */
  *single(): Generator<readonly [string, Credential]> {
    for (const property of this.#properties.names) {
      const device = /^username_(.+)$/.exec(property)?.[1]
      if (device === undefined) continue
      const password = `password_${device}`
      const credential = this.#fromProperties(property, this.#properties.has(password) ? password : undefined)
      if (credential === undefined)
        this.#skip(property, device, 'the user name is empty, or one of user name and password no text')
      else yield [device, credential]
    }
  }

  /** The devices in each of the properties whose names stand in the list. */
  *#entries(list: string): Generator<{ readonly property: string; readonly device: string; readonly entry: unknown }> {
    if (!this.#properties.has(list)) return
    const { data: properties } = names.safeParse(this.#json(list))
    if (properties === undefined) return this.#log.warn({ property: list }, 'this is not a JSON list of names of properties')
    for (const property of properties) {
      const { data } = devices.safeParse(this.#json(property))
      if (data === undefined) this.#log.warn({ property, list }, 'there is no JSON mapping of credentials in this property')
      else for (const [device, entry] of Object.entries(data)) yield { property, device, entry }
    }
  }

  #fromProperties(usernameProperty: string, passwordProperty: string | undefined): Credential | undefined {
    const username = this.#properties.text(usernameProperty)
    // A property without a value is no password.
    const password =
      passwordProperty === undefined || this.#properties.get(passwordProperty) === undefined
        ? ''
        : this.#properties.text(passwordProperty)
    return username && password !== undefined ? { username, password } : undefined
  }

  #json(property: string): unknown {
    try {
      return JSON.parse(this.#properties.text(property) ?? '')
    } catch {
      // The error would quote the text.
      return undefined
    }
  }

  #skip(property: string, device: string, reason: string): void {
    this.#log.warn({ property, device, reason }, 'this credential cannot be used')
  }
}

function decodeBase64(text: string): string | undefined {
  if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(text)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(text, 'base64'))
  } catch {
    return undefined
  }
}
