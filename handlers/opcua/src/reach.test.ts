import { HostNames, type Network, readNetwork } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import type { OpcuaServer } from './opcua-server.js'
import { Reach } from './reach.js'

const networks = (...texts: string[]): Network[] =>
  texts.map((text) => readNetwork(text) ?? expect.fail(`${text} is not a network`))

/** The addresses that the handler calls, on the machine `node` with 192.168.1.5 and fd12::5. */
async function addressesCalled(
  server: Partial<OpcuaServer>,
  allowedNetworks?: readonly Network[],
): Promise<readonly string[]> {
  const resolve = async (host: string) => (host === 'node' ? ['192.168.1.5'] : [])
  const reach = new Reach({
    allowedNetworks,
    hostNames: new HostNames({ clock: new ManualClock() }, { resolve }),
    ownNetworks: () => networks('192.168.1.5/24', 'fd12::5/64'),
    ownAddresses: () => ['127.0.0.1', '192.168.1.5', 'fd12::5'],
  })
  return (
    (await reach.targetOf({ discoveryUrl: 'opc.tcp://node:10250/', ...server }))?.addresses ?? []
  )
}

const announced = { addresses: ['192.168.1.5', 'fd12::5', '127.0.0.1', '192.168.1.7'] }

describe('the callable addresses of a server', () => {
  it('are in the networks of this machine, if another host announces the server', async () => {
    expect(await addressesCalled(announced)).toEqual(['192.168.1.7'])
    expect(await addressesCalled({})).toEqual([])
    expect(await addressesCalled({ listedFrom: ['192.168.1.7'] })).toEqual([])
  })

  it('can be this machine if a discovery server on this machine lists the server', async () => {
    expect(await addressesCalled({ listedFrom: ['192.168.1.5'] })).toEqual(['192.168.1.5'])
    expect(await addressesCalled({ listedFrom: ['::1', '127.0.0.1'] })).toEqual(['192.168.1.5'])
    expect(
      await addressesCalled({
        discoveryUrl: 'opc.tcp://127.0.0.1:4840/',
        listedFrom: ['127.0.0.1'],
      }),
    ).toEqual(['127.0.0.1'])
  })

  it('include the address of the discovery server that lists it, in any network', async () => {
    const listed = { addresses: ['10.9.0.1', '10.9.0.2'], listedFrom: ['10.9.0.1'] }
    expect(await addressesCalled(listed)).toEqual(['10.9.0.1'])
  })

  it('are in allowedNetworks, also on this machine', async () => {
    expect(await addressesCalled(announced, networks('192.168.1.0/24'))).toEqual([
      '192.168.1.5',
      '192.168.1.7',
    ])
    expect(await addressesCalled(announced, networks('192.168.1.5'))).toEqual(['192.168.1.5'])
  })
})
