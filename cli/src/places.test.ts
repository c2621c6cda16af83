import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { controlSocket, removeSocketsLink, socketDirectory, writeSocketsLink } from './places.js'
import { defaultStateDirectory } from './state-directory.mjs'

async function temporary(): Promise<string> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-places-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  return directory
}

describe('the directories of the standalone agent', () => {
  it('are named by the environment, else chosen by the user', () => {
    expect(defaultStateDirectory({ AKRI_STATE_DIRECTORY: '/srv/akri' })).toBe('/srv/akri')
    expect(defaultStateDirectory({ AKRI_STATE_DIRECTORY: 'relative' })).toBe(
      path.resolve('relative'),
    )
    // An empty variable is unset.
    const environment = { AKRI_STATE_DIRECTORY: '', XDG_STATE_HOME: '/home/x/.state' }
    const ownDirectory = defaultStateDirectory(environment)
    expect(ownDirectory).toBe(
      process.getuid?.() === 0 ? '/var/lib/akri-standalone' : '/home/x/.state/akri',
    )
  })

  it.each([
    [{ XDG_STATE_HOME: '/s' }, '/home/x', '/s/akri'],
    [{ XDG_STATE_HOME: 'relative' }, '/home/x', '/home/x/.local/state/akri'],
    [{ XDG_STATE_HOME: '/s' }, '', '/s/akri'],
    [{}, 'relative', ''],
    [{}, '', ''],
  ])('of a user with %j and the home %j are %j', (environment, home, directory) => {
    expect(defaultStateDirectory(environment, { user: 1000, home })).toBe(directory)
  })

  it('have to be chosen by a user without a home', async () => {
    await expect(controlSocket('')).rejects.toThrow('choose a directory with --state-dir')
  })

  it('hold sockets in the state directory, or in a short one if it is too long', async () => {
    expect(await socketDirectory('/var/lib/akri')).toBe('/var/lib/akri')
    expect(await controlSocket('/var/lib/akri')).toBe('/var/lib/akri/control.sock')
    const long = `/${'x'.repeat(90)}`
    const short = await socketDirectory(long)
    expect(short.startsWith(path.join(os.tmpdir(), 'akri-'))).toBe(true)
    expect(short.length).toBeLessThan(48)
    expect(await socketDirectory(long)).toBe(short)
    expect(await socketDirectory(`${long}y`)).not.toBe(short)
  })

  it('lead to sockets by a link, and to the state directory again later', async () => {
    const state = await temporary()
    for (const name of ['a', 'b']) {
      const sockets = path.join(state, name)
      await mkdir(sockets)
      await writeSocketsLink(state, sockets)
      expect(await controlSocket(state)).toBe(`${sockets}/control.sock`)
    }
    await removeSocketsLink(state)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
    await writeSocketsLink(state, path.join(state, 'a'))
    await writeSocketsLink(state, state)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
  })

  it('do not lead to sockets by a link to a directory of another user', async () => {
    const state = await temporary()
    const sockets = path.join(state, 'a')
    await writeSocketsLink(state, sockets)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
    await symlink(os.tmpdir(), sockets)
    expect(await controlSocket(state)).toBe(`${state}/control.sock`)
  })

  it('give an error that names a file in the place of the link', async () => {
    const state = await temporary()
    await mkdir(path.join(state, 'sockets'))
    const refused = writeSocketsLink(state, path.join(state, 'a'))
    await expect(refused).rejects.toThrow(
      `${path.join(state, 'sockets')} cannot be a link to the sockets`,
    )
  })

  it('hold sockets in one directory for all paths of the state directory', async () => {
    const directory = await temporary()
    const long = path.join(directory, 'x'.repeat(90))
    const link = path.join(directory, 'link')
    await mkdir(long)
    await symlink(long, link)
    const short = await socketDirectory(long)
    for (const other of [`${long}/`, path.relative('', long), link])
      expect(await socketDirectory(other)).toBe(short)
  })
})
