import { chmod, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { serve } from '@akrijs/sdk'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { RegistrationHarness } from '../testing/registration-harness.js'

let world: RegistrationHarness

beforeEach(async () => {
  world = await RegistrationHarness.start()
})

afterEach(() => world.close())

describe('the registration of handlers', () => {
  it('accepts a socket in its directory, and an address of the network', async () => {
    const file = await world.socket(path.join(world.directory, 'a.sock'))
    expect(await world.register('a', file)).toBe('taken')
    expect(await world.register('a', 'http://10.0.0.7:10000', 1, true)).toBe('taken')
    expect(await world.register('a', 'http://[fd00::7]:10000', 1)).toBe('taken')
    expect(world.uids('a')).toEqual(
      [`a@${file}`, 'a@http://10.0.0.7:10000', 'a@http://[fd00::7]:10000'].sort(),
    )
  })

  it('A5 gives one endpoint for repeated requests, and follows shared until then', async () => {
    const file = await world.socket(path.join(world.directory, 'a.sock'))
    for (const shared of [false, true]) await world.register('a', file, 0, shared)
    expect(world.registry.endpoints('a').map(({ shared }) => shared)).toEqual([true])
  })

  it('A9 refuses wrong requests with the values that would be right, and goes on', async () => {
    await mkdir(path.join(world.directory, 'sub'))
    const outside = await mkdtemp(path.join(os.tmpdir(), 'akri-out-'))
    const elsewhere = await world.socket(path.join(outside, 'x.sock'))
    await symlink(elsewhere, path.join(world.directory, 'link.sock'))
    await writeFile(path.join(world.directory, 'file.sock'), '')
    const cases: [string, string, number, RegExp][] = [
      [
        'a',
        '/x',
        7,
        /INVALID_ARGUMENT.*endpoint_type 7 is not known; it is UDS \(0\) or NETWORK \(1\)/,
      ],
      ['', '/x', 0, /name "" is not a handler name/],
      ['a b', '/x', 0, /not a handler name/],
      ['a', 'relative.sock', 0, /not an absolute path/],
      ['a', elsewhere, 0, /is not in /],
      ['a', path.join(world.directory, 'link.sock'), 0, /is not in /],
      ['a', `${world.directory}/sub/../../${path.basename(outside)}/x.sock`, 0, /is not in /],
      ['a', path.join(world.directory, 'none.sock'), 0, /is not there/],
      ['a', path.join(world.directory, 'file.sock'), 0, /is not a socket/],
      ['a', world.server.socket, 0, /the agent's socket/],
      ['a', 'https://10.0.0.7:1', 1, /not http:\/\/address:port/],
      ['a', 'http://user@10.0.0.7:1', 1, /not http:\/\/address:port/],
      ['a', 'unix:/x', 1, /not http:\/\/address:port/],
      // Another host can have the name at the next look.
      ['a', 'http://localhost:1', 1, /not http:\/\/address:port/],
      ['a', 'http://sensor.akri.svc:1', 1, /not http:\/\/address:port/],
      ['a', 'http://:secret@10.0.0.7:1', 1, /not http:\/\/address:port/],
    ]
    for (const [name, endpoint, type, message] of cases)
      expect(await world.register(name, endpoint, type)).toMatch(message)
    expect(world.registry.size).toBe(0)
    await rm(outside, { recursive: true, force: true })
  })

  it('refuses the names of loaded handlers, except on their own sockets', async () => {
    const file = await world.socket(path.join(world.directory, 'a.sock'))
    await world.serve({ names: { allBut: new Set(['udev']) } })
    expect(await world.register('udev', file)).toMatch(
      'PERMISSION_DENIED: the agent loads a handler udev itself; ' +
        'end this handler, or do not name it',
    )
    expect(await world.register('udev', 'http://10.0.0.7:10000', 1)).toMatch(/PERMISSION_DENIED/)
    expect(await world.register('Udev', file)).toBe('taken')
    await world.serve({ names: { only: new Set(['udev', 'onvif']) } })
    expect(await world.register('udev', file)).toBe('taken')
    expect(await world.register('opcua', file)).toMatch(
      /PERMISSION_DENIED: only udev, onvif register/,
    )
    expect(world.registry.names).toEqual(['Udev', 'udev'])
  })

  it('dials a socket only while the path is a socket of its directory', async () => {
    const file = await world.socket(path.join(world.directory, 'a.sock'))
    await world.register('a', file)
    await rm(file)
    const outside = await mkdtemp(path.join(os.tmpdir(), 'akri-out-'))
    const elsewhere = await world.socket(path.join(outside, 'x.sock'))
    await symlink(elsewhere, file)
    await expect(world.firstListOf('a')).rejects.toThrow(
      /is not asked: endpoint .*a.sock" is not in /,
    )
    await rm(outside, { recursive: true, force: true })
  })

  it('A9 survives any input', async () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(world.directory, `${world.directory}/`, 'http://', 'http://[', '/\0'),
    )
    await fc.assert(
      fc.asyncProperty(
        text,
        text,
        fc.integer({ min: -5, max: 5 }),
        async (name, endpoint, type) => {
          expect(await world.register(name, endpoint, type)).toMatch(/^taken$|^3 INVALID_ARGUMENT/)
        },
      ),
      { numRuns: 30 },
    )
  })

  it('does not replace a living agent, and replaces a dead one', async () => {
    await expect(world.another()).rejects.toThrow(/is served by another process/)
    await world.server.close()
    await writeFile(world.server.socket, '').then(() => chmod(world.server.socket, 0o600))
    await expect(world.another()).rejects.toThrow(/it is not a socket/)
    await rm(world.server.socket)
    await world.serve()
    expect((await stat(world.server.socket)).isSocket()).toBe(true)
  })

  it('works with a handler that the SDK serves, whose lists arrive', async () => {
    const handler = defineDiscoveryHandler({
      name: 'told',
      shared: true,
      details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
      async *discover({ details }) {
        yield [{ id: JSON.stringify(details) }]
      },
    })
    const serving = await serve(handler, {
      directory: world.directory,
      log: silentLogger,
      environment: {},
    })
    try {
      await eventually(() => expect(world.uids('told')).toHaveLength(1))
      const [endpoint] = world.registry.endpoints('told')
      const stop = new AbortController()
      const { DiscoveryProperties } = await import('@akrijs/sdk')
      const request = {
        configuration: 'default/lab',
        details: 'a: 1',
        properties: new DiscoveryProperties(),
        mostDevices: 10,
        rank: () => () => 0,
      }
      for await (const list of endpoint?.discover(request, stop.signal) ?? []) {
        expect(list).toMatchObject({ devices: [{ id: '{"a":1}' }], leftOut: 0 })
        stop.abort()
      }
      expect(endpoint?.shared).toBe(true)
    } finally {
      await serving.close()
    }
  })
})
