import path from 'node:path'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { RegistrationHarness, range } from '../testing/registration-harness.js'
import { AllowedAddresses } from './allowed-addresses.js'

let world: RegistrationHarness

beforeEach(async () => {
  world = await RegistrationHarness.start()
})

afterEach(() => world.close())

describe('an endpoint on the network', () => {
  let clock: ManualClock
  let holders: Map<string, string>

  beforeEach(async () => {
    clock = new ManualClock()
    holders = new Map([['10.0.0.7', 'pod-1']])
    const pods = { holderOf: (address: string) => holders.get(address) }
    const allowed = new AllowedAddresses(['10.9.0.0/16'], pods)
    await world.serve({ addresses: allowed, clock })
  })

  const waiting = (count: number) => eventually(() => expect(clock.sleeping).toHaveLength(count))

  it('has the address of a Pod of this node, or an address that the operator allows', async () => {
    for (const address of ['10.0.0.7', '[::ffff:10.0.0.7]', '0x0a.7', '10.9.1.1'])
      expect(await world.register('a', `http://${address}:10000`, 1), address).toBe('taken')
    expect(world.uids('a')).toEqual(['a@http://10.0.0.7:10000', 'a@http://10.9.1.1:10000'])
    const others = ['10.0.0.8', '127.0.0.1', '[::1]', '169.254.169.254', '0.0.0.0', '10.10.0.1']
    const answers = others.map((address) => world.register('a', `http://${address}:10000`, 1))
    await waiting(others.length)
    await clock.advance(5000)
    for (const answer of await Promise.all(answers)) {
      expect(answer).toMatch(
        /PERMISSION_DENIED: endpoint ".*": \S+ is not the address of a Pod on this node; register/,
      )
      expect(answer).toContain(
        'register from a Pod of this node, or name the address in AKRI_HANDLER_ADDRESSES of ' +
          'the agent (chart: agent.handlerAccess.addresses)',
      )
    }
    expect(world.uids('a')).toHaveLength(2)
  })

  it('is accepted as soon as the API server knows the address of its Pod', async () => {
    const answer = world.register('a', 'http://10.0.0.8:10000', 1)
    await waiting(1)
    await clock.advance(4000)
    holders.set('10.0.0.8', 'pod-2')
    await clock.advance(250)
    expect(await answer).toBe('taken')
    expect(clock.sleeping).toEqual([])
  })

  it('does not get the requests of another Pod that had its address before', async () => {
    await world.register('a', 'http://10.0.0.7:1', 1)
    holders.set('10.0.0.7', 'pod-2')
    const gone = /is not asked: 10.0.0.7 no longer belongs to the Pod that registered/
    await expect(world.firstListOf('a')).rejects.toThrow(gone)
    holders.delete('10.0.0.7')
    await expect(world.firstListOf('a')).rejects.toThrow(gone)
  })

  it('waits for its Pod in a bounded number, with room for local handlers', async () => {
    const answers = range(1, 80).map((port) => world.register('a', `http://10.0.0.8:${port}`, 1))
    await waiting(64)
    const file = await world.socket(path.join(world.directory, 'b.sock'))
    expect(await world.register('b', file)).toBe('taken')
    await clock.advance(5000)
    for (const answer of await Promise.all(answers)) expect(answer).toMatch(/PERMISSION_DENIED/)
    expect(world.uids('a')).toEqual([])
  })

  it('waits no longer than the agent runs', async () => {
    const answer = world.register('a', 'http://10.0.0.8:1', 1)
    await waiting(1)
    await world.server.close()
    expect(await answer).not.toBe('taken')
    expect(world.registry.size).toBe(0)
    expect(clock.sleeping).toEqual([])
  })
})
