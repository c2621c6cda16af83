import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  controlSocket,
  defaultStateDirectory,
  leaveWordOfSockets,
  socketDirectory,
  takeWordOfSocketsBack,
} from './places.js'

describe('where the standalone agent keeps things', () => {
  it('is the directory that is named, else by the user', () => {
    expect(defaultStateDirectory({ AKRI_STATE_DIRECTORY: '/srv/akri' })).toBe('/srv/akri')
    expect(defaultStateDirectory({ AKRI_STATE_DIRECTORY: 'relative' })).toBe(
      path.resolve('relative'),
    )
    const own = defaultStateDirectory({ XDG_STATE_HOME: '/home/x/.state' })
    expect(own).toBe(process.getuid?.() === 0 ? '/var/lib/akri-standalone' : '/home/x/.state/akri')
  })

  it('has its sockets beside its state, or in a short place of their own where the path would be too long for them', async () => {
    expect(await socketDirectory('/var/lib/akri')).toBe('/var/lib/akri')
    expect(await controlSocket('/var/lib/akri')).toBe('/var/lib/akri/control.sock')
    const long = `/${'x'.repeat(90)}`
    const short = await socketDirectory(long)
    expect(short.startsWith(path.join(os.tmpdir(), 'akri-'))).toBe(true)
    expect(short.length).toBeLessThan(48)
    expect(await socketDirectory(long)).toBe(short)
    expect(await socketDirectory(`${long}y`)).not.toBe(short)
  })

  it('finds its sockets by the word that is left where they are somewhere else, and beside its state again later', async () => {
    const state = await mkdtemp(path.join(os.tmpdir(), 'akri-places-'))
    onTestFinished(() => rm(state, { recursive: true }))
    for (const name of ['a', 'b']) {
      const sockets = path.join(state, name)
      await mkdir(sockets)
      await leaveWordOfSockets(state, sockets)
      expect(await controlSocket(state)).toBe(`${sockets}/control.sock`)
    }
    await takeWordOfSocketsBack(state)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
    await leaveWordOfSockets(state, path.join(state, 'a'))
    await leaveWordOfSockets(state, state)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
  })

  it('does not believe a word that leads to what may be of somebody else by now', async () => {
    const state = await mkdtemp(path.join(os.tmpdir(), 'akri-places-'))
    onTestFinished(() => rm(state, { recursive: true }))
    const sockets = path.join(state, 'a')
    await leaveWordOfSockets(state, sockets)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
    await symlink(os.tmpdir(), sockets)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
  })

  it('names what is in the way of the word', async () => {
    const state = await mkdtemp(path.join(os.tmpdir(), 'akri-places-'))
    onTestFinished(() => rm(state, { recursive: true }))
    await mkdir(path.join(state, 'sockets'))
    const refused = leaveWordOfSockets(state, path.join(state, 'a'))
    await expect(refused).rejects.toThrow(
      `${path.join(state, 'sockets')} is to be a link to the sockets`,
    )
  })

  it('has its sockets in one place, however the path of its state is spelt', async () => {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-places-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    const long = path.join(directory, 'x'.repeat(90))
    const link = path.join(directory, 'link')
    await mkdir(long)
    await symlink(long, link)
    const short = await socketDirectory(long)
    for (const other of [`${long}/`, path.relative('', long), link])
      expect(await socketDirectory(other)).toBe(short)
  })
})
