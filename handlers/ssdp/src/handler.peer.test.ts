import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { discover } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { Lan } from '../../../test/support/lan.js'
import { createSsdpHandler } from './handler.js'

// Uses real multicast: minidlna announces itself in a network namespace.
alone()

const has = (command: string, args: string[]) => spawnSync(command, args).error === undefined
const missing = [
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...(has('ip', ['-V']) ? [] : ['the Debian package iproute2']),
  ...(has('minidlnad', ['-V']) ? [] : ['the Debian package minidlna']),
]
const title = `the SSDP handler${missing.length > 0 ? ` (needs ${missing.join(', ')})` : ''}`
let lan: Lan
let directory: string

beforeEach(() => {
  lan = new Lan(`akrs${process.pid % 1000}`)
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-dlna-'))
})

afterEach(async () => {
  await lan.close()
  rmSync(directory, { recursive: true, force: true })
})

describe.skipIf(missing.length > 0)(title, () => {
  it('offers a media server with its description, until its goodbye', async () => {
    const host = await lan.addHost(1)
    const configuration = path.join(directory, 'minidlna.conf')
    writeFileSync(
      configuration,
      [
        `media_dir=${directory}`,
        `db_dir=${directory}/db`,
        `log_dir=${directory}`,
        'friendly_name=Hall',
        'port=8200',
        'network_interface=eth0',
        'notify_interval=5',
        'inotify=no',
      ].join('\n'),
    )
    const args = ['-f', configuration, '-P', `${directory}/pid`, '-d']
    const server = await lan.spawn(host, 'minidlnad', args, /HTTP listening on port 8200/)
    const details = { interfaces: [host.link] }
    await using session = discover(createSsdpHandler(), details)
    const devices = async (count: number) => {
      for (;;) {
        const list = await session.next(Number.POSITIVE_INFINITY)
        if (list.length === count) return list
      }
    }
    expect(await devices(1)).toMatchObject([
      {
        properties: {
          SSDP_ADDRESS: host.address,
          SSDP_FRIENDLY_NAME: 'Hall',
          SSDP_DEVICE_TYPE: 'urn:schemas-upnp-org:device:MediaServer:1',
        },
      },
    ])
    await lan.kill(server)
    expect(await devices(0)).toEqual([])
  })
})
