import { once } from 'node:events'
import type { browse as browseServices, Service, ServiceList } from '@akrijs/dns-sd'
import { InvalidDetailsError } from '@akrijs/sdk'
import { discover, ManualClock } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import { mdnsHandlerOn } from './handler.js'
import { service } from './testing/service.js'

const listOf = (...services: Service[]): ServiceList => ({ services, incomplete: [], ended: [] })

/** Each list of the handler, with its reports, on a network where these lists are heard. */
async function found(details: object, ...heard: readonly ServiceList[]) {
  const asked: Parameters<typeof browseServices>[] = []
  async function* browse(...args: (typeof asked)[number]) {
    asked.push(args)
    yield* heard
    await once(args[1].signal, 'abort')
  }
  const clock = new ManualClock()
  await using session = discover(mdnsHandlerOn(browse, { clock }), details, { clock })
  const lists: (readonly string[])[] = []
  const [remarks, leftOut]: [(readonly string[])[], string[]] = [[], []]
  for (const _ of heard) {
    lists.push((await session.next(Number.POSITIVE_INFINITY)).map(({ id }) => id))
    remarks.push(session.remarks)
    leftOut.push(...session.leftOut.map(({ reason }) => reason))
  }
  return { asked, lists, remarks, leftOut }
}

describe('the mDNS handler', () => {
  it('offers what is announced, and no longer what has ended', async () => {
    const end = { ...listOf(), ended: [{ service: service(), by: 'goodbye' }] } as const
    const { lists } = await found({ services: ['_ipp._tcp'] }, listOf(), listOf(service()), end)
    expect(lists).toEqual([[], ['Hall 1._ipp._tcp'], []])
  })

  it('asks for each type once, on the interfaces of the details', async () => {
    const services = ['_ipp._tcp', '_IPP._tcp', '_http._tcp']
    const { asked } = await found({ services, interfaces: ['eth1'] }, listOf())
    expect(asked).toMatchObject([[['_ipp._tcp', '_http._tcp'], { interfaces: ['eth1'] }]])
  })

  it('says where it asked, unless something was announced', async () => {
    const heard = [listOf(), listOf(service({ port: 0 }))]
    const { remarks, leftOut } = await found({ services: ['_ipp._tcp'] }, ...heard)
    expect(remarks).toEqual([
      [expect.stringMatching(/^no interface for mDNS queries for _ipp/)],
      [],
    ])
    expect(leftOut).toEqual(['port 0 announced'])
  })

  it.each([
    [{}, /services/],
    [{ services: [] }, /services: name at least one type/],
    [{ services: ['http'] }, /services\[0\]: write the type of a service/],
    [{ services: ['_http._tcp'], interfaces: ['eth0/1'] }, /interfaces\[0\]/],
    [{ services: ['_http._tcp'], txt: { ty: 'Laser' } }, /txt\.ty/],
    [{ services: ['_http._tcp'], name: {} }, /name/],
  ])('refuses the details %j', async (details, problem) => {
    const refused = found(details, listOf())
    await expect(refused).rejects.toThrow(InvalidDetailsError)
    await expect(refused).rejects.toThrow(problem)
  })
})
