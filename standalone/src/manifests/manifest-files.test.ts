import { execFileSync } from 'node:child_process'
import { mkdir, rename, rm, rmdir, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { beforeEach, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { StandaloneCluster } from '../cluster/standalone-cluster.js'
import { StateFile } from '../state/state-file.js'
import { ManifestReader, type ManifestSet, watchManifests } from './manifest-files.js'
import { ManifestFollower } from './manifest-follower.js'

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
})

const at = (name: string) => path.join(directory, name)
const configuration = (name: string, namespace = 'default', capacity = 1) =>
  'apiVersion: akri.sh/v0\nkind: Configuration\n' +
  `metadata: { name: ${name}, namespace: ${namespace} }\n` +
  `spec: { capacity: ${capacity}, discoveryHandler: { name: udev } }\n`
const filesOf = ({ sources }: ManifestSet) =>
  [...sources].map(([name, { file }]) => [name as string, file])
const namesOf = (set: ManifestSet | undefined) =>
  set?.desired.configurations.map(({ name }) => name as string)

it('reads the yaml, yml and json files of a directory, and no others', async () => {
  await writeFile(at('b.yml'), configuration('b'))
  await writeFile(at('a.yaml'), configuration('a'))
  await writeFile(
    at('c.json'),
    JSON.stringify({ kind: 'Secret', metadata: { name: 's' }, stringData: { k: 'v' } }),
  )
  await writeFile(at('.hidden.yaml'), configuration('hidden'))
  await writeFile(at('README.md'), 'not yaml: [')
  const set = await new ManifestReader([directory]).read()
  expect(set.problems).toEqual([])
  expect(namesOf(set)).toEqual(['a', 'b'])
  expect(filesOf(set)).toEqual([
    ['default/a', at('a.yaml')],
    ['default/b', at('b.yml')],
  ])
  expect(set.desired.data.map(({ name }) => name)).toEqual(['s'])
  expect(set.desired.complete).toBe(true)
})

it('A8 refuses a second Configuration of a name, and names both files', async () => {
  await writeFile(at('a.yaml'), configuration('lab'))
  await writeFile(at('b.yaml'), `${configuration('other')}---\n${configuration('lab', 'site')}`)
  const set = await new ManifestReader([directory]).read()
  expect(namesOf(set)).toEqual(['lab', 'other'])
  expect(set.desired.configurations[0]?.namespace).toBe('default')
  expect(set.problems).toEqual([
    {
      file: at('b.yaml'),
      document: 2,
      place: { line: 8, column: 13 },
      path: 'metadata.name',
      message: expect.stringContaining(at('a.yaml')),
    },
  ])
})

it('has the place of each problem, and of a Configuration that moves', async () => {
  const broken = configuration('b').replace('capacity', 'capcity')
  await writeFile(at('a.yaml'), `${configuration('a')}---\n${broken}`)
  const reader = new ManifestReader([directory])
  const { problems } = await reader.read()
  expect(problems.map(({ path, place }) => [path, place])).toEqual([
    ['spec.capcity', { line: 9, column: 9 }],
  ])
  await writeFile(at('a.yaml'), configuration('a'))
  const { sources } = await reader.read()
  const source = [...sources.values()][0]
  expect(source?.placeOf('spec.discoveryHandler.name')?.line).toBe(4)
  await writeFile(at('a.yaml'), `# a comment\n${configuration('a')}`)
  await reader.read()
  expect(source?.placeOf('spec.discoveryHandler.name')?.line).toBe(5)
  // An invalid file has no places: its last valid content counts.
  await writeFile(at('a.yaml'), `# a comment\n# another\n${broken}`)
  await reader.read()
  expect(source?.placeOf('spec.discoveryHandler.name')?.line).toBe(5)
})

it('reads a file once that is named in several ways, and reports its first name', async () => {
  await writeFile(at('a.yaml'), configuration('a'))
  const first = path.relative('.', at('a.yaml'))
  const set = await new ManifestReader([first, at('a.yaml'), `./${first}`, directory]).read()
  expect(set.problems).toEqual([])
  expect(filesOf(set)).toEqual([['default/a', first]])
})

it('refuses a Configuration whose name an Instance could have, in any order', async () => {
  await writeFile(
    at('a.yaml'),
    `${configuration('lab-8120fe')}---\n${configuration('line-abc123')}`,
  )
  await writeFile(at('b.yaml'), configuration('lab', 'site'))
  const set = await new ManifestReader([directory]).read()
  expect(namesOf(set)).toEqual(['line-abc123', 'lab'])
  expect([...set.sources.keys()]).toEqual(['default/line-abc123', 'site/lab'])
  expect(set.problems).toEqual([
    {
      file: at('a.yaml'),
      document: 1,
      place: { line: 3, column: 13 },
      path: 'metadata.name',
      message: expect.stringContaining(`Configuration lab in ${at('b.yaml')}`),
    },
  ])
})

it('uses the last valid content of an invalid file, and all other files', async () => {
  await writeFile(at('a.yaml'), configuration('a', 'default', 3))
  await writeFile(at('b.yaml'), configuration('b'))
  const reader = new ManifestReader([directory])
  await reader.read()
  await writeFile(at('a.yaml'), configuration('a').replace('capacity: 1', 'capacity: 0'))
  await writeFile(at('b.yaml'), configuration('b', 'default', 2))
  const broken = await reader.read()
  expect(broken.desired.configurations.map(({ spec }) => spec.capacity)).toEqual([3, 2])
  expect(broken.problems).toMatchObject([{ file: at('a.yaml'), path: 'spec.capacity' }])
  await rm(at('a.yaml'))
  expect(namesOf(await reader.read())).toEqual(['b'])
})

it('reports an incomplete set while a file was never valid', async () => {
  await writeFile(at('a.yaml'), configuration('a'))
  await writeFile(at('b.yaml'), 'a: [')
  const set = await new ManifestReader([directory]).read()
  expect(namesOf(set)).toEqual(['a'])
  expect(set.desired.complete).toBe(false)
  expect(set.problems).toMatchObject([{ file: at('b.yaml'), document: 0 }])
})

it('reports a missing path, and goes on with the others', async () => {
  await writeFile(at('a.yaml'), configuration('a'))
  const set = await new ManifestReader([at('missing'), at('a.yaml')]).read()
  expect(namesOf(set)).toEqual(['a'])
  expect(set.desired.complete).toBe(false)
  expect(set.problems).toMatchObject([
    { file: at('missing'), message: expect.stringContaining('ENOENT') },
  ])
})

it('refuses pipes and files without bounds, and goes on with the others', async () => {
  await writeFile(at('a.yaml'), configuration('a'))
  execFileSync('mkfifo', [at('b.yaml')])
  await mkdir(at('c.yaml'))
  await writeFile(at('d.yaml'), '')
  await truncate(at('d.yaml'), 2 ** 40)
  const set = await new ManifestReader([directory, '/dev/zero']).read()
  expect(namesOf(set)).toEqual(['a'])
  expect(set.problems.map(({ file, message }) => `${file} ${message}`)).toEqual([
    `${at('b.yaml')} it is not a regular file`,
    `${at('c.yaml')} it is not a regular file`,
    `${at('d.yaml')} it has more than 4194304 bytes`,
    '/dev/zero it is not a regular file',
  ])
})

it('yields at once, again after each change, and ends with its signal', async () => {
  await writeFile(at('a.yaml'), configuration('a'))
  const stop = new AbortController()
  const sets = watchManifests([directory], {
    clock: systemClock,
    log: silentLogger,
    signal: stop.signal,
  })
  const following = async () => namesOf((await sets.next()).value ?? undefined)
  expect(await following()).toEqual(['a'])
  const second = following()
  // As editors do: write another file, then rename it.
  await writeFile(at('b.tmp'), configuration('b'))
  await rename(at('b.tmp'), at('b.yaml'))
  expect(await second).toEqual(['a', 'b'])
  const third = following()
  await rm(at('a.yaml'))
  expect(await third).toEqual(['b'])
  const end = sets.next()
  stop.abort()
  expect((await end).done).toBe(true)
})

it.each(['c.yaml', 'folder'])('sees at once that %s is there again', async (name) => {
  const stop = new AbortController()
  // Without the regular look at the files.
  const sleep = (ms: number, signal?: AbortSignal) =>
    systemClock.sleep(ms < 30_000 ? ms : Number.POSITIVE_INFINITY, signal)
  const sets = watchManifests([at(name)], {
    clock: { ...systemClock, sleep },
    log: silentLogger,
    signal: stop.signal,
  })
  const following = async () => namesOf((await sets.next()).value ?? undefined)
  const until = async (...names: readonly string[]) => {
    while (!isDeepStrictEqual(await following(), names));
  }
  const make = async () => {
    const isFile = name.endsWith('.yaml')
    if (!isFile) await mkdir(at('new'))
    await writeFile(at(isFile ? 'new' : 'new/c.yaml'), configuration('c'))
    await rename(at('new'), at(name))
  }
  expect(await following()).toEqual([])
  for (let round = 0; round < 2; round++) {
    const added = until('c')
    await make()
    await added
    const removed = until()
    await rm(at(name), { recursive: true })
    await removed
  }
  stop.abort()
})

it('applies an edit as soon as the state can be written again', async () => {
  const errors: string[] = []
  const error = (_fields: object, message: string) => void errors.push(message)
  const stop = new AbortController()
  const shared = { clock: systemClock, log: { ...silentLogger, error }, signal: stop.signal }
  const state = at('cluster')
  const cluster = await StandaloneCluster.open({ ...shared, file: new StateFile(state) })
  const follower = new ManifestFollower([at('a.yaml')], { ...shared, cluster })
  const names = () => cluster.configurations.list().map(({ metadata }) => metadata.name)
  await writeFile(at('a.yaml'), configuration('a'))
  await follower.applyFirst()
  const following = follower.follow()
  // A rename cannot replace a directory.
  await rm(state)
  await mkdir(state)
  await writeFile(at('a.yaml'), configuration('b'))
  await eventually(() => expect(errors).toContain('manifests not applied'))
  expect(names()).toEqual(['a'])
  await rmdir(state)
  await eventually(() => expect(names()).toEqual(['b']))
  stop.abort()
  await following
  await cluster.close()
})
