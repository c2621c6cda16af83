import { once } from 'node:events'
import type { browse as browseServices, Service, ServiceList } from '@akrijs/dns-sd'
import { DiscoveryProperties, InvalidDetailsError, silentLogger } from '@akrijs/sdk'
import { followDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mdnsHandlerOn } from './handler.js'

let stop: AbortController

beforeEach(() => {
  stop = new AbortController()
})

afterEach(() => stop.abort())

const service: Service = {
  type: '_ipp._tcp',
  name: 'Hall 1',
  interface: 'eth0',
  host: 'printer.local',
  port: 631,
  txt: new Map(),
  addresses: ['192.0.2.7'],
  sender: '192.0.2.7',
}
const listOf = (...services: Service[]): ServiceList => ({ services, incomplete: [], ended: [] })

/** A network on which these lists are heard; the handler asks for `asked`. */
function network(...lists: readonly ServiceList[]) {
  const asked: Parameters<typeof browseServices>[] = []
  async function* browse(...args: (typeof asked)[number]) {
    asked.push(args)
    yield* lists
    await once(args[1].signal, 'abort')
  }
  return { asked, browse, lists: lists.length }
}

/** The answers to the lists of the network. */
async function discover(details: object, { browse, lists }: ReturnType<typeof network>) {
  const discovery = followDiscovery(mdnsHandlerOn(browse, { clock: new ManualClock() }), {
    details: JSON.stringify(details),
    properties: new DiscoveryProperties(),
    signal: stop.signal,
    log: silentLogger,
  })
  const found = []
  while (found.length < lists) {
    const { value } = await discovery.next()
    found.push(value ?? expect.fail('the discovery has ended'))
  }
  return found
}

describe('the mDNS handler', () => {
  it('offers what is announced, and no longer what has ended', async () => {
    const end = { ...listOf(), ended: [{ service, by: 'goodbye' }] } as const
    const found = await discover(
      { services: ['_ipp._tcp'] },
      network(listOf(), listOf(service), end),
    )
    expect(found.map(({ devices }) => devices.map(({ id }) => id))).toEqual([
      [],
      ['Hall 1._ipp._tcp'],
      [],
    ])
  })

  it('asks for each type once, on the interfaces of the details', async () => {
    const heard = network(listOf())
    const services = ['_ipp._tcp', '_IPP._tcp', '_http._tcp']
    await discover({ services, interfaces: ['eth1'] }, heard)
    expect(heard.asked).toMatchObject([[['_ipp._tcp', '_http._tcp'], { interfaces: ['eth1'] }]])
  })

  it('says where it asked, unless something was announced', async () => {
    const heard = network(listOf(), listOf({ ...service, port: 0 }))
    const found = await discover({ services: ['_ipp._tcp'] }, heard)
    expect(found.map(({ remarks }) => remarks)).toEqual([
      [expect.stringMatching(/^no interface for mDNS queries for _ipp/)],
      [],
    ])
    expect(found.map(({ leftOut }) => leftOut.devices.map(({ reason }) => reason))).toEqual([
      [],
      ['port 0 announced'],
    ])
  })

  it.each([
    [{}, /services/],
    [{ services: [] }, /services: name at least one type/],
    [{ services: ['http'] }, /services\[0\]: write the type of a service/],
    [{ services: ['_http._tcp'], interfaces: ['eth0/1'] }, /interfaces\[0\]/],
    [{ services: ['_http._tcp'], txt: { ty: 'Laser' } }, /txt\.ty/],
    [{ services: ['_http._tcp'], name: {} }, /name/],
  ])('refuses the details %j', async (details, problem) => {
    const refused = discover(details, network(listOf()))
    await expect(refused).rejects.toThrow(InvalidDetailsError)
    await expect(refused).rejects.toThrow(problem)
  })
})
