import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createDebugEcho } from '@akrijs/handler-debug-echo'
import { silentLogger, systemClock } from '@akrijs/runtime'
import type { HandlerPackage } from '@akrijs/sdk/handler'
import { StandaloneCluster, StateFile } from '@akrijs/standalone'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { ManifestReader } from '../../../standalone/src/manifests/manifest-files.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { StandaloneTrial } from './standalone-trial.js'

const debugEcho: HandlerPackage = {
  name: 'debugEcho',
  package: '@akrijs/handler-debug-echo',
  version: '0.1.0',
  module: '/none.js',
  load: async () => createDebugEcho(),
}

const echo = (name: string, details = 'descriptions: [a]') =>
  'apiVersion: akri.sh/v0\nkind: Configuration\n' +
  `metadata: { name: ${name} }\n# a comment\n` +
  `spec: { discoveryHandler: { name: debugEcho, discoveryDetails: '${details}' } }\n`
const PASSWORD =
  "spec: { discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [a]', " +
  'discoveryProperties: [{ name: password, value: hunter2 }] } }\n'

describe('a trial without a cluster', () => {
  let directory: string
  let cluster: StandaloneCluster

  beforeEach(async () => {
    directory = path.join(await temporaryDirectory(), 'manifests')
    await mkdir(directory)
  })

  const at = (name: string) => path.join(directory, name)

  /** A trial of an agent that has applied the files. */
  async function open({ writes = true, manifests = [directory] } = {}): Promise<StandaloneTrial> {
    const file = new StateFile(path.join(directory, '../cluster.json'))
    cluster = await StandaloneCluster.open({ file, clock: systemClock, log: silentLogger })
    onTestFinished(() => cluster.close())
    const { desired, sources } = await new ManifestReader(manifests).read()
    await cluster.apply(desired)
    return new StandaloneTrial({
      standalone: { cluster, handlers: [debugEcho], sourceOf: (key) => sources.get(key) },
      manifests,
      writes,
      isolated: false,
      handlerVariables: [],
      log: silentLogger,
    })
  }

  it('finds what akri validate finds, with the place', async () => {
    const trial = await open()
    expect(await trial.check(echo('lab'), undefined)).toEqual({
      findings: [],
      more: 0,
      configurations: ['lab'],
    })
    const { findings } = await trial.check(echo('lab', 'descriptons: [a]'), undefined)
    const place = { line: 5, column: 65 }
    expect(findings).toMatchObject([
      {
        level: 'problem',
        place,
        path: expect.stringMatching(/\.descriptions$/),
        message: expect.stringMatching(/^it is missing/),
      },
      {
        level: 'problem',
        place,
        path: expect.stringMatching(/\.descriptons$/),
        message: expect.stringMatching(/did you mean descriptions/),
      },
    ])
  })

  it('refuses a name that another file has, and not that of the replaced file', async () => {
    await writeFile(at('lab.yaml'), echo('lab'))
    const trial = await open()
    const { findings } = await trial.check(echo('lab'), undefined)
    expect(findings).toMatchObject([
      { level: 'problem', place: { line: 3 }, message: expect.stringMatching(/lab\.yaml already/) },
    ])
    const file = { configuration: 'default/lab', version: '' }
    expect((await trial.check(echo('lab'), file)).findings).toEqual([])
  })

  it('has no way to write without --write', async () => {
    expect((await open({ writes: false })).files).toBeUndefined()
  })

  it('writes a new file into the directory of the agent, and replaces no file', async () => {
    const files = (await open()).files
    const written = await files?.write(echo('lab'), undefined)
    expect(written).toMatchObject({ file: at('lab.yaml'), configuration: 'default/lab' })
    expect(await readFile(at('lab.yaml'), 'utf8')).toBe(echo('lab'))
    await expect(files?.write(echo('lab', '{}'), undefined)).rejects.toThrow()
    await writeFile(at('other.yaml'), 'mine')
    await expect(files?.write(echo('other'), undefined)).rejects.toThrow('there is such a file')
    expect(await readFile(at('other.yaml'), 'utf8')).toBe('mine')
  })

  it('writes no text that has a problem, or no Configuration', async () => {
    const files = (await open()).files
    for (const text of [echo('lab', 'descriptons: [a]'), 'a: [', '', echo('../../lab')])
      await expect(files?.write(text, undefined)).rejects.toThrow()
    expect(await readdir(directory)).toEqual([])
  })

  it('says where a new file could go, if the agent follows no directory', async () => {
    await writeFile(at('lab.yaml'), echo('lab'))
    const { files } = await open({ manifests: [at('lab.yaml')] })
    await expect(files?.write(echo('other'), undefined)).rejects.toThrow(/-f DIRECTORY/)
  })

  it('opens a file with its comments, and replaces it with its mode, through a link', async () => {
    const target = path.join(directory, '../target.yaml')
    await writeFile(target, echo('lab'))
    await chmod(target, 0o640)
    await symlink(target, at('lab.yaml'))
    const { files } = await open()
    const opened = await files?.open('default/lab')
    expect(opened).toMatchObject({ file: at('lab.yaml'), text: echo('lab') })
    const text = echo('lab', 'descriptions: [a, b]')
    const version = opened?.version ?? ''
    const written = await files?.write(text, { configuration: 'default/lab', version })
    expect(await readFile(target, 'utf8')).toBe(text)
    expect((await stat(target)).mode & 0o777).toBe(0o640)
    // The next edit has the version of this one.
    await files?.write(echo('lab'), {
      configuration: 'default/lab',
      version: written?.version ?? '',
    })
    expect(await readFile(target, 'utf8')).toBe(echo('lab'))
  })

  it('does not replace a file that has changed since it was opened', async () => {
    await writeFile(at('lab.yaml'), echo('lab'))
    const { files } = await open()
    const version = (await files?.open('default/lab'))?.version ?? ''
    await writeFile(at('lab.yaml'), echo('lab', 'descriptions: [theirs]'))
    const file = { configuration: 'default/lab', version }
    await expect(files?.write(echo('lab'), file)).rejects.toThrow(/has changed since you opened/)
    expect(await readFile(at('lab.yaml'), 'utf8')).toContain('theirs')
  })

  it('opens no file with a secret, and none that the agent has no Configuration of', async () => {
    const head = echo('lab').slice(0, echo('lab').indexOf('spec:'))
    await writeFile(at('lab.yaml'), head + PASSWORD)
    await writeFile(
      at('both.yaml'),
      `${echo('both')}---\napiVersion: v1\nkind: Secret\nmetadata: { name: s }\n` +
        'stringData: { key: hunter2 }\n',
    )
    const { files } = await open()
    for (const name of ['lab', 'both'])
      await expect(files?.open(`default/${name}`)).rejects.toThrow(/has a secret/)
    for (const name of ['default/none', '../../etc/passwd'])
      await expect(files?.open(name)).rejects.toThrow(/no file of the agent has/)
    // The file on the disk can be newer than what the agent has.
    await writeFile(at('lab.yaml'), 'a: [')
    await expect(files?.open('default/lab')).rejects.toThrow(/has a problem/)
  })

  it('discovers nothing with a handler that the agent has not loaded', async () => {
    const trial = await open()
    const { signal } = new AbortController()
    const text = echo('lab').replace('debugEcho', 'mine')
    await expect(trial.discover(text, 'lab', signal)).rejects.toThrow(
      /has not loaded a handler mine/,
    )
    await expect(trial.discover(text, 'other', signal)).rejects.toThrow(/no valid Configuration/)
  })
})
