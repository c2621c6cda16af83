import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import dgram from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { discover } from '@akrijs/sdk/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endProcess, untilPrinted } from '../../../test/support/peer-process.js'
import { createSnmpHandler } from './handler.js'

// The peer is the snmpd of Net-SNMP.
const isMissing = spawnSync('snmpd', ['-v']).error !== undefined
const title = `the SNMP handler${isMissing ? ' (needs the Debian package snmpd)' : ''}`
const USER = { username: 'akri', auth_password: 'auth-password', privacy_password: 'priv-password' }
let server: ChildProcess
let directory: string
let port: number

beforeAll(async () => {
  if (isMissing) return
  const free = dgram.createSocket('udp4').bind(0, '127.0.0.1')
  await once(free, 'listening')
  port = free.address().port
  free.close()
  await once(free, 'close')
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-snmp-'))
  const file = path.join(directory, 'snmpd.conf')
  writeFileSync(
    file,
    [
      `agentAddress udp:127.0.0.1:${port}`,
      'rocommunity plant-7',
      'sysName switch-1',
      'sysLocation Hall 1',
      'sysDescr Switch 8 ports',
      'sysObjectID .1.3.6.1.4.1.9.1.516',
      `createUser ${USER.username} SHA "${USER.auth_password}" AES "${USER.privacy_password}"`,
      `rouser ${USER.username} priv`,
      '',
    ].join('\n'),
  )
  server = spawn('snmpd', ['-f', '-Lo', '-C', '-c', file], {
    env: { ...process.env, SNMP_PERSISTENT_DIR: directory },
  })
  await untilPrinted(server, /NET-SNMP version/)
})

afterAll(async () => {
  if (isMissing) return
  await endProcess(server)
  rmSync(directory, { recursive: true, force: true })
})

describe.skipIf(isMissing)(title, () => {
  const start = (properties: Readonly<Record<string, string>>) =>
    discover(createSnmpHandler(), { addresses: ['127.0.0.1'], port }, { properties })

  it.each([
    ['the community of a Secret', { community: 'plant-7' }],
    ['SNMPv3, authenticated and encrypted', USER],
  ])('offers what snmpd says, by %s', async (_, properties) => {
    await using session = start(properties)
    expect(await session.next(60_000)).toMatchObject([
      {
        id: `127.0.0.1:${port}`,
        properties: {
          SNMP_ADDRESS: '127.0.0.1',
          SNMP_PORT: String(port),
          SNMP_OBJECT_ID: '1.3.6.1.4.1.9.1.516',
          SNMP_DESCRIPTION: 'Switch 8 ports',
          SNMP_NAME: 'switch-1',
          SNMP_LOCATION: 'Hall 1',
        },
      },
    ])
  })

  it.each([
    ['a wrong community', {}, 'no answer in 4 s'],
    ['an unknown user', { ...USER, username: 'other' }, 'user or password refused'],
    ['a wrong password', { ...USER, auth_password: 'not-this-one' }, 'user or password refused'],
    ['a user without encryption', { ...USER, privacy_password: '' }, 'request refused'],
  ])('says why snmpd does not answer %s', async (_, properties, reason) => {
    await using session = start(properties)
    expect(await session.next(60_000)).toEqual([])
    expect(session.remarks).toEqual([
      `no SNMP answer on UDP port ${port} from 127.0.0.1: ${reason}`,
    ])
  })
})
