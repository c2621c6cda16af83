import { chmod, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { defineDiscoveryHandler, serve, silentLogger } from '@akrijs/sdk'
import { credentials } from '@grpc/grpc-js'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { HandlerRegistry } from './handler-registry.js'
import { type RegistrationServer, serveRegistration } from './registration-server.js'

let directory: string
let registry: HandlerRegistry
let server: RegistrationServer
let client: RegistrationClient
const listeners: net.Server[] = []

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
  registry = new HandlerRegistry()
  server = await serveRegistration({ directory, registry, log: silentLogger })
  client = new RegistrationClient(`unix:${server.socket}`, credentials.createInsecure())
})

afterEach(async () => {
  client.close()
  await server.close()
  for (const listener of listeners.splice(0)) listener.close()
  await rm(directory, { recursive: true, force: true })
})

/** A socket where somebody listens. */
async function socket(file: string): Promise<string> {
  const listener = net.createServer()
  listeners.push(listener)
  await new Promise<void>((resolve) => listener.listen(file, resolve))
  return file
}

function register(name: string, endpoint: string, type = 0, shared = false): Promise<string> {
  return new Promise((resolve) => {
    // A type that the contract does not know is what is sent here too.
    const endpointType = type as 0
    client.registerDiscoveryHandler({ name, endpoint, endpointType, shared }, (error) => resolve(error?.message ?? 'taken'))
  })
}

const uids = (name: string) => registry.endpoints(name).map(({ uid }) => uid)

describe('the registration of handlers', () => {
  it('takes a socket in its directory, and an address of the network', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    expect(await register('a', file)).toBe('taken')
    expect(await register('a', 'http://10.0.0.7:10000', 1, true)).toBe('taken')
    expect(await register('a', 'http://[fd00::7]:10000', 1)).toBe('taken')
    expect(uids('a')).toEqual([`a@${file}`, 'a@http://10.0.0.7:10000', 'a@http://[fd00::7]:10000'].sort())
  })

  it('A5 is one endpoint however often it is repeated, and follows what it says of sharing', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    for (const shared of [false, true]) await register('a', file, 0, shared)
    expect(registry.endpoints('a').map(({ shared }) => shared)).toEqual([true])
  })

  it('A9 refuses what makes no sense with what would be right, and goes on', async () => {
    await mkdir(path.join(directory, 'sub'))
    const outside = await mkdtemp(path.join(os.tmpdir(), 'akri-out-'))
    const elsewhere = await socket(path.join(outside, 'x.sock'))
    await symlink(elsewhere, path.join(directory, 'link.sock'))
    await writeFile(path.join(directory, 'file.sock'), '')
    const cases: [string, string, number, RegExp][] = [
      ['a', '/x', 7, /INVALID_ARGUMENT.*endpoint_type 7 is not known; it is UDS \(0\) or NETWORK \(1\)/],
      ['', '/x', 0, /name "" is not a handler name/],
      ['a b', '/x', 0, /not a handler name/],
      ['a', 'relative.sock', 0, /not an absolute path/],
      ['a', elsewhere, 0, /is not in /],
      ['a', path.join(directory, 'link.sock'), 0, /is not in /],
      ['a', `${directory}/sub/../../${path.basename(outside)}/x.sock`, 0, /is not in /],
      ['a', path.join(directory, 'none.sock'), 0, /is not there/],
      ['a', path.join(directory, 'file.sock'), 0, /is not a socket/],
      ['a', server.socket, 0, /the agent's own/],
      ['a', 'https://10.0.0.7:1', 1, /not http:\/\/address:port/],
      ['a', 'http://user@10.0.0.7:1', 1, /not http:\/\/address:port/],
      ['a', 'unix:/x', 1, /not http:\/\/address:port/],
    ]
    for (const [name, endpoint, type, message] of cases) expect(await register(name, endpoint, type)).toMatch(message)
    expect(registry.size).toBe(0)
    await rm(outside, { recursive: true, force: true })
  })

  it('takes no more than it can remember', async () => {
    for (let port = 1; port <= 32; port++) expect(await register('a', `http://10.0.0.7:${port}`, 1)).toBe('taken')
    expect(await register('a', 'http://10.0.0.7:99', 1)).toMatch(/RESOURCE_EXHAUSTED/)
    expect(await register('a', 'http://10.0.0.7:1', 1)).toBe('taken')
    expect(await register('b', 'http://10.0.0.7:1', 1)).toBe('taken')
  })

  it('A9 survives whatever is sent', async () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(directory, `${directory}/`, 'http://', 'http://[', '/\0'),
    )
    await fc.assert(
      fc.asyncProperty(text, text, fc.integer({ min: -5, max: 5 }), async (name, endpoint, type) => {
        expect(await register(name, endpoint, type)).toMatch(/^taken$|^3 INVALID_ARGUMENT/)
      }),
      { numRuns: 200 },
    )
  })

  it('refuses to take the place of an agent that lives, and takes that of one that died', async () => {
    await expect(serveRegistration({ directory, registry, log: silentLogger })).rejects.toThrow(/is served by another process/)
    await server.close()
    await writeFile(server.socket, '').then(() => chmod(server.socket, 0o600))
    await expect(serveRegistration({ directory, registry, log: silentLogger })).rejects.toThrow(/it is not a socket/)
    await rm(server.socket)
    server = await serveRegistration({ directory, registry, log: silentLogger })
    expect((await stat(server.socket)).isSocket()).toBe(true)
  })

  it('is met by a handler that the SDK serves, whose lists then come through', async () => {
    const handler = defineDiscoveryHandler({
      name: 'told',
      shared: true,
      details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
      async *discover({ details }) {
        yield [{ id: JSON.stringify(details) }]
      },
    })
    const serving = await serve(handler, { directory, log: silentLogger, environment: {} })
    try {
      await eventually(() => expect(uids('told')).toHaveLength(1))
      const [endpoint] = registry.endpoints('told')
      const stop = new AbortController()
      const { DiscoveryProperties } = await import('@akrijs/sdk')
      const request = { configuration: 'default/lab', details: 'a: 1', properties: new DiscoveryProperties() }
      for await (const list of endpoint?.discover(request, stop.signal) ?? []) {
        expect(list).toMatchObject([{ id: '{"a":1}' }])
        stop.abort()
      }
      expect(endpoint?.shared).toBe(true)
    } finally {
      await serving.close()
    }
  })
})
