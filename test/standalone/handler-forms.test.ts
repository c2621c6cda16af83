import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, symlink } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

const sdk = path.join(root, 'sdk/dist/index.js')
const url = JSON.stringify(pathToFileURL(sdk).href)
const handler = (name: string) => `{
  name: '${name}',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover() { yield [{ id: 'it' }] },
}`
const esm = (name: string) => `import { defineDiscoveryHandler } from ${url}
export default defineDiscoveryHandler(${handler(name)})\n`
const common = (name: string) => `const { defineDiscoveryHandler } = require(${JSON.stringify(sdk)})
module.exports = defineDiscoveryHandler(${handler(name)})\n`
const typed = (name: string) => esm(name).replace('(value)', '(value: unknown)')
/** The files of a package. */
const packed = (name: string, directory: string, module: string, text: string) => ({
  [`${directory}/package.json`]: JSON.stringify({
    name,
    main: `./${module}`,
    akri: { contract: 1, handlers: [{ name }] },
  }),
  [`${directory}/${module}`]: text,
})

interface Form {
  /** The name of its handler. */
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  readonly specifier: string
}

const FORMS: readonly Form[] = [
  { name: 'esm', files: { 'esm.mjs': esm('esm') }, specifier: './esm.mjs' },
  { name: 'esmJs', files: { 'esm.js': esm('esmJs') }, specifier: './esm.js' },
  { name: 'cjs', files: { 'cjs.cjs': common('cjs') }, specifier: './cjs.cjs' },
  { name: 'cjsJs', files: { 'cjs.js': common('cjsJs') }, specifier: './cjs.js' },
  {
    name: 'directory',
    files: packed('directory', 'directory', 'h.mjs', esm('directory')),
    specifier: './directory',
  },
  {
    name: 'cjsDirectory',
    files: packed('cjsDirectory', 'cjs', 'h.cjs', common('cjsDirectory')),
    specifier: './cjs',
  },
  {
    // Of the working directory.
    name: 'package',
    files: packed('package', 'node_modules/@me/pump', 'h.mjs', esm('package')),
    specifier: '@me/pump',
  },
  // Beside the program, or in the working directory as a symbolic link.
  { name: 'debugEcho', files: {}, specifier: '@akrijs/handler-debug-echo' },
]
const TYPESCRIPT: readonly Form[] = [
  { name: 'mts', files: { 'typed.mts': typed('mts') }, specifier: './typed.mts' },
  { name: 'ts', files: { 'typed.ts': typed('ts') }, specifier: './typed.ts' },
]
const hasTypes = 'typescript' in process.features && process.features.typescript !== false
const usable = [...FORMS, ...(hasTypes ? TYPESCRIPT : [])]

const akri = AkriProgram.ofEachTest()

async function write(forms: readonly Form[]): Promise<void> {
  for (const [name, text] of forms.flatMap(({ files }) => Object.entries(files))) {
    await mkdir(path.dirname(path.join(akri.directory, name)), { recursive: true })
    await akri.write(name, text)
  }
  const installed = path.join(akri.directory, 'node_modules/@akrijs')
  await mkdir(path.dirname(installed), { recursive: true })
  await symlink(path.join(root, 'node_modules/@akrijs'), installed)
}

const specifiers = (forms: readonly Form[]) => forms.map(({ specifier }) => specifier)
const names = (forms: readonly Form[]) => forms.map(({ name }) => name)

/** Starts a program in the directory of the test. */
function start(file: string, args: readonly string[]) {
  const child = spawn(process.execPath, [path.join(root, file), ...args], {
    cwd: akri.directory,
    env: { PATH: process.env.PATH, HOME: akri.directory, AKRI_STATE_DIRECTORY: akri.state },
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += String(chunk)
    })
  return { child, output: () => output }
}

/** What a program that ends by itself leaves: its exit code and its output. */
async function result(file: string, args: readonly string[]) {
  const { child, output } = start(file, args)
  const [status] = await once(child, 'close')
  return { status, output: output() }
}

const AKRI = 'cli/dist/akri.js'
const AKRI_HANDLER = 'sdk/dist/akri-handler.js'

async function runArguments(forms: readonly Form[]): Promise<string[]> {
  const items = names(forms).map((name) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: name.toLowerCase() },
    spec: {
      discoveryHandler: {
        name,
        discoveryDetails: name === 'debugEcho' ? 'descriptions: [it]' : '',
      },
    },
  }))
  for (const item of items) await akri.write(`${item.metadata.name}.json`, JSON.stringify(item))
  const files = items.flatMap(({ metadata }) => ['-f', `${metadata.name}.json`])
  return [
    ...['run', ...files, '--handler', specifiers(forms).join(',')],
    ...['--plain', '--node', 'node-a'],
  ]
}

const untyped = hasTypes ? ' (needs a Node.js that does not remove types)' : ''

describe('a handler as a path or a package', () => {
  it('akri run --handler takes each form', async () => {
    await write(usable)
    const { child, output } = start(AKRI, await runArguments(usable))
    await eventually(() => {
      for (const name of names(usable))
        expect(output()).toMatch(new RegExp(` instance created instance=${name.toLowerCase()}-`))
    })
    child.kill('SIGTERM')
    expect((await once(child, 'exit'))[0]).toBe(0)
  })

  it('akri-handler takes each form', async () => {
    await write(usable)
    const { child } = start(AKRI_HANDLER, ['--directory', '.', ...specifiers(usable)])
    const sockets = names(usable).map((name) => path.join(akri.directory, `${name}.sock`))
    await eventually(() => expect(sockets.filter((file) => !existsSync(file))).toEqual([]))
    child.kill('SIGTERM')
    expect((await once(child, 'exit'))[0]).toBe(0)
  })

  it.skipIf(hasTypes)(`each program names the Node.js that runs TypeScript${untyped}`, async () => {
    const [form = expect.fail()] = TYPESCRIPT
    await write([form])
    const fix = /Node\.js 2\S+ does not run TypeScript .*; use Node\.js 22\.18 or newer, or compile/
    for (const [file, args] of [
      [AKRI, ['discover', form.specifier]],
      [AKRI_HANDLER, ['--directory', '.', form.specifier]],
    ] as const) {
      const { status, output } = await result(file, args)
      expect(output).toMatch(fix)
      expect(status).toBe(1)
    }
    const { child, output } = start(AKRI, await runArguments([form]))
    await eventually(() => expect(output()).toMatch(fix))
    // It writes to the directory that is removed after the test.
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
})
