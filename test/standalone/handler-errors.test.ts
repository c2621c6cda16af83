import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { AkriProgram, root } from './support/akri-program.js'

const sdk = pathToFileURL(path.join(root, 'sdk/dist/index.js')).href
const program = path.join(root, 'sdk/dist/akri-handler.js')

const before = `import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}
const details = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } }
export default defineDiscoveryHandler({ name: 'mine', shared: true, details, discover })
`
/** A module whose function begins in line 4. */
const moduleOf = (discover: string) => `${before}${discover}`

const akri = AkriProgram.ofEachTest()

const at = (name: string) => path.join(akri.directory, name)

describe('akri discover', () => {
  async function failureOf(text: string, name = 'h.mjs') {
    const file = await akri.write(name, text)
    const { stdout, stderr, status } = akri.run(['discover', file])
    expect([stdout, status]).toEqual(['', 1])
    return stderr.replaceAll(akri.directory, '…')
  }

  it('names the line in the handler that threw', async () => {
    const text = moduleOf(`async function* discover() {
      yield* read()
    }
    async function* read() {
      throw new Error('no bus')
    }`)
    const failure = await failureOf(text)
    expect(failure).toMatch(
      /^akri: handler mine failed: no bus\n {4}at read \(file:\/\/…\/h\.mjs:8:13\)\n/,
    )
    // The SDK of this clone is not in `node_modules`.
    const places = failure.trimEnd().split('\n').slice(1)
    expect(places.filter((place) => !place.includes('h.mjs:'))).toEqual([])
  })

  it('says in one sentence what keeps a built-in handler from its network', () => {
    const details = "{ broker: 'mqtt://127.0.0.1:1', homie: {} }"
    const { stderr } = akri.run(['discover', 'mqtt', '--details-text', details])
    expect(stderr).toMatch(
      /^akri: handler mqtt failed: .* the broker mqtt:\/\/127\.0\.0\.1:1 .*ECONNREFUSED .*\n$/,
    )
  })

  it('names the line of the source that a compiler read', async () => {
    const text = moduleOf("async function* discover() { throw new Error('no bus') }")
    const map = { version: 3, sources: ['h.ts'], names: [], mappings: 'AAAA' }
    const encoded = Buffer.from(JSON.stringify(map)).toString('base64')
    const url = `data:application/json;base64,${encoded}`
    const oneLine = text.replaceAll('\n', ';')
    const file = await akri.write('h.mjs', `${oneLine}\n//# sourceMappingURL=${url}\n`)
    expect(akri.run(['discover', file]).stderr).toMatch(/ at .*\/h\.ts:1:1\)?\n/)
  })

  it.each([
    ['an ECMAScript module', 'h.mjs'],
    ['CommonJS', 'h.cjs'],
  ])('names the line of a syntax error in %s', async (_, name) => {
    expect(await failureOf('const a = 1\n\nconst b = = 2\n', name)).toBe(
      `akri: …/${name} cannot be loaded: …/${name}:3: Unexpected token '='\n` +
        `…/${name}:3\nconst b = = 2\n          ^\n`,
    )
  })

  const removesTypes = 'typescript' in process.features && process.features.typescript !== false
  const NO_TYPES = removesTypes ? '' : ' (needs a Node.js that removes types)'
  it.skipIf(!removesTypes)(
    `names the line of a syntax error in TypeScript${NO_TYPES}`,
    async () => {
      const failure = await failureOf('const a: number = 1\n\nconst b = = 2\n', 'h.mts')
      expect(failure).toMatch(/^akri: …\/h\.mts cannot be loaded: …\/h\.mts:3: /)
      expect(failure).toMatch(/\n…\/h\.mts:3\nconst b = = 2\n {10}\^\n$/)
    },
  )

  it('names the line of a syntax error in an imported file, and runs no file', async () => {
    await akri.write('lib.mjs', 'export const a = 1\nexport const b = (\n')
    const ran = JSON.stringify(at('ran'))
    await akri.write('run.mjs', `import fs from 'node:fs'\nfs.writeFileSync(${ran}, '')`)
    const text = "import './run.mjs'\nimport './lib.mjs'\n"
    expect(await failureOf(text)).toMatch(
      /h\.mjs cannot be loaded: …\/lib\.mjs:3: Unexpected end of input\n…\/lib\.mjs:3\n/,
    )
    expect(existsSync(at('ran'))).toBe(false)
  })

  it('names an import that is not exported, and one that is not there', async () => {
    await akri.write('lib.mjs', 'export const a = 1\n')
    expect(await failureOf("\nimport { b } from './lib.mjs'")).toMatch(
      /h\.mjs cannot be loaded: …\/h\.mjs:2: .*'\.\/lib\.mjs' does not provide.*'b'\n/,
    )
    expect(await failureOf("import './gone.mjs'", 'g.mjs')).toMatch(
      /g\.mjs cannot be loaded: Cannot find module '…\/gone\.mjs' imported from …\/g\.mjs\n/,
    )
  })
})

describe('akri-handler', () => {
  function serve(...files: readonly string[]) {
    const { stderr, status } = spawnSync(process.execPath, [program, ...files], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, DISCOVERY_HANDLERS_DIRECTORY: akri.directory },
      timeout: 120_000,
    })
    expect(status).toBe(1)
    return stderr
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line))
  }

  it('names the module that cannot be loaded with its line, and serves none', async () => {
    const good = await akri.write('good.mjs', moduleOf('async function* discover() {}'))
    const bad = await akri.write('bad.cjs', 'const a = 1\nthrow new Error("no bus")\n')
    expect(serve(good, bad)).toMatchObject([
      {
        level: 'error',
        msg: 'program failed',
        err: {
          message: `${bad} cannot be loaded: no bus`,
          cause: { stack: expect.stringMatching(/^ {4}at .*\/bad\.cjs:2:7\)/) },
        },
      },
    ])
    const worse = await akri.write('worse.mjs', 'const = 1')
    const message = `${worse} cannot be loaded: ${worse}:1: Unexpected token '='`
    expect(serve(good, worse)).toMatchObject([{ err: { message } }])
  })
})
