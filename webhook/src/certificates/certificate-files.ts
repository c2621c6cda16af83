import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Clock, type Logger, messageOf } from '@akrijs/runtime'
import { CertificateUnusableError } from '../errors.js'
import type { KeyPair } from './x509.js'

/**
 * The interval between two reads, in milliseconds. A kubelet takes up to a minute to renew the
 * files of a Secret.
 */
const READ_MS = 10_000

interface CertificateFilesOptions {
  /** The paths of the PEM files. */
  readonly certFile: string
  readonly keyFile: string
  readonly clock: Clock
  readonly log: Logger
  onRenewed(pair: KeyPair): void
}

/**
 * Follows a certificate in files that another program renews. While the files are unusable, the
 * certificate before stays in use.
 * @throws CertificateUnusableError if the files are unusable at the start
 */
export async function followCertificateFiles(
  options: CertificateFilesOptions,
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
      // Each problem is logged once: a file may be half written, or stay wrong for days.
      if (messageOf(error) !== problem) log.warn({ err: error }, 'certificate reload failed')
      problem = messageOf(error)
    }
  }
}

async function readKeyPair({ certFile, keyFile }: CertificateFilesOptions): Promise<KeyPair> {
  const cert = await usable(`${certFile} cannot be read`, () => readFile(certFile, 'utf8'))
  const key = await usable(`${keyFile} cannot be read`, () => readFile(keyFile, 'utf8'))
  const certificate = await usable(`${certFile} is not valid PEM`, () => new X509Certificate(cert))
  const privateKey = await usable(`${keyFile} is not valid PEM`, () => createPrivateKey(key))
  if (!certificate.checkPrivateKey(privateKey))
    throw new CertificateUnusableError(`${keyFile} is not the key of ${certFile}`)
  return { cert, key }
}

async function usable<T>(problem: string, use: () => T | Promise<T>): Promise<T> {
  try {
    return await use()
  } catch (error) {
    throw new CertificateUnusableError(`${problem}: ${messageOf(error)}`, { cause: error })
  }
}
