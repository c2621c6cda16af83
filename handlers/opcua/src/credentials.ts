import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import { z } from 'zod'

/** Whom a server is told that we are. */
export type Credential =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  | { readonly kind: 'certificate'; readonly certificate: X509Certificate /** PEM */; readonly privateKey: string }

/** The name under which a credential is for every server that has none of its own. */
const DEFAULT = 'default'

const names = z.array(z.string())
const servers = z.record(z.string(), z.unknown())
const text = z.string()
const listedPassword = z.object({
  username: text.min(1),
  password: text.nullish(),
  base64encoded: z.boolean().nullish(),
})
const listedCertificate = z.object({ certificate: text, private_key: text })
const referredPassword = z.object({ username_ref: text.min(1), password_ref: text.nullish() })
const referredCertificate = z.object({ certificate_ref: text, private_key_ref: text })

/**
 * Credentials of servers, out of discovery properties, in the four forms that the ONVIF handler has for cameras. Of several for
 * one server the last counts:
 * 1. `device_credential_list`: names of properties; each holds `{"<server>": {"username", "password"?, "base64encoded"?}}`, or
 *    `{"certificate", "private_key"}` in PEM
 * 2. `device_credential_ref_list`: the same with `username_ref`, `password_ref`, `certificate_ref` and `private_key_ref`, which
 *    name properties
 * 3. `username_<server>` and `password_<server>`, or `certificate_<server>` and `private_key_<server>`
 * 4. the same with `default` for the server
 *
 * A server is named by its application URI or by its discovery URL. Names of properties have letters, digits and `_` only, so
 * every other character may be written, and is read, as `_`: `username_urn_plc1_mixer` is for `urn:plc1:mixer`. That two servers
 * may then have one name gives nothing away: who is given a credential is decided by its certificate.
 */
export class Credentials {
  readonly #byServer = new Map<string, Credential>()

  /** What cannot be read is left out, and `log` told of which property it is; never of what it holds. */
  constructor(properties: DiscoveryProperties, log: Logger) {
    const reader = new Reader(properties, log)
    for (const [server, credential] of [...reader.listed(), ...reader.referredTo(), ...reader.single()])
      this.#byServer.set(key(server), credential)
  }

  /** The credential of a server, or else the one for all. */
  for(server: { readonly applicationUri: string; readonly discoveryUrl: string }): Credential | undefined {
    const { applicationUri, discoveryUrl } = server
    return this.#byServer.get(key(applicationUri)) ?? this.#byServer.get(key(discoveryUrl)) ?? this.#byServer.get(DEFAULT)
  }
}

function key(server: string): string {
  return server.replace(/[^A-Za-z0-9]/g, '_')
}

class Reader {
  readonly #properties: DiscoveryProperties
  readonly #log: Logger

  constructor(properties: DiscoveryProperties, log: Logger) {
    this.#properties = properties
    this.#log = log
  }

  *listed(): Generator<readonly [string, Credential]> {
    for (const { property, server, entry } of this.#entries('device_credential_list')) {
      const { data: certified } = listedCertificate.safeParse(entry)
      const { data: named } = listedPassword.safeParse(entry)
      const password = named?.base64encoded ? decodeBase64(named.password ?? '') : (named?.password ?? '')
      const credential = certified
        ? certificateCredential(certified.certificate, certified.private_key)
        : named && passwordCredential(named.username, password)
      if (credential !== undefined) yield [server, credential]
      else
        this.#skip(
          property,
          server,
          'it needs a username and a password (base64 where base64encoded is true), or a certificate and its private_key in PEM',
        )
    }
  }

  *referredTo(): Generator<readonly [string, Credential]> {
    for (const { property, server, entry } of this.#entries('device_credential_ref_list')) {
      const { data: certified } = referredCertificate.safeParse(entry)
      const { data: named } = referredPassword.safeParse(entry)
      const credential = certified
        ? certificateCredential(this.#text(certified.certificate_ref), this.#text(certified.private_key_ref))
        : named && passwordCredential(this.#text(named.username_ref), this.#passwordOf(named.password_ref ?? undefined))
      if (credential !== undefined) yield [server, credential]
      else
        this.#skip(
          property,
          server,
          'it needs a username_ref and a password_ref, or a certificate_ref and a private_key_ref, that name properties',
        )
    }
  }

  /** `username_<server>`, and `certificate_<server>`, which counts where there are both. */
  *single(): Generator<readonly [string, Credential]> {
    for (const property of this.#properties.names) {
      const server = /^username_(.+)$/.exec(property)?.[1]
      if (server === undefined) continue
      const credential = passwordCredential(this.#text(property), this.#passwordOf(`password_${server}`))
      if (credential !== undefined) yield [server, credential]
      else this.#skip(property, server, 'the user name is empty, or one of user name and password is no text')
    }
    for (const property of this.#properties.names) {
      const server = /^certificate_(.+)$/.exec(property)?.[1]
      if (server === undefined) continue
      const credential = certificateCredential(this.#text(property), this.#text(`private_key_${server}`))
      if (credential !== undefined) yield [server, credential]
      else this.#skip(property, server, 'it needs an RSA certificate in PEM, and its key in the property private_key_…')
    }
  }

  /** The servers in each of the properties whose names stand in the list. */
  *#entries(list: string): Generator<{ readonly property: string; readonly server: string; readonly entry: unknown }> {
    if (!this.#properties.has(list)) return
    const { data: properties } = names.safeParse(this.#json(list))
    if (properties === undefined) return this.#log.warn({ property: list }, 'this is not a JSON list of names of properties')
    for (const property of properties) {
      const { data } = servers.safeParse(this.#json(property))
      if (data === undefined) this.#log.warn({ property, list }, 'there is no JSON mapping of credentials in this property')
      else for (const [server, entry] of Object.entries(data)) yield { property, server, entry }
    }
  }

  /** Undefined where there is no text in it. */
  #text(property: string): string | undefined {
    return this.#properties.text(property)
  }

  /** A property that is missing, or has no value, is an empty password. */
  #passwordOf(property: string | undefined): string | undefined {
    return property === undefined || this.#properties.get(property) === undefined ? '' : this.#text(property)
  }

  #json(property: string): unknown {
    try {
      return JSON.parse(this.#text(property) ?? '')
    } catch {
      // The error would quote the text.
      return undefined
    }
  }

  #skip(property: string, server: string, reason: string): void {
    this.#log.warn({ property, server, reason }, 'this credential cannot be used')
  }
}

function passwordCredential(username: string | undefined, password: string | undefined): Credential | undefined {
  return username && password !== undefined ? { kind: 'password', username, password } : undefined
}

function certificateCredential(certificate: string | undefined, privateKey: string | undefined): Credential | undefined {
  const pair = readKeyPair(certificate, privateKey)
  return pair && { kind: 'certificate', ...pair }
}

export interface KeyPair {
  readonly certificate: X509Certificate
  /** PEM, PKCS #8 */
  readonly privateKey: string
}

/** An RSA certificate and the key that belongs to it; undefined where they are not. Security policies of OPC UA are of RSA. */
export function readKeyPair(certificate: string | undefined, privateKey: string | undefined): KeyPair | undefined {
  if (certificate === undefined || privateKey === undefined) return undefined
  try {
    const read = new X509Certificate(certificate)
    const key = createPrivateKey(privateKey)
    if (key.asymmetricKeyType !== 'rsa' || !read.checkPrivateKey(key)) return undefined
    return { certificate: read, privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString() }
  } catch {
    return undefined
  }
}

function decodeBase64(base64: string): string | undefined {
  if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(base64)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(base64, 'base64'))
  } catch {
    return undefined
  }
}
