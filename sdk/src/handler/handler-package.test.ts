import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { runWithClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { findHandlerPackage } from './handler-package.js'

const sdk = pathToFileURL(
  path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../sdk/dist/index.js'),
).href

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
})

/** Installs a package `sensor` whose handler has this name. */
async function install(manifest: object, handlerName = 'sensor'): Promise<void> {
  const home = path.join(directory, 'node_modules/sensor')
  await mkdir(home, { recursive: true })
  await writeFile(
    path.join(home, 'package.json'),
    JSON.stringify({ name: 'sensor', version: '1.2.3', type: 'module', ...manifest }),
  )
  await mkdir(path.join(home, 'lib'), { recursive: true })
  await writeFile(path.join(home, 'lib/index.js'), "export { default } from '../main.js'")
  await writeFile(
    path.join(home, 'main.js'),
    `import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}
const details = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } }
export default defineDiscoveryHandler({
  name: ${JSON.stringify(handlerName)},
  shared: true,
  details,
  async *discover() { yield [] },
})`,
  )
}

const akri = { contract: 1, handlers: [{ name: 'sensor' }] }

describe('the package of a handler', () => {
  it.each([
    ['by import alone', { exports: { '.': { import: './main.js' } } }],
    ['by default', { exports: { '.': { types: './main.d.ts', default: './main.js' } } }],
    [
      'by nested conditions',
      {
        exports: { '.': { node: { require: './c.cjs', import: './main.js' }, default: './no.js' } },
      },
    ],
    ['by a list of targets', { exports: [{ deno: './no.js' }, 'std:sensor', './main.js'] }],
    ['by a list of a condition', { exports: { '.': { import: ['sensor', './main.js'] } } }],
    ['by main beside exports of null', { exports: null, main: 'main.js' }],
    ['by a plain path', { exports: './main.js' }],
    ['by main', { main: 'main.js' }],
    ['by main without its extension', { main: './main' }],
    ['by main that is a directory', { main: 'lib' }],
  ])(
    'is read from its package.json, and imported on demand: exported %s',
    async (_how, manifest) => {
      await install({ akri, ...manifest })
      const found = await findHandlerPackage('sensor', directory)
      expect(found).toMatchObject({ name: 'sensor', version: '1.2.3', package: 'sensor' })
      expect((await found.load()).name).toBe('sensor')
    },
  )

  it('is also found by its path', async () => {
    await install({ akri, exports: './main.js' })
    expect((await findHandlerPackage('./node_modules/sensor', directory)).name).toBe('sensor')
  })

  it.each([
    ['is not installed', undefined, /sensor: it is not installed .* npm install sensor/],
    ['says nothing of akri', { exports: './main.js' }, /has no field "akri"/],
    [
      'is for a later contract',
      { akri: { ...akri, contract: 2 }, exports: './main.js' },
      /contract 2, and this program has 1; install a newer akri\.js/,
    ],
    [
      'is for a contract before the first',
      { akri: { ...akri, contract: 0 }, exports: './main.js' },
      /contract 0, and this program has 1; install a newer version of the package/,
    ],
    [
      'names its contract as a text',
      { akri: { ...akri, contract: '1' }, exports: './main.js' },
      /akri\.contract in .*sensor\/package\.json must be 1; it is "1"$/,
    ],
    [
      'misspells its contract',
      { akri: { handlers: akri.handlers, contrakt: 1 }, exports: './main.js' },
      /must be 1; it is missing; is "contrakt" meant\?$/,
    ],
    [
      'has no contract',
      { akri: { handlers: akri.handlers }, exports: './main.js' },
      /must be 1; it is missing$/,
    ],
    ['names no handler', { akri: { contract: 1 }, exports: './main.js' }, /must name one handler/],
    [
      'excludes imports',
      { akri, exports: { import: null, default: './main.js' } },
      /names no module/,
    ],
    ['has not been built', { akri, exports: './dist/main.js' }, /has the package been built/],
    [
      'leads out of itself',
      { akri, exports: '../../../etc/passwd' },
      /names no module that is there/,
    ],
  ])('is refused with the fix when it %s', async (_what, manifest, message) => {
    if (manifest !== undefined) await install(manifest)
    await expect(findHandlerPackage('sensor', directory)).rejects.toThrow(message)
  })

  it('is read from a package.json that begins with a byte order mark', async () => {
    await install({ akri, exports: './main.js' })
    const file = path.join(directory, 'node_modules/sensor/package.json')
    await writeFile(file, `\ufeff${await readFile(file, 'utf8')}`)
    expect((await findHandlerPackage('sensor', directory)).name).toBe('sensor')
  })

  it('is refused with the fix if its path is wrong', async () => {
    const find = (specifier: string) => findHandlerPackage(specifier, directory)
    await expect(find('.')).rejects.toThrow(
      `there is no package.json in ${directory}; give the file of a module, or the directory`,
    )
    await expect(find('./lib/x')).rejects.toThrow(
      `there is no ${directory}/lib/x; give the file of a module, or the directory of a package`,
    )
    await expect(find('x.js')).rejects.toThrow(
      'x.js: there is neither a file nor an installed package of this name',
    )
    // A directory of the working directory.
    await expect(find('runtime/src')).rejects.toThrow(
      'runtime/src: no such package is installed; write ./runtime/src',
    )
    for (const name of ['cr/valve', 'Sensor', '@me', 'a b', '@me/a/b'])
      await expect(find(name)).rejects.toThrow(
        `${name}: there is no such directory, and npm has no package of such a name`,
      )
    await expect(find('@me/a.b-c')).rejects.toThrow('run npm install @me/a.b-c')
  })

  it('is refused if it exports another handler than its package.json names', async () => {
    await install({ akri, exports: './main.js' }, 'other')
    const found = await findHandlerPackage('sensor', directory)
    await expect(found.load()).rejects.toThrow(
      /exports a handler other, but its package.json names sensor/,
    )
  })
})

describe('a module with a handler', () => {
  const body = `{
    name: 'filed',
    shared: true,
    details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
    async *discover() { yield [] },
  }`
  const file = async (name: string, text: string) => {
    await writeFile(path.join(directory, name), text)
    return `./${name}`
  }
  const define = `import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}\n`
  // Node.js 20 also requires an ECMAScript module.
  const sdkFile = JSON.stringify(fileURLToPath(sdk))
  const required = `const { defineDiscoveryHandler } = require(${sdkFile})\n`

  it.each([
    ['an ECMAScript module', 'h.mjs', `${define}export default defineDiscoveryHandler(${body})`],
    [
      'an ECMAScript module without a package.json',
      'h.js',
      `${define}export default defineDiscoveryHandler(${body})`,
    ],
    ['CommonJS', 'h.cjs', `${required}module.exports = defineDiscoveryHandler(${body})`],
    [
      'CommonJS of a compiler',
      'compiled.cjs',
      `${required}Object.defineProperty(exports, '__esModule', { value: true })
      exports.default = defineDiscoveryHandler(${body})`,
    ],
  ])('is found by its path: %s', async (_kind, name, text) => {
    const found = await findHandlerPackage(await file(name, text), directory)
    expect(found).toMatchObject({ name: 'filed', module: path.join(directory, name) })
    expect((await found.load()).name).toBe('filed')
  })

  it.each([
    ['throws', 'throw new Error("no bus")', /h\.mjs cannot be loaded: no bus/],
    ['exports no handler', 'export default 1', /does not export a handler as its default/],
    ['cannot be parsed', 'export default {', /h\.mjs cannot be loaded: /],
  ])('is refused if it %s', async (_what, text, message) => {
    const specifier = await file('h.mjs', text)
    await expect(findHandlerPackage(specifier, directory)).rejects.toThrow(message)
  })

  it('is imported after another import has ended, or after a time limit', async () => {
    const order: string[] = []
    const endless = new Promise(() => {})
    let begin = () => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    Object.assign(globalThis, { akriTest: { order, begin, endless } })
    onTestFinished(() => void Reflect.deleteProperty(globalThis, 'akriTest'))
    const load = async (name: string, text: string) => {
      const specifier = await file(
        name,
        `${define}const { order, begin, endless } = akriTest
        ${text}
        export default defineDiscoveryHandler(${body})`,
      )
      const found = await findHandlerPackage(specifier, directory, async () => 'filed')
      return () => found.load()
    }
    const slow = await load(
      'slow.mjs',
      "await new Promise((resolve) => setTimeout(resolve, 50)); order.push('slow')",
    )
    const hung = await load('hung.mjs', 'begin(); await endless')
    const last = await load('last.mjs', "order.push('last')")
    const clock = new ManualClock()
    const loaded = runWithClock(clock, () => [slow(), hung(), last()].at(-1))
    await begun
    expect(order).toEqual(['slow'])
    await clock.advance(10_000)
    await loaded
    expect(order).toEqual(['slow', 'last'])
  })

  it('is not imported if its name is read elsewhere', async () => {
    const specifier = await file('h.mjs', 'throw new Error("imported")')
    const found = await findHandlerPackage(specifier, directory, async () => 'elsewhere')
    expect(found.name).toBe('elsewhere')
  })
})
