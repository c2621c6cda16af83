import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import {
  MessageSecurityMode,
  OPCUACertificateManager,
  OPCUAServer,
  SecurityPolicy,
} from 'node-opcua'

export interface SecuredServerOptions {
  readonly applicationUri: string
  /** @default all policies of node-opcua */
  readonly modes?: readonly ('None' | 'Sign' | 'SignAndEncrypt')[]
  /** @default Basic256Sha256 and, with the mode None, None */
  readonly policies?: readonly (keyof typeof SecurityPolicy)[]
  /** Passwords by user name. @default none */
  readonly users?: Readonly<Record<string, string>>
  /** @default true */
  readonly allowAnonymous?: boolean
  /** Whether the server accepts unknown certificates of clients and users. @default true */
  readonly trusting?: boolean
  /** The host in the URLs that the server reports. @default '127.0.0.1' */
  readonly hostname?: string
}

/** A server of node-opcua with its own folders. */
export class SecuredServer {
  readonly #server: OPCUAServer
  readonly #folder: string
  /** The users and passwords of all logins. */
  readonly logins: (readonly [string, string])[]
  readonly url: string

  private constructor(server: OPCUAServer, folder: string, logins: (readonly [string, string])[]) {
    this.#server = server
    this.#folder = folder
    this.logins = logins
    this.url = server.getEndpointUrl().replace(/^opc\.tcp:\/\/[^:/]+/, 'opc.tcp://127.0.0.1')
  }

  static async start({
    applicationUri,
    users = {},
    trusting = true,
    hostname = '127.0.0.1',
    ...options
  }: SecuredServerOptions): Promise<SecuredServer> {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-opcua-'))
    const logins: (readonly [string, string])[] = []
    const certificates = (name: string) =>
      new OPCUACertificateManager({
        rootFolder: path.join(folder, name),
        automaticallyAcceptUnknownCertificate: trusting,
      })
    const modes = options.modes ?? ['None', 'Sign', 'SignAndEncrypt']
    const policies = options.policies ?? [
      ...(modes.includes('None') ? (['None'] as const) : []),
      'Basic256Sha256' as const,
    ]
    const server = new OPCUAServer({
      port: 0,
      hostname,
      resourcePath: '/UA/Secured',
      serverInfo: {
        applicationUri,
        applicationName: { text: 'Secured' },
        productUri: 'urn:akri:test',
      },
      buildInfo: {
        productName: 'Mixer',
        manufacturerName: 'ACME',
        softwareVersion: '2.4.1',
        buildNumber: '77',
        buildDate: new Date('2026-02-03T04:05:06Z'),
      },
      serverCertificateManager: certificates('server'),
      userCertificateManager: certificates('user'),
      securityModes: modes.map((mode) => MessageSecurityMode[mode]),
      securityPolicies: policies.map((policy) => SecurityPolicy[policy]),
      allowAnonymous: options.allowAnonymous ?? true,
      userManager: {
        isValidUser: (name: string, password: string) => {
          logins.push([name, password])
          return users[name] === password
        },
      },
    })
    await server.start()
    return new SecuredServer(server, folder, logins)
  }

  /** PEM */
  get certificate(): string {
    const lines =
      this.#server
        .getCertificate()
        .toString('base64')
        .match(/.{1,64}/g) ?? []
    return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
  }

  get sessions(): number {
    return this.#server.currentSessionCount
  }

  get connections(): number {
    return this.#server.currentChannelCount
  }

  async close(): Promise<void> {
    await this.#server.shutdown(0)
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
