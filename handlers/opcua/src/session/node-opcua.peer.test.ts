import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { bundle } from '../../../../test/support/bundle.js'
import { temporaryDirectory } from '../../../../test/support/temporary-directory.js'
import { SecuredServer } from '../../test-peers/secured-server.js'

// Runs in its own process, which shows loaded modules, open handles and written files.

const run = promisify(execFile)
const folder = await temporaryDirectory()
// The directory from which the built handler finds node-opcua-client.
const program = path.join(import.meta.dirname, '../../node_modules/.test/session.mjs')
let server: SecuredServer

const SOURCE = `
import { createRequire } from 'node:module'
import { DiscoveryProperties, silentLogger, systemClock } from '@akrijs/sdk'
import { ServerSessions } from './server-sessions.js'
import { SessionPlaces } from './session-places.js'
import { createOpcuaHandler } from '../index.js'
import { opcuaDetails } from '../details.js'

const url = process.argv[2]
const modules = () => Object.keys(createRequire(import.meta.url).cache)
const loaded = () => modules().some((file) => file.includes('node-opcua-client'))
const before = loaded()
const stop = new AbortController()
const details = opcuaDetails.parse({ opcuaDiscoveryMethod: { standard: { discoveryUrls: [url] } } })
const properties = new DiscoveryProperties()
const request = { details, properties, signal: stop.signal, log: silentLogger }
let plain
for await (const devices of createOpcuaHandler().discover(request)) {
  const policies = devices[0]?.properties.OPCUA_SECURITY_POLICIES
  plain = { found: devices.length, policies, loaded: loaded() }
  break
}
stop.abort()
try {
  const target = { addresses: ['127.0.0.1'], port: Number(new URL(url).port), endpointUrl: url }
  const sessions = await ServerSessions.open({
    properties: new DiscoveryProperties(),
    places: new SessionPlaces(),
    targetOf: async () => target,
    clock: systemClock,
    log: silentLogger,
  })
  const application = { applicationUri: 'urn:akri:test:alone', productUri: '', applicationName: '' }
  const known = { server: { discoveryUrl: url }, application }
  await sessions.update([known], new AbortController().signal)
  const product = sessions.of(known.server).OPCUA_PRODUCT_NAME
  console.log(JSON.stringify({ before, plain, after: loaded(), product }))
} catch (error) {
  const { code, kind, message } = error
  console.log(JSON.stringify({ before, plain, code, kind, message }))
}
`

/** The result of a discovery without `serverDetails`, and whether it loaded node-opcua. */
const plain = { found: 1, policies: 'Basic256Sha256,None', loaded: false }

beforeAll(async () => {
  const stdin = { contents: SOURCE, resolveDir: import.meta.dirname }
  await bundle({ stdin, external: ['node-opcua-client'], outfile: program })
  server = await SecuredServer.start({ applicationUri: 'urn:akri:test:alone' })
})

afterAll(async () => {
  await server.close()
  rmSync(path.dirname(program), { recursive: true, force: true })
})

it('loads node-opcua for a session only, writes no files, and lets the process end', async () => {
  const home = path.join(folder, 'home')
  const tmp = path.join(folder, 'tmp')
  mkdirSync(tmp)
  const env = { PATH: '', HOME: home, TMPDIR: tmp }
  const { stdout, stderr } = await run(process.execPath, [program, server.url], {
    env,
    cwd: folder,
    timeout: 120_000,
  })
  expect(JSON.parse(stdout)).toEqual({ before: false, plain, after: true, product: 'Mixer' })
  expect(stderr).toBe('')
  expect(existsSync(home)).toBe(false)
})

it('names the package to install without node-opcua', async () => {
  const alone = path.join(folder, 'alone.mjs')

  copyFileSync(program, alone)
  const { stdout } = await run(process.execPath, [alone, server.url], { timeout: 120_000 })
  expect(JSON.parse(stdout)).toMatchObject({
    before: false,
    plain,
    code: 'AKRI_ERR_OPCUA_CLIENT_MISSING',
    kind: 'terminal',
    message: expect.stringContaining('npm install node-opcua-client'),
  })
})
