import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Clock, type Logger, messageOf } from '@akrijs/runtime'
import { CertificateUnusableError } from '../errors.js'
import type { KeyPair } from '../webhook-server.js'

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
      throw new CertificateUnusableError(`${file} is not valid PEM: ${messageOf(error)}`, {
        cause: error,
      })
    }
  }
  const certificate = parsed(certFile, () => new X509Certificate(pair.cert))
  const key = parsed(keyFile, () => createPrivateKey(pair.key))
  if (!certificate.checkPrivateKey(key))
    throw new CertificateUnusableError(`${keyFile} is not the key of ${certFile}`)
  return pair
}
