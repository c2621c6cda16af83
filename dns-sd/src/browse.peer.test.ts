import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Logger } from '@akrijs/sdk'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { alone } from '../../test/support/alone.js'
import { eventually } from '../../test/support/eventually.js'
import { Lan, type LanHost } from '../../test/support/lan.js'
import { type BrowseOptions, browse } from './browse.js'
import type { ServiceList } from './service.js'

// Uses real multicast: peers announce in network namespaces, and this process browses on the links
// to them.
alone()

const isRoot = process.getuid?.() === 0
const missing = [
  ...(isRoot ? [] : ['root']),
  ...(has('ip', ['-V']) ? [] : ['the Debian package iproute2']),
]
const missingAvahi = [
  ...missing,
  ...(has('avahi-daemon', ['--version']) ? [] : ['the Debian package avahi-daemon']),
]
const needs = (names: readonly string[]) => (names.length > 0 ? ` (needs ${names.join(', ')})` : '')

function has(command: string, args: string[]): boolean {
  return spawnSync(command, args).status === 0
}

const peers = path.join(import.meta.dirname, '../test-peers')
let lan: Lan
let directory: string
let stop: AbortController
let logged: string[]

beforeEach(() => {
  lan = new Lan(`akrm${process.pid % 1000}`)
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-mdns-'))
  stop = new AbortController()
  logged = []
})

afterEach(async () => {
  stop.abort()
  await lan.close()
  rmSync(directory, { recursive: true, force: true })
})

const log: Logger = {
  debug() {},
  info() {},
  warn: (_, message) => void logged.push(message),
  error: (_, message) => void logged.push(message),
  child: () => log,
}

function browseOn(hosts: readonly LanHost[], options: Partial<BrowseOptions> = {}) {
  const interfaces = hosts.map(({ link }) => link)
  return browse(['_opcua-tcp._tcp'], { log, signal: stop.signal, interfaces, ...options })
}

/** Reads lists until a list satisfies the condition. */
async function until(
  lists: AsyncGenerator<ServiceList>,
  satisfied: (names: readonly string[]) => boolean,
): Promise<ServiceList> {
  for (;;) {
    const { value, done } = await lists.next()
    if (done) throw new TypeError('browsing has ended')
    if (satisfied(namesOf(value))) return value
  }
}

const namesOf = ({ services }: ServiceList) => services.map(({ name }) => name)
const isEmpty = (names: readonly string[]) => names.length === 0
const isFound = (names: readonly string[]) => names.length > 0

function avahi(
  host: LanHost,
  hostName: string,
  services: Readonly<Record<string, { port: number; text: string[] }>>,
) {
  const files = Object.entries(services).map(([name, { port, text }], index) => {
    const file = path.join(directory, `${hostName}-${index}.service`)
    const records = text.map((record) => `<txt-record>${record}</txt-record>`).join('')
    const service = `<service><type>_opcua-tcp._tcp</type><port>${port}</port>${records}</service>`
    writeFileSync(
      file,
      `<?xml version="1.0"?><!DOCTYPE service-group SYSTEM "avahi-service.dtd">
       <service-group><name>${name}</name>${service}</service-group>`,
    )
    return file
  })
  return lan.spawn(
    host,
    'unshare',
    ['--mount', path.join(peers, 'avahi.sh'), hostName, ...files],
    /successfully established/,
  )
}

const send = (host: LanHost, messages: readonly Buffer[], { times = 1 } = {}) => {
  const hex = messages.map((message) => message.toString('hex'))
  return lan.run(host, process.execPath, [path.join(peers, 'mdns-send.mjs'), String(times), ...hex])
}

/** A response with all records of a server. */
function announcement({
  name = 'raw',
  ttl = 120,
  address = '10.193.1.2',
  host = 'rawhost',
} = {}): Buffer {
  const labels = (...parts: string[]) => [
    ...parts.flatMap((part) => [part.length, ...Buffer.from(part)]),
    0,
  ]
  const type = labels('_opcua-tcp', '_tcp', 'local')
  const instance = labels(name, '_opcua-tcp', '_tcp', 'local')
  const record = (owner: number[], recordType: number, data: number[]) => {
    const numbers = Buffer.alloc(10)
    numbers.writeUInt16BE(recordType, 0)
    numbers.writeUInt16BE(1, 2)
    numbers.writeUInt32BE(ttl, 4)
    numbers.writeUInt16BE(data.length, 8)
    return [...owner, ...numbers, ...data]
  }
  const target = labels(host, 'local')
  return Buffer.from([
    ...[0, 0, 0x84, 0, 0, 0, 0, 3, 0, 0, 0, 0],
    ...record(type, 12, instance),
    ...record(instance, 33, [0, 0, 0, 0, 0x12, 0xe8, ...target]),
    ...record(target, 1, address.split('.').map(Number)),
  ])
}

describe.skipIf(missingAvahi.length > 0)(
  `services that avahi announces${needs(missingAvahi)}`,
  () => {
    it('are in the first list, from all interfaces, by IPv4 and IPv6', async () => {
      const [host, other] = [await lan.addHost(1), await lan.addHost(2)]
      await avahi(host, 'plc1', { 'Mixer 1.2': { port: 4840, text: ['path=/UA', 'caps=DA,HD'] } })
      await avahi(other, 'plc2', {
        Press: { port: 4841, text: [] },
        'Local Discovery': { port: 4840, text: ['caps=LDS'] },
      })
      const { value: first } = await browseOn([host, other]).next()
      const services = (host: LanHost, name: string) => (service: object) => ({
        type: '_opcua-tcp._tcp',
        interface: host.link,
        host: `${name}.local`,
        addresses: [
          host.address,
          expect.stringMatching(new RegExp(`^fe80::[0-9a-f:]+%${host.link}$`)),
        ],
        sender: host.address,
        ...service,
      })
      expect(first).toEqual({
        services: [
          ...[
            {
              name: 'Mixer 1.2',
              port: 4840,
              txt: new Map([
                ['path', '/UA'],
                ['caps', 'DA,HD'],
              ]),
            },
          ].map(services(host, 'plc1')),
          ...[
            { name: 'Local Discovery', port: 4840, txt: new Map([['caps', 'LDS']]) },
            { name: 'Press', port: 4841, txt: new Map() },
          ].map(services(other, 'plc2')),
        ],
        incomplete: [],
        ended: [],
      })
      expect(logged).toEqual([])
    })

    it('appear with an announcement, and go with a goodbye', async () => {
      const host = await lan.addHost(1)
      const lists = browseOn([host])
      expect(await lists.next()).toMatchObject({ value: { services: [] } })
      for (let round = 0; round < 3; round++) {
        const daemon = await avahi(host, 'plc1', { Mixer: { port: 4840, text: [] } })
        expect(namesOf(await until(lists, isFound))).toEqual(['Mixer'])
        await lan.kill(daemon)
        const { ended } = await until(lists, isEmpty)
        expect(ended).toMatchObject([{ service: { name: 'Mixer', port: 4840 }, by: 'goodbye' }])
      }
    })

    it('are found on a later interface, and again after it was removed and added', async () => {
      const host = await lan.addHost(1)
      const lists = browseOn([{ ...host, link: `${host.link.slice(0, -1)}2` }])
      expect(await lists.next()).toMatchObject({ value: { services: [] } })
      for (let round = 0; round < 2; round++) {
        const later = await lan.addHost(2)
        const daemon = await avahi(later, 'plc2', { [`Press ${round}`]: { port: 4841, text: [] } })
        await until(lists, (names) => names.includes(`Press ${round}`))
        await lan.kill(daemon)
        await until(lists, (names) => !names.includes(`Press ${round}`))
        await lan.unplug(later)
        await lan.run(host, 'true', [])
        spawnSync('ip', ['netns', 'delete', later.namespace])
      }
    })
  },
)

describe.skipIf(missing.length > 0)(`browsing over multicast${needs(missing)}`, () => {
  it('has a service apart whose host has no address in the allowed networks', async () => {
    const host = await lan.addHost(1)
    const lists = browseOn([host])
    await lists.next()
    const next = lists.next()
    let isListed = false
    next.then(() => {
      isListed = true
    })
    // The socket of the browser may join the group later.
    await eventually(async () => {
      await send(host, [announcement({ name: 'PLC', address: '192.168.9.9' })])
      expect(isListed).toBe(true)
    })
    const common = { type: '_opcua-tcp._tcp', interface: host.link }
    const incomplete = [{ ...common, name: 'PLC', sender: '10.193.1.2', host: 'rawhost.local' }]
    expect(await next).toMatchObject({ value: { services: [], incomplete } })
  })

  it('ends a service that expires without a goodbye', async () => {
    const host = await lan.addHost(1)
    const lists = browseOn([host])
    await lists.next()
    await send(host, [announcement({ ttl: 2 })])
    await until(lists, isFound)
    const begin = Date.now()
    const { ended } = await until(lists, isEmpty)
    expect(ended).toMatchObject([{ service: { name: 'raw' }, by: 'expiry' }])
    expect(Date.now() - begin).toBeGreaterThan(1000)
  })

  it('finds an announced service during a flood of forged announcements', async () => {
    const [bad, good] = [await lan.addHost(1), await lan.addHost(2)]
    const lists = browseOn([bad, good])
    await lists.next()
    const forged = Array.from({ length: 400 }, (_, index) =>
      announcement({ name: `forged ${index}`, host: `forged${index}` }),
    )
    const say = async (host: LanHost, messages: readonly Buffer[]) => {
      while (!stop.signal.aborted) await send(host, messages, { times: 10 })
    }
    const flood = say(bad, forged)
    await vi.waitFor(() => expect(logged).toContain('multicast messages over the limit dropped'), {
      timeout: 60_000,
    })
    // During a flood, the kernel drops messages of all senders: the handler queries again, and the
    // server repeats its answer.
    const server = say(good, [announcement({ name: 'good', host: 'good', address: good.address })])
    const { services } = await until(lists, (names) => names.includes('good'))
    stop.abort()
    await Promise.all([flood, server])
    expect(services.length).toBeGreaterThan(50)
    expect(services.length).toBeLessThanOrEqual(201)
  })

  it('ends with its signal, also during a wait', async () => {
    const lists = browseOn([await lan.addHost(1)])
    await lists.next()
    const next = lists.next()
    stop.abort()
    expect(await next).toMatchObject({ done: true })
  })
})
