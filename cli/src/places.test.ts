import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { controlSocket, defaultStateDirectory, socketDirectory } from './places.js'

describe('where the standalone agent keeps things', () => {
  it('is the directory that is named, else by the user', () => {
    expect(defaultStateDirectory({ AKRI_STATE_DIRECTORY: '/srv/akri' })).toBe('/srv/akri')
    expect(defaultStateDirectory({ AKRI_STATE_DIRECTORY: 'relative' })).toBe(path.resolve('relative'))
    const own = defaultStateDirectory({ XDG_STATE_HOME: '/home/x/.state' })
    expect(own).toBe(process.getuid?.() === 0 ? '/var/lib/akri-standalone' : '/home/x/.state/akri')
  })

  it('has its sockets beside its state, or in a short place of their own where the path would be too long for them', () => {
    expect(socketDirectory('/var/lib/akri')).toBe('/var/lib/akri')
    expect(controlSocket('/var/lib/akri')).toBe('/var/lib/akri/control.sock')
    const long = `/${'x'.repeat(90)}`
    const short = socketDirectory(long)
    expect(short.startsWith(path.join(os.tmpdir(), 'akri-'))).toBe(true)
    expect(short.length).toBeLessThan(48)
    expect(socketDirectory(long)).toBe(short)
    expect(socketDirectory(`${long}y`)).not.toBe(short)
  })
})
