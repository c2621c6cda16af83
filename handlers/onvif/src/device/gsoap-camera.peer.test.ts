import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Credential } from '../credentials.js'
import { query } from '../testing/internal/camera-query.js'
import { tls } from '../testing/internal/certificates.js'

// The peer is gSOAP, which most cameras use: it validates requests by the schema, and checks tokens
// itself.

const build = fileURLToPath(new URL('../../test-peers/gsoap-camera/build.sh', import.meta.url))
const possible = ['soapcpp2', 'gcc'].every(
  (name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0,
)
const packages =
  possible &&
  ['/usr/share/gsoap/plugin/wsseapi.c', '/usr/include/openssl/ssl.h', '/usr/include/zlib.h'].every(
    existsSync,
  )

describe.skipIf(!packages)(
  'a camera made with gSOAP (needs gsoap, libgsoap-dev, libssl-dev, zlib1g-dev, gcc)',
  () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-gsoap-'))
    const pem = path.join(directory, 'camera.pem')
    let camera: ChildProcess | undefined

    beforeAll(async () => {
      await promisify(execFile)(build, [directory])
      writeFileSync(pem, `${tls.key}${tls.cert}`)
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

    const ask = (url: string, as?: Credential) =>
      query(url, { ...(as && { as }), options: { mediaProfiles: true } })

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
      const facts = await ask(url, { username, password })
      expect(facts).toEqual({ authentication: 'accepted', ...FACTS })
    })

    it('refuses a wrong password, and requires a password', async () => {
      const url = await start('operator', 'right')
      expect(await ask(url, { username: 'operator', password: 'wrong' })).toEqual({
        authentication: 'refused',
      })
      expect(await ask(url)).toEqual({ authentication: 'required' })
    })

    it('D2 may have https', async () => {
      const url = await start('operator', 'right', pem)
      expect(url).toMatch(/^https:/)
      const facts = await ask(url, { username: 'operator', password: 'right' })
      expect(facts).toEqual({ authentication: 'accepted', ...FACTS, profiles: FACTS.profiles })
    })
  },
)
