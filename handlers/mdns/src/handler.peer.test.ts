import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { discover } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { Lan } from '../../../test/support/lan.js'
import { createMdnsHandler } from './handler.js'

// Uses real multicast: bonjour-service announces in a network namespace. The tests of dns-sd have
// avahi as their peer.
alone()

const missing = [
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...(spawnSync('ip', ['-V']).status === 0 ? [] : ['the Debian package iproute2']),
]
const title = `the mDNS handler${missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''}`
const peer = path.join(import.meta.dirname, '../test-peers/bonjour.mjs')
let lan: Lan

beforeEach(() => {
  lan = new Lan(`akrb${process.pid % 1000}`)
})

afterEach(() => lan.close())

describe.skipIf(missing.length > 0)(title, () => {
  it('offers what bonjour-service announces, until its goodbye', async () => {
    const host = await lan.addHost(1)
    const details = { services: ['_ipp._tcp'], interfaces: [host.link] }
    await using session = discover(createMdnsHandler(), details)
    const devices = async (count: number) => {
      for (;;) {
        const list = await session.next(Number.POSITIVE_INFINITY)
        if (list.length === count) return list
      }
    }
    await devices(0)
    const announced = await lan.spawn(host, process.execPath, [peer, 'Hall 1', 'ipp', '631'], /up/)
    expect(await devices(1)).toMatchObject([
      {
        id: 'Hall 1._ipp._tcp',
        properties: { MDNS_ADDRESS: host.address, MDNS_PORT: '631', MDNS_TXT_TY: 'Laser 9' },
      },
    ])
    await lan.kill(announced)
    await devices(0)
  })
})
