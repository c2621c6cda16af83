import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, symlink } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

const sdk = path.join(root, 'sdk/dist/index.js')
const url = JSON.stringify(pathToFileURL(sdk).href)
const HANDLER = `{
  name: 'mine',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover() { yield [{ id: 'it' }] },
}`
const ESM = `import { defineDiscoveryHandler } from ${url}
export default defineDiscoveryHandler(${HANDLER})\n`
const COMMON = `const { defineDiscoveryHandler } = require(${JSON.stringify(sdk)})
module.exports = defineDiscoveryHandler(${HANDLER})\n`
const TYPED = ESM.replace('(value)', '(value: unknown)')
const manifest = (module: string) =>
  JSON.stringify({
    name: 'mine',
    main: module,
    akri: { contract: 1, handlers: [{ name: 'mine' }] },
  })

interface Form {
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  readonly specifier: string
}

const FORMS: readonly Form[] = [
  { name: 'an ECMAScript module', files: { 'h.mjs': ESM }, specifier: './h.mjs' },
  { name: 'an ECMAScript module h.js', files: { 'h.js': ESM }, specifier: './h.js' },
  { name: 'CommonJS', files: { 'h.cjs': COMMON }, specifier: './h.cjs' },
  { name: 'CommonJS h.js', files: { 'h.js': COMMON }, specifier: './h.js' },
  {
    name: 'the directory of a package',
    files: { 'mine/package.json': manifest('./h.mjs'), 'mine/h.mjs': ESM },
    specifier: './mine',
  },
  {
    name: 'the directory of a package in CommonJS',
    files: { 'mine/package.json': manifest('./h.cjs'), 'mine/h.cjs': COMMON },
    specifier: './mine',
  },
  {
    name: 'a package of the working directory',
    files: {
      'node_modules/@me/pump/package.json': manifest('./h.mjs'),
      'node_modules/@me/pump/h.mjs': ESM,
    },
    specifier: '@me/pump',
  },
]
const TYPESCRIPT: readonly Form[] = [
  { name: 'TypeScript', files: { 'h.mts': TYPED }, specifier: './h.mts' },
  { name: 'TypeScript h.ts', files: { 'h.ts': TYPED }, specifier: './h.ts' },
]
const PACKAGE: Form = {
  name: 'an installed package',
  files: {},
  specifier: '@akrijs/handler-debug-echo',
}
const hasTypes = 'typescript' in process.features && process.features.typescript !== false

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

async function write(form: Form): Promise<void> {
  if (form === PACKAGE)
    await symlink(path.join(root, 'node_modules'), path.join(akri.directory, 'node_modules'))
  const { files } = form
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(akri.directory, name)), { recursive: true })
    await akri.write(name, text)
  }
}

/** The name of the handler and its details. */
const wanted = (form: Form) =>
  form === PACKAGE
    ? { name: 'debugEcho', discoveryDetails: 'descriptions: [it]' }
    : { name: 'mine', discoveryDetails: '' }

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

async function runArguments(form: Form): Promise<string[]> {
  const object = {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: 'lab' },
    spec: { discoveryHandler: wanted(form) },
  }
  await akri.write('lab.json', JSON.stringify(object))
  const files = ['-f', 'lab.json', '--handler', form.specifier]
  return ['run', ...files, '--plain', '--node', 'node-a']
}

const forms = [...FORMS, ...TYPESCRIPT, PACKAGE].map((form) => ({
  form,
  what: TYPESCRIPT.includes(form)
    ? `${form.name}${hasTypes ? '' : ' (this Node.js does not remove types)'}`
    : form.name,
  isUnknown: TYPESCRIPT.includes(form) && !hasTypes,
}))
const usable = forms.filter(({ isUnknown }) => !isUnknown).map(titled)
const unusable = forms.filter(({ isUnknown }) => isUnknown).map(titled)

function titled({ what, form }: (typeof forms)[number]): [string, Form] {
  return [what, form]
}

describe('a handler as a path or a package', () => {
  it.each(usable)('akri discover takes %s', async (_, form) => {
    await write(form)
    const { discoveryDetails } = wanted(form)
    const details = discoveryDetails === '' ? [] : ['--details-text', discoveryDetails]
    const { status, output } = await result(AKRI, ['discover', form.specifier, ...details])
    expect(output).toMatch(/^it\b/m)
    expect(status).toBe(0)
  })

  it.each(usable)('akri run --handler takes %s', async (_, form) => {
    await write(form)
    const { child, output } = start(AKRI, await runArguments(form))
    await eventually(() => expect(output()).toMatch(/ instance created instance=lab-/))
    child.kill('SIGTERM')
    expect((await once(child, 'exit'))[0]).toBe(0)
  })

  it.each(usable)('akri-handler takes %s', async (_, form) => {
    await write(form)
    const { child } = start(AKRI_HANDLER, ['--directory', '.', form.specifier])
    const socket = path.join(akri.directory, `${wanted(form).name}.sock`)
    await eventually(() => expect(existsSync(socket)).toBe(true))
    child.kill('SIGTERM')
    expect((await once(child, 'exit'))[0]).toBe(0)
  })

  it.each(unusable)('each program names the Node.js that runs %s', async (_, form) => {
    await write(form)
    const fix = /Node\.js 2\S+ does not run TypeScript .*; use Node\.js 22\.18 or newer, or compile/
    for (const [file, args] of [
      [AKRI, ['discover', form.specifier]],
      [AKRI_HANDLER, ['--directory', '.', form.specifier]],
    ] as const) {
      const { status, output } = await result(file, args)
      expect(output).toMatch(fix)
      expect(status).toBe(1)
    }
    const { child, output } = start(AKRI, await runArguments(form))
    await eventually(() => expect(output()).toMatch(fix))
    // It writes to the directory that is removed after the test.
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
})
