import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseManifests } from '@akrijs/api'
import { type DeviceList, defineDiscoveryHandler } from '@akrijs/sdk/handler'
import { loadAll } from 'js-yaml'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { fileFindings } from '../../cli/src/validate/file-findings.js'
import { onvifDetails } from '../../handlers/onvif/src/details.js'
import { opcuaDetails } from '../../handlers/opcua/src/details.js'
import { udevDetails } from '../../handlers/udev/src/details.js'

const root = path.join(import.meta.dirname, '../..')
const inFolder = (folder: string, ending: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('node_modules'))
    .map((name) => path.join(folder, name))
const pages = ['README.md', ...inFolder('docs', '.md')]
/** Of packages, which npm shows. */
const readmes = ['cli/README.md', 'sdk/README.md', ...inFolder('handlers', 'README.md')]
const text = (file: string) => readFileSync(path.join(root, file), 'utf8')

/** The code blocks of one language, each with its place. */
function blocks(file: string, language: string): { where: string; code: string }[] {
  return [
    ...text(file).matchAll(new RegExp(`^[ ]*\`\`\`${language}\\n(.*?)^[ ]*\`\`\`$`, 'gms')),
  ].map((found) => ({
    where: `${file}:${text(file).slice(0, found.index).split('\n').length}`,
    code: found[1] ?? '',
  }))
}

/** All code blocks of a page. */
const codeOf = (file: string) =>
  [...text(file).matchAll(/^ *```\w*\n(.*?)^ *```$/gms)].map(([, block]) => block).join('')

/** Declarations of the reader's own code, which the docs name and do not show. */
const OF_THE_READER = `
import type { EventEmitter } from 'node:events'
import type { Device, DiscoveryHandler } from '@akrijs/sdk'
import type { UdpSocket } from '@akrijs/sdk/network'
declare global {
  function listSensors(url: string, signal: AbortSignal): Promise<Device[]>
  function watchSensors(url: string): AsyncIterable<Device[]>
  const handler: DiscoveryHandler
  const hub: EventEmitter
  const socket: UdpSocket
  const message: Uint8Array
  function read(message: Uint8Array): void
}`

const ENTRIES = ['@akrijs/sdk', '@akrijs/sdk/network', '@akrijs/sdk/testing']
/** What is in scope of the examples of functions: the body of `discover`, and a test. */
const AROUND_EXAMPLE = `
import { expect } from 'vitest'
import * as z from 'zod'
import type { Device, DiscoverContext } from '@akrijs/sdk'
import type { Datagram } from '@akrijs/sdk/network'
type Details = { url: string; urls: string[]; networks: string[] }
async function* discover_({ details, signal, log, properties, remark }: DiscoverContext<Details>) {`

/** Modules of the page for authors; other blocks import them. */
const HANDLERS = ['handler', 'heartbeats', 'web-devices', 'hub', 'locks', 'printers']
const HANDLER = `import type { DiscoveryHandler } from '@akrijs/sdk'
declare const handler: DiscoveryHandler
export default handler`

/** The compiler's messages for modules of these names beside this file. */
function complaints(modules: ReadonlyMap<string, string>): string[] {
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root)
  const host = ts.createCompilerHost(options)
  const files = new Map(
    [...modules].map(([name, code]) => [path.join(import.meta.dirname, name), code]),
  )
  const { fileExists, readFile, getSourceFile } = host
  host.fileExists = (file) => files.has(file) || fileExists(file)
  host.readFile = (file) => files.get(file) ?? readFile(file)
  host.getSourceFile = (file, languageVersion, ...rest) => {
    const code = files.get(file)
    return code === undefined
      ? getSourceFile(file, languageVersion, ...rest)
      : ts.createSourceFile(file, code, languageVersion)
  }
  // JavaScript declares no types, and a quoted block is a part of a program.
  const lenient = { noImplicitAny: false, noUnusedLocals: false, noUnusedParameters: false }
  const program = ts.createProgram([...files.keys()], { ...options, ...lenient }, host)
  return [...files.keys()].flatMap((name) => {
    const file = program.getSourceFile(name)
    const found = [
      ...program.getSyntacticDiagnostics(file),
      ...program.getSemanticDiagnostics(file),
    ]
    return found.map(
      ({ messageText }) =>
        `${path.basename(name)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
    )
  })
}

const DETAILS = new Map<string, z.ZodType>([
  ['onvif', onvifDetails],
  ['opcua', opcuaDetails],
  ['udev', udevDetails],
])

async function* nothing(): AsyncGenerator<DeviceList> {}

const isConfiguration = (object: unknown) =>
  typeof object === 'object' &&
  object !== null &&
  'kind' in object &&
  object.kind === 'Configuration'

const shown = pages.flatMap((file) =>
  blocks(file, 'yaml').filter(({ code }) => loadAll(code).some(isConfiguration)),
)
const examples = [
  ...inFolder('examples/standalone', '.yaml'),
  ...inFolder('examples/usb', '.yaml'),
  ...inFolder('examples/demo', '.yaml'),
  ...inFolder('examples/firmware-report', '.yaml'),
  ...inFolder('examples/onvif-snapshot', '.yaml'),
  ...inFolder('deploy/manifests/examples', '.yaml'),
]
  .filter((file) => !file.endsWith('kustomization.yaml'))
  .map((file) => ({ where: file, code: text(file) }))

describe('R67 the docs', () => {
  it.each(pages)('%s links to existing files', (page) => {
    const links = [...text(page).matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)].map(
      ([, link = '']) => link,
    )
    expect(links.filter((link) => !existsSync(path.join(root, path.dirname(page), link)))).toEqual(
      [],
    )
  })

  // Outside a clone, npx would take the package that has the name of the program.
  it('say once that akri is npx akri in a clone, and pages with commands link there', () => {
    expect(existsSync(path.join(root, 'node_modules/.bin/akri'))).toBe(true)
    expect(text('docs/standalone.md')).toContain(
      '### The program `akri`\nIn a clone, the command is `npx akri`',
    )
    const withCommands = pages.filter((page) => /^ *(\$ )?akri \w/m.test(codeOf(page)))
    expect(withCommands).toContain('docs/migration.md')
    const withoutLink = withCommands.filter(
      (page) => !text(page).includes('standalone.md#the-program-akri'),
    )
    expect(withoutLink).toEqual(['docs/standalone.md'])
  })

  it('say which commands need a release', () => {
    const needRelease = [...pages, ...readmes, 'create-handler/README.md'].filter((page) =>
      /^ *(\$ )?(npx|npm (install|create)) (--global )?@akrijs/m.test(codeOf(page)),
    )
    expect(needRelease).toContain('sdk/README.md')
    expect(needRelease.filter((page) => !text(page).includes('from the first release on'))).toEqual(
      [],
    )
  })

  it.each([...pages, ...readmes])('%s runs programs by the names of our packages', (page) => {
    const content = text(page)
    const install = content.indexOf('npm install @akrijs/sdk')
    for (const { index, 1: program = '' } of content.matchAll(/\bnpx (?:--?[-\w]+ )*([^\s`]+)/g)) {
      if (/^@akrijs\/[a-z-]+$/.test(program)) continue
      if (program === 'akri') {
        expect(content).toMatch(/\bclone\b/)
        continue
      }
      // A package that the page has installed before. Otherwise npx would take the package that has
      // the name of the program.
      expect(program).toBe('akri-handler')
      expect(install).toBeGreaterThanOrEqual(0)
      expect(install).toBeLessThan(index)
    }
  })

  it.each([...shown, ...examples])('$where is a valid Configuration', async ({ where, code }) => {
    const names = [...DETAILS.keys()]
    const load = async (name: string) => {
      const details = DETAILS.get(name)
      return details && defineDiscoveryHandler({ name, shared: false, details, discover: nothing })
    }
    const { findings, configurations } = await fileFindings(where, code, { names, load })
    expect(findings.filter(({ level }) => level === 'problem')).toEqual([])
    expect(configurations.length).toBeGreaterThan(0)
  })

  it('have code that compiles', () => {
    // The reference has signatures, and parts of programs from comments.
    const shownCode = pages
      .filter((file) => !file.startsWith('docs/reference/'))
      .flatMap((file) => [...blocks(file, 'ts'), ...blocks(file, 'js')])
    expect(shownCode.length).toBeGreaterThan(2)
    // Each block becomes a module by its export, so that names of blocks do not collide.
    const modules = shownCode.map(
      ({ where, code }) =>
        [`${where.replace(/[^a-z0-9]/gi, '-')}.ts`, `${code}\nexport {}`] as const,
    )
    expect(
      complaints(
        new Map([
          ['of-the-reader.ts', OF_THE_READER],
          ...HANDLERS.map((name) => [`${name}.ts`, HANDLER] as const),
          ...modules,
        ]),
      ),
    ).toEqual([])
  })

  it('have examples of functions that compile', async () => {
    const imports = await Promise.all(
      ENTRIES.map(async (entry) => {
        const names = Object.keys(await import(entry))
        return `import { ${names.join(', ')} } from '${entry}'`
      }),
    )
    const examples = ['sdk/src', 'runtime/src']
      .flatMap((folder) => inFolder(folder, '.ts'))
      .filter((file) => !file.endsWith('.test.ts'))
      .flatMap((file) =>
        [...text(file).matchAll(/^ \* @example\n(.*?)^ \*(\/| @)/gms)].map(
          ([, code = ''], index) => [
            `${file.replace(/[^a-z0-9]/gi, '-')}-${index}.ts`,
            code.replace(/^ \* ?/gm, ''),
          ],
        ),
      )
    expect(examples.length).toBeGreaterThan(30)
    const modules = examples.map(([name = '', code = '']): [string, string] => [
      name,
      `${imports.join('\n')}${AROUND_EXAMPLE}\n${code.replace('export default', 'return')}\n}`,
    ])
    expect(complaints(new Map([['of-the-reader.ts', OF_THE_READER], ...modules]))).toEqual([])
  })

  it('show how a Pod asks for a device of a Configuration on the same page', () => {
    const resourcesOf = (code: string) =>
      [...code.matchAll(/^ *limits: \{ akri\.sh\/([-a-z0-9]+): 1 \}$/gm)].map(
        ([, name = '']) => name,
      )
    const pods = blocks('docs/brokers.md', 'yaml').filter(({ code }) => /^kind: Pod$/m.test(code))
    const configurations = blocks('docs/brokers.md', 'yaml').flatMap(({ where, code }) =>
      parseManifests(code, where).manifests.flatMap(({ content }) =>
        content.kind === 'Configuration' ? [content.configuration] : [],
      ),
    )
    expect(pods.flatMap(({ code }) => resourcesOf(code))).toEqual([configurations[0]?.name])
    const placeholder = JSON.stringify(configurations[0]?.spec.brokerSpec)
    expect(placeholder).toContain('"limits":{"{{PLACEHOLDER}}":"1"}')
  })

  it('write each udev rule on a line of its own', () => {
    const code = [...pages, ...readmes].map((file) => ({ where: file, code: text(file) }))
    const files = [...code, ...examples].filter(({ code }) => /udevRules"?: *\[/.test(code))
    expect(files.map(({ where }) => where)).toEqual([])
  })
})
