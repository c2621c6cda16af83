import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export const hasOpenssl = spawnSync('openssl', ['version']).status === 0

/** node-opcua sets another configuration for openssl. */
const USES = 'digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment'
const ENVIRONMENT = { PATH: process.env.PATH }

export interface Issued {
  /** PEM */
  readonly certificate: string
  /** PEM */
  readonly privateKey: string
}

export interface CertificateOptions {
  /** In the syntax of openssl: `URI:urn:plc,DNS:plc`. */
  readonly subjectAltName?: string
  /** @default false */
  readonly isIssuer?: boolean
  /** @default itself */
  readonly issuer?: Issued
  /** In days from now; negative for an expired certificate. @default 30 */
  readonly days?: number
  /** In the syntax of openssl; RSA takes a second or two. @default 'ec:P-256' */
  readonly algorithm?: string
}

/** Creates certificates with openssl. */
export class Certificates {
  readonly #folder = mkdtempSync(path.join(os.tmpdir(), 'akri-certificates-'))
  #count = 0

  issue({
    subjectAltName,
    isIssuer = false,
    issuer,
    days = 30,
    algorithm = 'ec:P-256',
  }: CertificateOptions): Issued {
    const folder = path.join(this.#folder, String(++this.#count))
    mkdirSync(folder)
    const file = (name: string, content?: string) => {
      if (content !== undefined) writeFileSync(path.join(folder, name), content)
      return path.join(folder, name)
    }
    const openssl = (...args: string[]) =>
      execFileSync('openssl', args, { stdio: 'ignore', env: ENVIRONMENT })
    const extensions = file(
      'extensions',
      [
        `basicConstraints=critical,CA:${isIssuer}`,
        `keyUsage=${isIssuer ? 'keyCertSign' : USES}`,
        ...(subjectAltName === undefined ? [] : [`subjectAltName=${subjectAltName}`]),
      ].join('\n'),
    )
    const curve = algorithm.startsWith('ec:')
      ? ['-newkey', 'ec', '-pkeyopt', `ec_paramgen_curve:${algorithm.slice(3)}`]
      : ['-newkey', algorithm]
    openssl(
      'req',
      '-new',
      '-nodes',
      ...curve,
      '-subj',
      `/CN=test ${this.#count}`,
      '-keyout',
      file('key'),
      '-out',
      file('request'),
    )
    const signing =
      issuer === undefined
        ? ['-key', file('key')]
        : ['-CA', file('ca', issuer.certificate), '-CAkey', file('ca-key', issuer.privateKey)]
    const signed = [
      '-req',
      '-in',
      file('request'),
      ...signing.map((argument) => (argument === '-key' ? '-signkey' : argument)),
    ]
    openssl(
      'x509',
      ...signed,
      '-days',
      String(days),
      '-set_serial',
      String(this.#count),
      '-extfile',
      extensions,
      '-out',
      file('certificate'),
    )
    return {
      certificate: readFileSync(file('certificate'), 'utf8'),
      privateKey: readFileSync(file('key'), 'utf8'),
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
