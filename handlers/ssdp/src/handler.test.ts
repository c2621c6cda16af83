import { InvalidDetailsError } from '@akrijs/sdk'
import type { ReportedList } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { collectLists } from '../../../test/support/collected-lists.js'
import { createSsdpHandler, type SsdpHandlerOptions } from './handler.js'

let clock: ManualClock
let stop: AbortController
/** What reached the handler. */
let datagram: (text: string, sender: string) => void
let lists: readonly ReportedList[]
let read: string[]
let description: () => Promise<object>

beforeEach(() => {
  clock = new ManualClock()
  stop = new AbortController()
  lists = []
  read = []
  description = async () => ({ friendlyName: 'TV' })
})

afterEach(() => stop.abort())

const search: NonNullable<SsdpHandlerOptions['search']> = async ({ onDatagram, messages }) => {
  sent = messages.map((message) => Buffer.from(message).toString())
  datagram = (text, sender) => onDatagram(Buffer.from(text), sender)
}
let sent: string[]

async function discover(details: object = {}) {
  const handler = createSsdpHandler({
    clock,
    search,
    read: (location) => {
      read.push(location)
      return description()
    },
  })
  const collected = collectLists(handler, details, stop.signal)
  lists = collected.lists
  await turn()
  return collected
}

/** What has begun ends. */
const turn = () => new Promise((resolve) => setImmediate(resolve))
const advance = async (ms: number) => {
  await turn()
  await clock.advance(ms)
  await turn()
}
const announce = (
  uuid: string,
  { sender = '192.0.2.7', target = 'upnp:rootdevice', kind = 'alive', path = 'd.xml' } = {},
) =>
  datagram(
    [
      'NOTIFY * HTTP/1.1',
      `NTS: ssdp:${kind}`,
      `USN: uuid:${uuid}::${target}`,
      `LOCATION: http://${sender}/${path}`,
      '',
    ].join('\r\n'),
    sender,
  )
const found = () => lists.at(-1)?.devices.map(({ id }) => id)

describe('the SSDP handler', () => {
  it('offers what answers, with its description, in a first list after 5 s', async () => {
    await discover()
    expect(sent).toEqual([expect.stringContaining('ST: upnp:rootdevice')])
    announce('tv')
    await advance(4999)
    expect(lists).toEqual([])
    await advance(1)
    expect(lists.at(-1)?.devices).toMatchObject([
      {
        id: 'tv',
        properties: {
          SSDP_UUID: 'tv',
          SSDP_ADDRESS: '192.0.2.7',
          SSDP_LOCATION: 'http://192.0.2.7/d.xml',
          SSDP_TARGETS: 'upnp:rootdevice',
          SSDP_FRIENDLY_NAME: 'TV',
        },
      },
    ])
  })

  it('removes a device at its goodbye, and after three searches without an answer', async () => {
    await discover()
    announce('tv')
    announce('radio')
    await advance(5000)
    announce('radio', { kind: 'byebye' })
    await advance(100)
    expect(found()).toEqual(['tv'])
    for (let rounds = 0; rounds < 4; rounds++) {
      await advance(30_000)
      announce('tv')
    }
    expect(found()).toEqual(['tv'])
    await advance(92_000)
    await advance(100)
    expect(found()).toEqual([])
  })

  it('believes the first machine that announces a device, while it answers', async () => {
    await discover()
    announce('tv')
    await advance(5000)
    announce('tv', { sender: '192.0.2.66' })
    announce('tv', { sender: '192.0.2.66', kind: 'byebye' })
    await advance(100)
    expect(lists.at(-1)?.devices).toMatchObject([{ properties: { SSDP_ADDRESS: '192.0.2.7' } }])
    expect(read).toEqual(['http://192.0.2.7/d.xml'])
    await advance(92_000)
    announce('tv', { sender: '192.0.2.66' })
    await advance(100)
    expect(lists.at(-1)?.devices).toMatchObject([{ properties: { SSDP_ADDRESS: '192.0.2.66' } }])
  })

  it('offers a device whose description cannot be read, says why, and tries again', async () => {
    description = async () => {
      throw new Error('HTTP status 500')
    }
    await discover()
    announce('tv')
    await advance(5000)
    expect(found()).toEqual(['tv'])
    // A problem would keep the Configuration from being ready.
    expect(lists.at(-1)?.problems.devices).toEqual([])
    expect(lists.at(-1)?.remarks).toEqual(['description of tv not read: HTTP status 500'])
    description = async () => ({ friendlyName: 'TV' })
    announce('tv')
    await advance(60_000)
    expect(read).toHaveLength(2)
    announce('tv')
    await advance(100)
    expect(lists.at(-1)?.devices).toMatchObject([{ properties: { SSDP_FRIENDLY_NAME: 'TV' } }])
    expect(lists.at(-1)?.remarks).toEqual([])
  })

  it('names three devices without a description, and the number of the others', async () => {
    description = () => Promise.reject(new Error('no answer in 3 s'))
    await discover()
    for (const [n, uuid] of [...'abcde'].entries()) announce(uuid, { sender: `192.0.2.${n}` })
    await advance(5000)
    expect(found()).toHaveLength(5)
    expect(lists.at(-1)?.remarks).toEqual([
      ...[...'abc'].map((uuid) => `description of ${uuid} not read: no answer in 3 s`),
      '2 more descriptions not read',
    ])
  })

  it('does not offer again a device that says goodbye while its description is read', async () => {
    let answer = () => {}
    description = () => new Promise((resolve) => (answer = () => resolve({})))
    await discover()
    announce('tv')
    announce('tv', { kind: 'byebye' })
    answer()
    await advance(5000)
    expect(found()).toEqual([])
  })

  it('reads a description again when its URL changes, and every ten minutes', async () => {
    await discover()
    announce('tv')
    await turn()
    announce('tv', { path: 'other.xml' })
    for (let rounds = 0; rounds < 21; rounds++) {
      await advance(30_000)
      announce('tv', { path: 'other.xml' })
    }
    await turn()
    expect(read.map((url) => url.replace(/.*\//, ''))).toEqual(['d.xml', 'other.xml', 'other.xml'])
  })

  it('takes 32 devices of one address, and those of others at once', async () => {
    await discover()
    const flood = () => {
      for (let n = 0; n < 40; n++) announce(`forged-${n}`, { sender: '192.0.2.66' })
    }
    flood()
    announce('tv')
    await advance(5000)
    expect(found()).toContain('tv')
    expect(read).toHaveLength(5)
    for (let rounds = 0; rounds < 10; rounds++) {
      flood()
      await advance(100)
    }
    expect(found()).toHaveLength(33)
  })

  it('finds what the targets name, and leaves out what the filter excludes', async () => {
    const target = 'urn:schemas-upnp-org:device:MediaRenderer:1'
    await discover({ targets: [target], uuids: { items: ['uuid:RADIO'], action: 'Exclude' } })
    announce('tv', { target })
    announce('radio', { target })
    announce('router')
    await advance(5000)
    expect(found()).toEqual(['tv'])
    expect(lists.at(-1)?.leftOut.devices).toEqual([{ id: 'radio', reason: 'filtered by uuids' }])
  })

  it('forgets what the filter excludes, as it does devices', async () => {
    await discover({ uuids: { items: ['tv'] } })
    announce('radio')
    announce('hub')
    await advance(5000)
    announce('hub', { kind: 'byebye' })
    await advance(10_000)
    expect(lists.at(-1)?.leftOut.devices).toEqual([{ id: 'radio', reason: 'filtered by uuids' }])
    await advance(92_000)
    expect(lists.at(-1)?.leftOut.devices).toEqual([])
  })

  it('says where it searched if nothing answers', async () => {
    await discover()
    await advance(5000)
    const nowhere = 'no interface for SSDP searches for upnp:rootdevice (UDP port 1900): '
    expect(lists.at(-1)?.remarks).toEqual([expect.stringContaining(nowhere)])
  })

  it('says that it needs IPv4', async () => {
    await discover({ interfaces: ['lo'] })
    await advance(5000)
    expect(lists.at(-1)?.remarks).toEqual([expect.stringMatching(/: lo has no IPv4 address$/)])
  })

  it.each([
    [{ targets: [] }, /targets: name at least one search target/],
    [{ targets: ['upnp:root\r\ndevice'] }, /targets\[0\]: write a search target/],
    [{ target: 'upnp:rootdevice' }, /target/],
  ])('refuses the details %j', async (details, problem) => {
    const { ended } = await discover(details)
    await expect(ended).rejects.toThrow(InvalidDetailsError)
    await expect(ended).rejects.toThrow(problem)
  })
})
