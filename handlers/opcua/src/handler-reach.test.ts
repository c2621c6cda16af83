import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { readNetwork } from '@akrijs/sdk/network'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { application, type SimulatedServer } from '../test-peers/simulated-server.js'
import { opcuaDetails } from './details.js'
import { createOpcuaHandler } from './handler.js'
import {
  clock,
  discoveryServer,
  ids,
  NAME_MS,
  Rounds,
  standard,
  start,
  stop,
} from './testing/rounds.js'

describe('the OPC UA handler, with host names and networks', () => {
  it('calls no listed or announced server outside of its networks', async () => {
    const elsewhere = await start({ name: 'elsewhere', host: '127.0.0.2' })
    const lds = await discoveryServer(elsewhere)
    const named = `opc.tcp://kubernetes.default.svc:${elsewhere.port}/`
    lds.applications = [
      ...lds.applications,
      application({ applicationName: 'named', discoveryUrls: [named] }),
    ]
    lds.records = [
      { serverName: 'x', discoveryUrl: `${elsewhere.url}heard`, serverCapabilities: [] },
    ]
    const rounds = new Rounds(standard([lds.url]), { resolve: async () => ['127.0.0.2'] })
    expect(ids(await rounds.first())).toEqual([elsewhere.url, named])
    await rounds.next()
    expect(elsewhere.asked).toEqual([])
    expect(elsewhere.accepted).toBe(0)
  })

  it('calls servers in the networks of this machine', async () => {
    const near = await start({ host: '127.0.0.2' })
    const lds = await discoveryServer(near)
    const network = readNetwork('127.0.0.0/8')
    new Rounds(standard([lds.url]), { ownNetworks: () => (network === undefined ? [] : [network]) })
    await expect.poll(() => near.asked).toEqual(['GetEndpoints'])
  })

  it('leaves out servers outside of allowedNetworks', async () => {
    const [near, elsewhere] = [
      await start({ host: '127.0.0.2' }),
      await start({ name: 'elsewhere' }),
    ]
    const lds = await discoveryServer(near, elsewhere)
    const rounds = new Rounds(standard([lds.url], { allowedNetworks: ['127.0.0.2', '10.0.0.0/8'] }))
    expect(ids(await rounds.first())).toEqual([near.url])
    expect(rounds.leftOut).toEqual([[elsewhere.url, 'address not allowed']])
    expect(elsewhere.accepted).toBe(0)
  })

  describe('with announced servers whose names resolve slowly', () => {
    const allowedNetworks = ['127.0.0.1']
    let lds: SimulatedServer
    let urls: readonly string[]
    let answers: (() => void)[]

    const resolve = () =>
      new Promise<readonly string[]>((answer) => answers.push(() => answer(['127.0.0.1'])))

    afterEach(async () => {
      stop.abort()
      for (const answer of answers.splice(0)) answer()
    })

    beforeEach(async () => {
      answers = []
      const plc = await start()
      lds = await discoveryServer()
      urls = Array.from({ length: 8 }, (_, index) => `opc.tcp://plc${index}:${plc.port}/`)
      lds.records = urls.map((discoveryUrl) => ({
        serverName: 'x',
        discoveryUrl,
        serverCapabilities: [],
      }))
    })

    it('waits once for all names, and offers their servers in the next round', async () => {
      const rounds = new Rounds(standard([lds.url], { allowedNetworks }), { resolve })
      await expect.poll(() => answers.length).toBe(1)
      await clock.advance(NAME_MS)
      expect(await rounds.first()).toEqual([])
      expect(rounds.lists).toEqual([[]])
      // The names are resolved one by one.
      for (const _ of urls) {
        for (const answer of answers.splice(0)) answer()
        await clock.advance(0)
      }
      expect(ids(await rounds.next())).toEqual(urls)
    })

    it('ends with its signal while it waits for names', async () => {
      const details = opcuaDetails.parse(standard([lds.url], { allowedNetworks }))
      const context = {
        details,
        properties: new DiscoveryProperties(),
        signal: stop.signal,
        log: silentLogger,
      }
      const lists = createOpcuaHandler({ clock, resolve }).discover(context)[Symbol.asyncIterator]()
      const next = lists.next()
      await expect.poll(() => answers.length).toBeGreaterThan(0)
      stop.abort()
      await expect(next).rejects.toBe(stop.signal.reason)
      expect(clock.sleeping).toEqual([])
    })
  })
})
