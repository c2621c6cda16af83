import { beforeEach, describe, expect, it } from 'vitest'
import { costOf } from '../../test/support/cost.js'
import type { AddressRecord, DnsRecord } from './dns-message.js'
import { ServiceCache } from './service-cache.js'

const TYPE = ['_opcua-tcp', '_tcp', 'local']
const PRINTER = ['_ipp', '_tcp', 'local']
const PLC = ['PLC 1.2', ...TYPE]
const HOST = ['plc1', 'local']

const pointer = (ttl = 4500, target = PLC): DnsRecord => ({
  type: 'PTR',
  name: TYPE,
  target,
  ttl,
  flush: false,
})
const srv = (ttl = 120, name = PLC): DnsRecord => ({
  type: 'SRV',
  name,
  target: HOST,
  port: 4840,
  ttl,
  flush: true,
})
const txt = (...strings: string[]): DnsRecord => ({
  type: 'TXT',
  name: PLC,
  strings,
  ttl: 4500,
  flush: true,
})
const address = (text = '192.0.2.1', ttl = 120): AddressRecord => {
  return { type: text.includes(':') ? 'AAAA' : 'A', name: HOST, address: text, ttl, flush: true }
}

let cache: ServiceCache
let now: number

beforeEach(() => {
  cache = new ServiceCache([TYPE, PRINTER], {
    maxServices: 5,
    maxServicesOfSender: 3,
    random: () => 0,
  })
  now = 1_000_000
})

const take = (...records: DnsRecord[]) => cache.take(records, '192.0.2.1', now)
const other = '192.0.2.66'
const takeFromOther = (...records: DnsRecord[]) => cache.take(records, other, now)
const found = () => cache.resolved().map(({ name, addresses }) => [name, ...addresses])
const asked = () =>
  cache.takeDueQuestions(now, false).questions.map(({ name, type }) => `${type} ${name[0]}`)

describe('the cache of services', () => {
  it('resolves a service after its host and an address arrived in any order', () => {
    take(address(), txt('path=/UA'), srv(), pointer())
    expect(cache.resolved()).toEqual([
      {
        type: '_opcua-tcp._tcp',
        name: 'PLC 1.2',
        host: 'plc1.local',
        port: 4840,
        txt: new Map([['path', '/UA']]),
        addresses: ['192.0.2.1'],
        sender: '192.0.2.1',
      },
    ])
  })

  it('queries missing records immediately, and then with increasing waits and an end', () => {
    take(pointer())
    expect(found()).toEqual([])
    const times: number[] = []
    const begin = now
    for (let round = 0; round < 20 && cache.nextDue(now) < begin + 100_000; round++) {
      now = Math.max(now, cache.nextDue(now))
      if (asked().join() === 'SRV PLC 1.2,TXT PLC 1.2') times.push(now - begin)
    }
    expect(times).toEqual([0, 1000, 3000, 7000, 15_000])
    take(srv())
    take(pointer())
    expect(asked()).toEqual(['TXT PLC 1.2', 'A plc1', 'AAAA plc1'])
  })

  it('has the services whose records were asked for in vain', () => {
    take(pointer())
    const absent = () => cache.incomplete().map(({ name, sender, host }) => [name, sender, host])
    expect([asked().length > 0, absent()]).toEqual([true, []])
    now += 1000
    expect([asked().length > 0, absent()]).toEqual([true, [['PLC 1.2', '192.0.2.1', undefined]]])
    take(srv())
    expect(absent()).toEqual([['PLC 1.2', '192.0.2.1', 'plc1.local']])
    take(address())
    expect(absent()).toEqual([])
  })

  it('reads TXT records: the first value of a key counts, in any case of the key', () => {
    take(pointer(), srv(), address(), txt('PATH=/a', 'path=/b', 'flag', 'k=v=w', '=none', 'ü=x'))
    const entries = [...(cache.resolved()[0]?.txt ?? [])]
    expect(entries).toEqual([
      ['path', '/a'],
      ['flag', ''],
      ['k', 'v=w'],
    ])
  })

  it('removes a service immediately after a goodbye of its name, its host or its address', () => {
    const name = 'plc 1\\.2._opcua-tcp._tcp.local'
    for (const [goodbye, ended] of [
      [pointer(0), name],
      [srv(0), name],
      [address('192.0.2.1', 0), 'plc1.local'],
    ] as const) {
      take(pointer(), srv(), address())
      expect(found()).toHaveLength(1)
      expect([...cache.takeEnds()]).toEqual([])
      take(goodbye)
      expect(found()).toEqual([])
      expect([...cache.takeEnds()]).toEqual([[ended, 'goodbye']])
    }
  })

  it('keeps services of several types, and asks for each type with what it knows of it', () => {
    const printer = ['Laser', ...PRINTER]
    take(
      { type: 'PTR', name: PRINTER, target: printer, ttl: 4500, flush: false },
      srv(120, printer),
    )
    take(pointer(), srv(), address())
    expect(cache.resolved().map(({ type, name }) => [type, name])).toEqual([
      ['_ipp._tcp', 'Laser'],
      ['_opcua-tcp._tcp', 'PLC 1.2'],
    ])
    const { questions, knownAnswers } = cache.takeDueQuestions(now, true)
    const types = [TYPE, PRINTER]
    expect(questions.filter(({ type }) => type === 'PTR').map(({ name }) => name)).toEqual(types)
    expect(knownAnswers.map(({ name, target }) => [name, target])).toEqual([
      [PRINTER, printer],
      [TYPE, PLC],
    ])
  })

  it('queries a record four times before it expires', () => {
    take(pointer(), srv(), txt(), address())
    const begin = now
    const times: number[] = []
    while (found().length > 0) {
      now = cache.nextDue(now)
      if (asked().includes('SRV PLC 1.2')) times.push(now - begin)
      cache.expire(now)
    }
    expect(times).toEqual([96_000, 102_000, 108_000, 114_000])
    expect(now - begin).toBe(120_000)
  })

  it('keeps a service with a refreshed record', () => {
    take(pointer(), srv(), txt(), address())
    now += 100_000
    take(srv(), address())
    now += 100_000
    cache.expire(now)
    expect(found()).toEqual([['PLC 1.2', '192.0.2.1']])
  })

  it('lists records as known for the first half of their validity', () => {
    take(pointer(100), srv(), txt(), address())
    now += 40_000
    expect(cache.takeDueQuestions(now, true)).toMatchObject({
      questions: [{ type: 'PTR', name: TYPE }, { name: PRINTER }],
      knownAnswers: [{ target: PLC, ttl: 60 }],
    })
    now += 20_000
    expect(cache.takeDueQuestions(now, true).knownAnswers).toEqual([])
  })

  it('replaces addresses of an earlier announcement', () => {
    take(pointer(), srv(), address('192.0.2.1'))
    take(address('192.0.2.2'), address('2001:db8::1'))
    expect(found()).toEqual([['PLC 1.2', '192.0.2.1', '192.0.2.2', '2001:db8::1']])
    now += 5000
    take(address('192.0.2.3'))
    expect(found()).toEqual([['PLC 1.2', '192.0.2.3', '2001:db8::1']])
    take(address('2001:db8::1', 0))
    expect(found()).toEqual([['PLC 1.2', '192.0.2.3']])
  })

  it('limits the services of a sender and in total, and ignores hosts without services', () => {
    const many = Array.from({ length: 10 }, (_, index) => [`forged ${index}`, ...TYPE])
    cache.take(
      many.flatMap((name) => [pointer(4500, name), srv(120, name)]),
      '192.0.2.66',
      now,
    )
    cache.take([address()], '192.0.2.66', now)
    expect(found()).toHaveLength(3)
    take(pointer(), srv())
    expect(found().map(([name]) => name)).toContain('PLC 1.2')
    for (let index = 0; index < 9; index++)
      cache.take([pointer(4500, [`other ${index}`, ...TYPE])], `192.0.2.${index}`, now)
    expect(cache.refused).toBe(7 + 8)
  })

  it('ignores pointers of other types, and records of unknown services', () => {
    take({
      type: 'PTR',
      name: ['_http', '_tcp', 'local'],
      target: ['x', '_http', '_tcp', 'local'],
      ttl: 9,
      flush: false,
    })
    take({ type: 'PTR', name: TYPE, target: ['x', '_http', '_tcp', 'local'], ttl: 9, flush: false })
    take(srv(), address())
    expect(found()).toEqual([])
    expect(cache.nextDue(now)).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('a record from another sender', () => {
  const moved = (ttl = 120): DnsRecord => ({
    type: 'SRV',
    name: PLC,
    target: HOST,
    port: 4999,
    ttl,
    flush: true,
  })
  const place = () => cache.resolved().map(({ port, addresses }) => [port, ...addresses])

  beforeEach(() => {
    take(pointer(), srv(), txt('path=/UA'), address())
    now += 30_000
  })

  it.each<[string, DnsRecord]>([
    ['its name is gone', pointer(0)],
    ['nothing listens there', srv(0)],
    ['it has another port', moved()],
    ['its address is gone', address('192.0.2.1', 0)],
    ['it has another address', address(other)],
  ])('changes nothing and causes no query: %s', (_, record) => {
    const dueAt = cache.nextDue(now)
    takeFromOther(record)
    expect(cache.nextDue(now)).toBe(dueAt)
    expect(asked()).toEqual([])
    expect([place(), [...cache.takeEnds()]]).toEqual([[[4840, '192.0.2.1']], []])
  })

  it('counts if the sender did not answer two refreshes, without a gap between them', () => {
    const begin = now - 30_000
    const places: unknown[] = []
    for (let n = 0; n < 10 && places.length < 3; n++) {
      now = cache.nextDue(now)
      if (asked().length > 0) places.push([now - begin, place()])
      takeFromOther(moved(), address(other))
    }
    expect(places).toEqual([
      [96_000, [[4840, '192.0.2.1']]],
      [102_000, [[4840, '192.0.2.1']]],
      [198_000, [[4999, other]]],
    ])
  })

  it('cannot shorten the validity of a record', () => {
    takeFromOther(pointer(1), srv(1), address('192.0.2.1', 1))
    now += 5000
    cache.expire(now)
    expect(place()).toEqual([[4840, '192.0.2.1']])
  })

  it('confirms an equal record, as a sender with IPv4 and IPv6 does', () => {
    for (let round = 0; round < 3; round++) {
      cache.take([pointer(), srv(), txt('path=/UA'), address()], 'fe80::1%eth0', now)
      now += 100_000
      cache.expire(now)
    }
    expect(cache.resolved()).toMatchObject([
      { addresses: ['192.0.2.1'], sender: '192.0.2.1', txt: new Map([['path', '/UA']]) },
    ])
  })
})

describe('the cost of a message', () => {
  const services = Array.from({ length: 200 }, (_, index) => [`server ${index}`, ...TYPE])

  it('is small with any number of services', async () => {
    cache = new ServiceCache([TYPE, PRINTER])
    for (let sender = 1; sender <= 5; sender++) {
      const names = services.map(([first, ...type]) => [`${first} of ${sender}`, ...type])
      cache.take(
        names.flatMap((name) => [pointer(120, name), srv(120, name)]),
        `192.0.2.${sender}`,
        now,
      )
    }
    const takeMany = () => {
      for (let message = 0; message < 10_000; message++) take(address())
    }
    expect(await costOf(takeMany)).toBeLessThan(1000)
  })
})
