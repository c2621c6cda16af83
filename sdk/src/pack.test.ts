import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { discover, ManualClock, SimulatedAgent } from './testing.js'

const run = promisify(execFile)
const sdk = path.join(import.meta.dirname, '..')
let project: string

const HANDLER = `import { defineDiscoveryHandler } from '@akrijs/sdk'
const details = { '~standard': { version: 1, vendor: 'own', validate: (value) => ({ value }) } }
export default defineDiscoveryHandler({
  name: 'packed', shared: false, details,
  async *discover({ properties }) {
    yield [{ id: 'one' }]
    if (properties.has('token')) throw new Error('failed on purpose')
  },
})
`
/** A handler with another copy of the SDK than this test. */
const POLLING = `import { defineDiscoveryHandler, every } from '@akrijs/sdk'
const details = { '~standard': { version: 1, vendor: 'own', validate: (value) => ({ value }) } }
export default defineDiscoveryHandler({
  name: 'polling', shared: false, details,
  async *discover({ signal }) {
    for await (const round of every('10s', { signal })) yield [{ id: String(round) }]
  },
})
`

beforeAll(async () => {
  project = await temporaryDirectory()
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], {
    cwd: sdk,
  })
  const packed: { filename: string }[] = JSON.parse(stdout)
  await writeFile(path.join(project, 'package.json'), '{"private":true,"type":"module"}')
  await run(
    'npm',
    ['install', '--offline', '--no-audit', '--no-fund', `./${packed[0]?.filename}`],
    { cwd: project },
  )
  await writeFile(path.join(project, 'handler.js'), HANDLER)
}, 180_000)

it('installs as one package of at most 10 MB', async () => {
  const modules = path.join(project, 'node_modules')
  expect((await readdir(modules)).sort()).toEqual(['.bin', '.package-lock.json', '@akrijs'])
  expect(await readdir(path.join(modules, '@akrijs'))).toEqual(['sdk'])
  expect(existsSync(path.join(modules, '@akrijs/sdk/node_modules'))).toBe(false)
  let bytes = 0
  for (const entry of await readdir(modules, { recursive: true })) {
    const found = await stat(path.join(modules, entry))
    if (found.isFile()) bytes += found.size
  }
  expect(bytes).toBeLessThanOrEqual(10 * 1024 * 1024)
})

it('moves a handler with a copy of the SDK by the clock of a test with another copy', async () => {
  const file = path.join(project, 'polling.js')
  await writeFile(file, POLLING)
  const { default: handler } = await import(file)
  const clock = new ManualClock()
  await using session = discover(handler, '', { clock })
  expect(await session.next()).toMatchObject([{ id: '0' }])
  await clock.advance(10_000)
  expect(await session.next()).toMatchObject([{ id: '1' }])
})

it('serves by akri-handler, survives kill -9, logs no secret, and ends with 0', async () => {
  const directory = path.join(project, 'sockets')
  await mkdir(directory)
  const agent = await SimulatedAgent.start({ directory })
  let log = ''
  let child: ChildProcess | undefined
  const start = () => {
    const env = {
      ...process.env,
      DISCOVERY_HANDLERS_DIRECTORY: directory,
      POD_IP: '',
      LOG_LEVEL: 'debug',
    }
    const started = spawn(
      process.execPath,
      ['node_modules/@akrijs/sdk/dist/akri-handler.js', 'handler.js'],
      {
        cwd: project,
        env,
      },
    )
    started.stderr.on('data', (part) => {
      log += String(part)
    })
    child = started
    return {
      child: started,
      exit: new Promise((resolve) =>
        started.once('exit', (code, signal) => resolve(code ?? signal)),
      ),
    }
  }
  try {
    const first = start()
    await eventually(() => agent.registration('packed'))
    first.child.kill('SIGKILL')
    expect(await first.exit).toBe('SIGKILL')
    expect(existsSync(path.join(directory, 'packed.sock'))).toBe(true)
    const second = start()
    await eventually(() => agent.registration('packed', 2))
    const third = start()
    expect(await third.exit).toBe(1)
    expect(log).toContain('is served by another process already')
    child = second.child
    const session = await agent.discover('packed', { properties: { token: 'hunter2-secret' } })
    await expect(
      (async () => {
        for (;;) await session.next(120_000)
      })(),
    ).rejects.toThrow(/failed on purpose/)
    await eventually(() => expect(log).toContain('failed on purpose'))
    expect(log).not.toContain('hunter2-secret')
    second.child.kill('SIGTERM')
    expect(await second.exit).toBe(0)
    expect(existsSync(path.join(directory, 'packed.sock'))).toBe(false)
  } finally {
    child?.kill('SIGKILL')
    await agent.close()
  }
})

it('akri-handler serves modules, directories and packages, and names what is missing', async () => {
  const named = (name: string) => HANDLER.replace("'packed'", `'${name}'`)
  const required = named('cjs')
    .replace("import { defineDiscoveryHandler } from '@akrijs/sdk'", '')
    .replace('export default defineDiscoveryHandler', 'module.exports = defineDiscoveryHandler')
  const require = `const { defineDiscoveryHandler } = require('@akrijs/sdk')\n`
  await writeFile(path.join(project, 'cjs.cjs'), require + required)
  await mkdir(path.join(project, 'dir'))
  await writeFile(path.join(project, 'dir/main.js'), named('dir'))
  const akri = { contract: 1, handlers: [{ name: 'dir' }] }
  const manifest = { type: 'module', main: 'main.js', akri }
  await writeFile(path.join(project, 'dir/package.json'), JSON.stringify(manifest))
  const installed = path.join(project, 'node_modules/only-import')
  await mkdir(installed)
  await writeFile(
    path.join(installed, 'package.json'),
    '{"type":"module","exports":{".":{"import":"./handler.js"}}}',
  )
  await writeFile(path.join(installed, 'handler.js'), HANDLER)
  await writeFile(path.join(project, 'plain.js'), 'export default 1')
  const agent = await SimulatedAgent.start()
  const env = { ...process.env, DISCOVERY_HANDLERS_DIRECTORY: agent.directory, POD_IP: '' }
  const bin = 'node_modules/@akrijs/sdk/dist/akri-handler.js'
  const child = spawn(process.execPath, [bin, 'only-import', './cjs.cjs', './dir'], {
    cwd: project,
    env,
    stdio: 'ignore',
  })
  try {
    expect((await eventually(() => agent.registration('packed'))).endpoint).toBe(
      path.join(agent.directory, 'packed.sock'),
    )
    for (const name of ['cjs', 'dir']) await eventually(() => agent.registration(name))
    // As a program that is installed globally, which cannot import from the project.
    const names = await run(
      process.execPath,
      [path.join(sdk, 'dist/akri-handler.js'), 'only-import', '--print-names'],
      { cwd: project },
    )
    expect(names.stdout).toBe('["packed"]')
    for (const [module, reason] of [
      ['./plain.js', 'does not export a handler as its default'],
      ['no-such-package', "Cannot find module 'no-such-package'"],
    ] as const) {
      const failure: unknown = await run(process.execPath, [bin, module], {
        cwd: project,
        env,
      }).catch((error: unknown) => error)
      expect(failure).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^\{"level":"error",[^\n]+"msg":"program failed"\}\n$/),
      })
      expect(failure).toMatchObject({ stderr: expect.stringContaining(reason) })
    }
  } finally {
    child.kill('SIGKILL')
    await agent.close()
  }
})
