import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { DiscoveryProperties, silentLogger, systemClock } from '@akrijs/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { cameraCredentials } from '../credentials.js'
import { NetworkPolicy } from '../network-policy.js'
import { readCamera } from './camera.js'
import { RefusedCredentials } from './refused-credentials.js'

// The peer is gSOAP, which most cameras use: it validates requests by the schema, and checks tokens
// itself.

const build = fileURLToPath(new URL('../../test-peers/gsoap-camera/build.sh', import.meta.url))
const possible = ['soapcpp2', 'gcc', 'openssl'].every(
  (name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0,
)
const packages =
  possible &&
  ['/usr/share/gsoap/plugin/wsseapi.c', '/usr/include/openssl/ssl.h', '/usr/include/zlib.h'].every(
    existsSync,
  )

describe.skipIf(!packages)(
  'a camera made with gSOAP (needs gsoap, libgsoap-dev, libssl-dev, zlib1g-dev, gcc, openssl)',
  () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-gsoap-'))
    const pem = path.join(directory, 'camera.pem')
    let camera: ChildProcess | undefined

    beforeAll(async () => {
      await promisify(execFile)(build, [directory])
      execFileSync(
        'openssl',
        [
          'req',
          '-x509',
          '-newkey',
          'rsa:2048',
          '-nodes',
          '-days',
          '1',
          '-subj',
          '/CN=camera',
          '-keyout',
          'key.pem',
          '-out',
          'cert.pem',
        ],
        { cwd: directory, stdio: 'pipe' },
      )
      writeFileSync(
        pem,
        ['key.pem', 'cert.pem']
          .map((file) => readFileSync(path.join(directory, file), 'utf8'))
          .join(''),
      )
    })
    afterAll(() => rmSync(directory, { recursive: true, force: true }))
    afterEach(async () => {
      camera?.kill('SIGKILL')
      if (camera) await once(camera, 'exit')
    })

    async function start(...options: string[]): Promise<string> {
      const child = spawn(path.join(directory, 'camera'), ['127.0.0.1', ...options], {
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      camera = child
      const [line] = await once(child.stdout, 'data')
      return String(line).trim()
    }

    const ask = (url: string, properties: Record<string, string> = {}) =>
      readCamera({
        url,
        uuid: 'any',
        credentials: cameraCredentials(DiscoveryProperties.fromTexts(properties), silentLogger),
        options: {
          policy: new NetworkPolicy([{ address: '127.0.0.1', prefix: 32, family: 'ipv4' }]),
          mediaProfiles: true,
        },
        refused: new RefusedCredentials({ forMs: 60_000, clock: systemClock }),
        signal: new AbortController().signal,
        log: silentLogger,
        clock: systemClock,
      })

    const FACTS = {
      manufacturer: 'Genivia',
      model: 'gSOAP <camera>',
      firmware: '2.8',
      serialNumber: '0012345678901234567890',
      hardwareId: 'gsoap',
      ipAddress: '127.0.0.1',
      macAddress: '02:00:00:00:00:2a',
      scopes: ['onvif://www.onvif.org/Profile/Streaming', 'onvif://www.onvif.org/name/gSOAP'],
      profiles: ['main', 'sub'].map((token) => ({
        token,
        name: token,
        streamUri: `rtsp://127.0.0.1/stream/${token}`,
        snapshotUri: `http://127.0.0.1/snapshot/${token}.jpg`,
      })),
    }

    it('tells its facts', async () => {
      expect(await ask(await start())).toEqual({ authentication: 'none', ...FACTS })
    })

    it('accepts a token with markup in the user name', async () => {
      const [username, password] = ['a<b>&"c"', 'pässword & more']
      const url = await start(username, password)
      const facts = await ask(url, { username_default: username, password_default: password })
      expect(facts).toEqual({ authentication: 'accepted', ...FACTS })
    })

    it('refuses a wrong password, and requires a password', async () => {
      const url = await start('operator', 'right')
      expect(await ask(url, { username_default: 'operator', password_default: 'wrong' })).toEqual({
        authentication: 'refused',
      })
      expect(await ask(url)).toEqual({ authentication: 'required' })
    })

    it('D2 may have https', async () => {
      const url = await start('operator', 'right', pem)
      expect(url).toMatch(/^https:/)
      const facts = await ask(url, { username_default: 'operator', password_default: 'right' })
      expect(facts).toEqual({ authentication: 'accepted', ...FACTS, profiles: FACTS.profiles })
    })
  },
)
