import { describe, expect, it } from 'vitest'
import { distinct } from './distinct-servers.js'
import type { OpcuaServer } from './opcua-server.js'

const application = { applicationUri: 'urn:plc1', productUri: '', applicationName: '' }
const listed = (discoveryUrl: string): OpcuaServer => ({ discoveryUrl, application })
const urls = (servers: readonly OpcuaServer[]) => distinct(servers).map((one) => one.discoveryUrl)

describe('servers whose URLs differ by their spelling', () => {
  it.each([
    ['a slash at the end', 'opc.tcp://plc1:4840', 'opc.tcp://plc1:4840/'],
    ['a slash after a path', 'opc.tcp://plc1:4840/UA', 'opc.tcp://plc1:4840/UA/'],
    ['the case of the host', 'opc.tcp://plc1:4840/', 'opc.tcp://PLC1:4840'],
    ['the case of the scheme', 'opc.tcp://plc1:4840', 'OPC.TCP://plc1:4840'],
    ['the default port', 'opc.tcp://plc1', 'opc.tcp://plc1:4840/'],
    ['a dot after the host', 'opc.tcp://plc1:4840/', 'opc.tcp://plc1.:4840'],
    ['a dot and the default port', 'opc.tcp://plc1', 'opc.tcp://plc1.'],
    ['a dot or capitals', 'opc.tcp://plc1.:4840', 'opc.tcp://PLC1:4840'],
    ['an address', 'opc.tcp://[fd00::7]:4840', 'opc.tcp://[FD00:0:0::7]:4840/'],
  ])('by %s are one device with one id, in any order', (_, better, other) => {
    expect(urls([listed(better), listed(other)])).toEqual([better])
    expect(urls([listed(other), listed(better)])).toEqual([better])
    const apart = 'opc.tcp://plc2:4840'
    expect(urls([listed(other), listed(apart), listed(better)])).toEqual([better, apart])
  })

  it('keep their id if there is only one spelling', () => {
    for (const url of ['opc.tcp://PLC1:4840/', 'opc.tcp://plc1:4840', 'opc.tcp://plc1:4840/UA/'])
      expect(urls([listed(url), listed(url)])).toEqual([url])
  })

  it('are several devices if port, path or host differ', () => {
    const all = ['', '/ua', '/UA', '/UA?x', '/UA/x'].map((path) => `opc.tcp://plc1:4840${path}`)
    const others = ['opc.tcp://plc1:4841', 'opc.tcp://plc2:4840']
    expect(urls([...all, ...others].map(listed))).toEqual([...all, ...others])
  })

  it('have the spelling of a list, not of an announcement', () => {
    const announced: OpcuaServer = { discoveryUrl: 'opc.tcp://plc1:4840', addresses: ['10.0.0.1'] }
    const server = listed('opc.tcp://PLC1:4840/')
    const unlisted = { ...listed('opc.tcp://plc1:4840'), isUnlisted: true }
    for (const all of [
      [announced, server, unlisted],
      [unlisted, announced, server],
    ])
      expect(distinct(all)).toEqual([{ ...server, addresses: ['10.0.0.1'] }])
  })

  it('are the server that answered itself, not the entry of a discovery server', () => {
    const entry = listed('opc.tcp://plc1:4840')
    const server = { ...listed('opc.tcp://plc1:4840/'), hasHostOfDetails: true }
    const once = [{ ...server, discoveryUrl: entry.discoveryUrl }]
    expect(distinct([entry, server])).toEqual(once)
    expect(distinct([server, entry])).toEqual(once)
  })

  it('are disputed if reports name different applications', () => {
    const url = 'opc.tcp://plc1:4840'
    const others = [{ applicationUri: 'urn:other' }, { applicationName: 'Other' }].map(
      (change) => ({
        ...listed(url),
        application: { ...application, ...change },
      }),
    )
    for (const other of others)
      for (const all of [
        [listed(url), other],
        [other, listed(url), listed(url)],
        [listed(url), ...distinct([listed(url), other])],
      ])
        expect(distinct(all)).toMatchObject([{ discoveryUrl: url, rivals: [{}] }])
    expect(distinct([listed(url), listed(url)])).toEqual([listed(url)])
    expect(distinct([listed(url), { discoveryUrl: url }])).toEqual([listed(url)])
  })

  it('keep the applications of other reports, each once', () => {
    const url = 'opc.tcp://plc1:4840'
    const [a, b, c] = ['a', 'b', 'c'].map((name) => ({
      ...listed(url),
      application: { ...application, applicationUri: `urn:${name}` },
    }))
    if (a === undefined || b === undefined || c === undefined) expect.unreachable()
    const rivals = [b.application, c.application]
    expect(distinct([a, b, a, c, b])).toMatchObject([{ application: a.application, rivals }])
    const merged = [...distinct([a, b]), ...distinct([b, c])]
    expect(distinct(merged)).toMatchObject([{ application: a.application, rivals }])
    const named = ['', 'A', 'B', 'A'].map((applicationName) => ({
      ...listed(url),
      application: { ...application, applicationName },
    }))
    expect(distinct(named)[0]?.rivals?.map((each) => each.applicationName)).toEqual(['A', 'B'])
    const many = Array.from({ length: 1000 }, (_, n) => ({
      ...listed(url),
      application: { ...application, applicationUri: `urn:${n}` },
    }))
    expect(distinct(many)[0]?.rivals).toHaveLength(100)
  })

  it('keep all claims, unless any server at the URL is meant', () => {
    const claim = (url: string) => ({ url, name: '', applicationUri: url, reason: '' })
    const [a, b] = ['a', 'b'].map((url) => ({
      discoveryUrl: 'opc.tcp://plc1:4840',
      claims: [claim(url)],
    }))
    if (a === undefined || b === undefined) expect.unreachable()
    const claims = [claim('a'), claim('b')]
    expect(distinct([a, b])).toEqual([{ ...a, claims }])
    expect(distinct([a, listed('opc.tcp://plc1:4840'), b])).toEqual([
      { ...listed('opc.tcp://plc1:4840'), claims },
    ])
    expect(distinct([a, { discoveryUrl: 'opc.tcp://plc1:4840/' }])).toEqual([
      { discoveryUrl: 'opc.tcp://plc1:4840/' },
    ])
  })
})
