import { ManualClock } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import { HostNames } from './host-names.js'

const MINUTE_MS = 60_000

/** Lets what was asked without being waited for be answered. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

describe('host names', () => {
  it('are asked for once a minute, without anybody waiting for a known one', async () => {
    const clock = new ManualClock()
    const asked: string[] = []
    const names = new HostNames({
      clock,
      resolve: async (host) => {
        asked.push(host)
        const answer = [`10.0.0.${asked.length}`]
        await settle()
        return answer
      },
    })
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await clock.advance(MINUTE_MS - 1)
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await clock.advance(1)
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await settle()
    await settle()
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.2'])
    expect(asked).toEqual(['plc1', 'plc1'])
  })

  it('that are addresses are not asked for', async () => {
    const names = new HostNames({ clock: new ManualClock(), resolve: () => Promise.reject(new TypeError('asked')) })
    expect(await names.addressesOf('10.0.0.1')).toEqual(['10.0.0.1'])
    expect(await names.addressesOf('fd00::1')).toEqual(['fd00::1'])
  })

  it('that have resolved count as resolving for five minutes more', async () => {
    const clock = new ManualClock()
    let broken = false
    const names = new HostNames({
      clock,
      resolve: async () => {
        if (broken) throw new TypeError('EAI_AGAIN')
        return ['10.0.0.1']
      },
    })
    const look = async () => {
      await names.addressesOf('plc1')
      await settle()
      return names.addressesOf('plc1')
    }
    await look()
    broken = true
    for (let minute = 1; minute < 5; minute++) {
      await clock.advance(MINUTE_MS)
      expect(await look()).toEqual(['10.0.0.1'])
    }
    await clock.advance(MINUTE_MS)
    expect(await look()).toEqual([])
    broken = false
    await clock.advance(MINUTE_MS)
    expect(await look()).toEqual(['10.0.0.1'])
  })

  it('are not waited for longer than is patient, and two at a time are asked for', async () => {
    let running = 0
    let most = 0
    const answers: (() => void)[] = []
    const names = new HostNames({
      clock: new ManualClock(),
      patienceMs: 20,
      resolve: async (host) => {
        most = Math.max(most, ++running)
        await new Promise<void>((resolve) => answers.push(resolve))
        running--
        return [`${host}.addresses`]
      },
    })
    const hosts = ['a', 'b', 'c', 'd']
    expect(await Promise.all(hosts.map((host) => names.addressesOf(host)))).toEqual([[], [], [], []])
    while (answers.length > 0) {
      for (const answer of answers.splice(0)) answer()
      await settle()
    }
    expect(await Promise.all(hosts.map((host) => names.addressesOf(host)))).toEqual(hosts.map((host) => [`${host}.addresses`]))
    expect(most).toBe(2)
  })

  it('beyond five thousand do not resolve, until others are forgotten', async () => {
    const clock = new ManualClock()
    const names = new HostNames({ clock, resolve: async () => ['10.0.0.1'] })
    await Promise.all(Array.from({ length: 5000 }, (_, index) => names.addressesOf(`host${index}`)))
    expect(await names.addressesOf('one-more')).toEqual([])
    await clock.advance(5 * MINUTE_MS)
    expect(await names.addressesOf('one-more')).toEqual(['10.0.0.1'])
  })
})
