import { chown, mkdir, rm, symlink } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest'
import { socketDirectory } from '../../cli/src/places.js'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { configuration, nullDevice } from './support/manifests.js'

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

it.skipIf(process.getuid?.() !== 0)(
  'akri run refuses a socket directory of another user (needs root)',
  async () => {
    const long = path.join(akri.directory, 'x'.repeat(90))
    await mkdir(long)
    const sockets = await socketDirectory(long)
    onTestFinished(() => rm(sockets, { recursive: true, force: true }))
    await mkdir(sockets)
    await chown(sockets, 65534, 65534)
    const file = await akri.write(
      'a.yaml',
      configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
    )
    const refused = akri.run(['run', '--plain', '-f', file, '--state-dir', long])
    expect(refused.stderr).toContain(`${sockets} belongs to user 65534, not to 0`)
    expect(refused.status).toBe(1)
    await rm(sockets, { recursive: true })
    await symlink(akri.directory, sockets)
    expect(akri.run(['run', '--plain', '-f', file, '--state-dir', long]).stderr).toContain(
      `${sockets} is not a directory; remove it`,
    )
    // Root may use a state directory of another user.
    const state = path.join(akri.directory, 'o')
    await mkdir(state)
    await chown(state, 65534, 65534)
    await symlink(state, akri.state)
    akri.start('-f', file)
    await eventually(async () => expect(await akri.instances()).toHaveLength(1))
  },
)
