import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { messageOf, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { followCertificateFiles } from './certificate-files.js'
import { issueAuthority, issueServerCertificate, type KeyPair } from './x509.js'

const validity = { notBefore: new Date(), notAfter: new Date(Date.now() + 3_600_000) }
const authority = await issueAuthority('test', validity)
const first = await issueServerCertificate(['localhost'], validity, authority)
const second = await issueServerCertificate(['localhost'], validity, authority)

let directory: string
let certFile: string
let keyFile: string
let clock: ManualClock
let renewed: KeyPair[]
let warnings: string[]

beforeEach(async () => {
  directory = await temporaryDirectory()
  certFile = path.join(directory, 'tls.crt')
  keyFile = path.join(directory, 'tls.key')
  clock = new ManualClock()
  renewed = []
  warnings = []
})

async function give({ cert, key }: KeyPair) {
  await writeFile(certFile, cert)
  await writeFile(keyFile, key)
}

function follow(signal: AbortSignal) {
  const log = {
    ...silentLogger,
    warn: (fields: { err?: unknown }) => void warnings.push(messageOf(fields.err)),
  }
  return followCertificateFiles(
    { certFile, keyFile, clock, log, onRenewed: (pair) => renewed.push(pair) },
    signal,
  )
}

async function later() {
  await clock.advance(10_000)
  await clock.untilSleeping()
}

describe('certificates in files', () => {
  it('are read at the start, and after each change', async () => {
    await give(first)
    const controller = new AbortController()
    const following = follow(controller.signal)
    await clock.untilSleeping()
    await later()
    expect(renewed).toEqual([first])
    await give(second)
    await later()
    expect(renewed).toEqual([first, second])
    controller.abort()
    await following
  })

  it('stay in use while the files are unusable, which is logged once', async () => {
    await give(first)
    const controller = new AbortController()
    const following = follow(controller.signal)
    await clock.untilSleeping()
    await writeFile(certFile, second.cert)
    await later()
    await later()
    await rm(keyFile)
    await later()
    expect(renewed).toEqual([first])
    expect(warnings).toEqual([
      `${keyFile} is not the key of ${certFile}`,
      expect.stringContaining(`${keyFile} cannot be read`),
    ])
    await give(second)
    await later()
    expect(renewed).toEqual([first, second])
    controller.abort()
    await following
  })

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['missing', async () => {}, /tls\.crt cannot be read: ENOENT/],
    ['no certificate', () => give({ ...first, cert: 'x' }), /tls\.crt is not valid PEM/],
    ['no key', () => give({ ...first, key: 'x' }), /tls\.key is not valid PEM/],
    [
      'of two pairs',
      () => give({ cert: first.cert, key: second.key }),
      /tls\.key is not the key of .*tls\.crt/,
    ],
  ])('are refused at the start if they are %s', async (_what, prepare, message) => {
    await prepare()
    await expect(follow(new AbortController().signal)).rejects.toThrow(message)
  })
})
