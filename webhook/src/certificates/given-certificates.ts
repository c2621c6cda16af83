import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Clock, type Logger, messageOf } from '@akrijs/runtime'
import { CertificateUnusableError } from '../errors.js'
import type { KeyPair } from '../webhook-server.js'

/** How often the files are read, in milliseconds. A kubelet takes up to a minute to renew those of a Secret. */
const READ_MS = 10_000

export interface GivenCertificatesOptions {
  /** Paths of PEM files. */
  readonly certFile: string
  readonly keyFile: string
  readonly clock: Clock
  readonly log: Logger
  onRenewed(pair: KeyPair): void
}

/**
 * A certificate that somebody else renews, in files. What makes no sense is left alone: the one before is good for a while.
 * @throws CertificateUnusableError where there is none at the start
 */
export async function followGivenCertificates(
  options: GivenCertificatesOptions,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, onRenewed } = options
  let current = await readKeyPair(options)
  onRenewed(current)
  let problem: string | undefined
  while (!signal.aborted) {
    await clock.sleep(READ_MS, signal).catch(() => undefined)
    if (signal.aborted) return
    try {
      const read = await readKeyPair(options)
      problem = undefined
      if (read.cert === current.cert && read.key === current.key) continue
      current = read
      onRenewed(read)
    } catch (error) {
      // Once for each: it may be half written, or stay wrong for days.
      if (messageOf(error) !== problem)
        log.warn({ err: error }, 'the certificate cannot be renewed')
      problem = messageOf(error)
    }
  }
}

async function readKeyPair({ certFile, keyFile }: GivenCertificatesOptions): Promise<KeyPair> {
  const read = (file: string) =>
    readFile(file, 'utf8').catch((error: unknown) => {
      throw new CertificateUnusableError(`${file} cannot be read: ${messageOf(error)}`, {
        cause: error,
      })
    })
  const pair = { cert: await read(certFile), key: await read(keyFile) }
  const parsed = <T>(file: string, parse: () => T): T => {
    try {
      return parse()
    } catch (error) {
      throw new CertificateUnusableError(
        `${file} is not what it should be, in PEM: ${messageOf(error)}`,
        { cause: error },
      )
    }
  }
  const certificate = parsed(certFile, () => new X509Certificate(pair.cert))
  const key = parsed(keyFile, () => createPrivateKey(pair.key))
  if (!certificate.checkPrivateKey(key))
    throw new CertificateUnusableError(`${keyFile} is not the key of ${certFile}`)
  return pair
}
