import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { ProjectNames } from './names.js'

export const LANGUAGES = ['javascript', 'typescript'] as const
export type Language = (typeof LANGUAGES)[number]

/** The handlers of the gallery: `examples/handlers` of the repository. */
export const EXAMPLES = [
  ...(['serial', 'gpio', 'bluetooth', 'http-hub'] as const),
  ...(['rest-inventory', 'docker-hosts', 'device-files', 'csv'] as const),
]
export type Example = (typeof EXAMPLES)[number]

/** The content of the files of a project, by their paths. */
export type ProjectFiles = ReadonlyMap<string, string>

/** The names of the sources of a project in TypeScript. */
const TYPESCRIPT: Readonly<Record<string, string>> = {
  'handler.js': 'src/handler.ts',
  'handler.test.js': 'src/handler.test.ts',
}

/** What the handler of the template says in TypeScript. */
const TYPES: readonly (readonly [javascript: string, typescript: string])[] = [
  ['import { define', 'import { type Device, type DeviceLists, define'],
  [
    'discover({ details, signal, leaveOut }) {',
    'discover({ details, signal, leaveOut }): DeviceLists {',
  ],
  ['const devices =', 'const devices: Device[] ='],
  ['deviceOf(path, kind) {', 'deviceOf(path: string, kind: string): Device {'],
  ['kindOf(path) {', "kindOf(path: string): Promise<'character' | 'block' | undefined> {"],
  ['if (error.code', "if (error instanceof Error && 'code' in error && error.code"],
]

/** Files that mean something to npm where they are: it would not publish them as they are. */
const RENAMED: Readonly<Record<string, string>> = {
  _gitignore: '.gitignore',
  '_package.json': 'package.json',
}

/** The volume of the template with the device nodes of the node. */
const DEV_VOLUME = / *- name: dev\n *hostPath:\n *path: \/dev\n/

interface ExamplePlace {
  readonly name: Example
  /** The directory of all examples. */
  readonly directory: string
}

interface TemplateOptions {
  readonly language: Language
  readonly names: ProjectNames
  /** In place of the handler of the template. */
  readonly example?: ExamplePlace | undefined
  /** The version of Akri that the project needs. */
  readonly version: string
}

/**
 * Reads the template of a language: a project with the name `@example/my-sensor`. The project in
 * TypeScript is that in JavaScript with other sources, and what the directory `typescript` has.
 *
 * @param directory of the templates
 */
export async function readTemplate(
  directory: string,
  { language, names, example, version }: TemplateOptions,
): Promise<ProjectFiles> {
  const files = new Map(await filesBelow(path.join(directory, 'javascript')))
  if (example !== undefined) await becomeExample(files, example)
  if (language === 'typescript') await becomeTypeScript(files, path.join(directory, language))
  return new Map(
    [...files].map(([file, text]) => [
      RENAMED[file] ?? file,
      renamed(withVersion(text, version), names),
    ]),
  )
}

/** What an example.json says. */
interface ExampleFacts {
  /** The `discoveryDetails` to begin with. */
  readonly details: string
  /** The rule for its device nodes. @default it has none */
  readonly devices?: string
  /** The file or directory of the node that it reads. @default none */
  readonly reads?: string
  /** The property that it needs, in the file that `npm run discover` reads. @default none */
  readonly property?: ExampleProperty
}

export type ExampleProperty =
  | { readonly name: string; readonly file: string; readonly meaning: string }
  | undefined

export async function exampleFacts({ name, directory }: ExamplePlace): Promise<ExampleFacts> {
  return JSON.parse(await readFile(path.join(directory, name, 'example.json'), 'utf8'))
}

/** The handler of an example, its tests, and what the other files say of them. */
async function becomeExample(files: Map<string, string>, example: ExamplePlace): Promise<void> {
  const { name, directory } = example
  const read = (file: string) => readFile(path.join(directory, name, file), 'utf8')
  const { details, devices, reads, property } = await exampleFacts(example)
  const prefix = `${name.toUpperCase().replaceAll('-', '_')}_`
  for (const file of ['handler.js', 'handler.test.js'])
    files.set(
      file,
      (await read(file)).replaceAll(`'${name}'`, "'my-sensor'").replaceAll(prefix, 'MY_SENSOR_'),
    )
  const [, finds = ''] = /^\/\/ Finds (.*)\n/.exec(files.get('handler.js') ?? '') ?? []
  const change = (file: string, changes: readonly (readonly [RegExp, string])[]) => {
    const text = files.get(file) ?? ''
    for (const [pattern] of changes)
      if (!pattern.test(text)) throw new TypeError(`${file} of the templates lacks ${pattern}`)
    files.set(
      file,
      changes.reduce((changed, [pattern, now]) => changed.replace(pattern, () => now), text),
    )
  }
  change('README.md', [
    [/Now it finds device nodes of Linux by their paths\./, `Now it finds ${finds}`],
    [/(?<=--details-text ').*(?='\n)/, details],
    [/(?=`npm run discover` shows)/, discoverText(property)],
    ...(devices === undefined
      ? [[/An operator decides .*?(?=The handler runs in one of two places)/s, ''] as const]
      : [
          [/\| `agent\.handlerAccess\.mounts` .*\n/, ''] as const,
          [/(?<=`AKRI_HANDLER_DEVICES` \| `my-sensor=).*(?=` \|)/, devices] as const,
        ]),
  ])
  if (devices === undefined)
    change('deploy/daemonset.yaml', [
      [/ *- name: HOST_ROOT\n.*\n/, ''],
      ...(reads === undefined
        ? [[/ *# The handler looks for .*\n(.*\n){3}/, ''] as const, [DEV_VOLUME, ''] as const]
        : [
            [/looks for device nodes .*/, `reads ${reads} of the node.`] as const,
            [/dev(?=\n *mountPath: \/host\/dev)/, 'files'] as const,
            [/\/host\/dev/, reads] as const,
            [
              DEV_VOLUME,
              `        - name: files\n          hostPath:\n            path: ${reads}\n`,
            ] as const,
          ]),
    ])
  // The template has a default for its details. The handler of an example can need some.
  const given = property && ` --property ${property.name}=@${property.file}`
  const discover = `akri discover ./ --details-text '${details}'${given ?? ''}`
  change('_package.json', [
    [/akri discover \.\/(?=")/, discover],
    [/akri discover \.\/(?= --watch)/, discover],
  ])
  if (property !== undefined)
    for (const file of ['_gitignore', '.dockerignore']) change(file, [[/$/, `${property.file}\n`]])
  change('deploy/configuration.yaml', [
    [/paths: \[\/dev\/null\]/, details + propertyYaml(property)],
    [/echo "\$MY_SENSOR_DEVICE has .*/, 'env | grep ^MY_SENSOR_'],
  ])
}

/** Where `npm run discover` of an example has details and property from. */
function discoverText(property: ExampleProperty): string {
  const details = 'The scripts of `package.json` have the details to begin with. '
  if (property === undefined) return details
  const { name, file, meaning } = property
  return (
    `${details}They read ${meaning}\nfrom \`${file}\`, which git ignores: ` +
    `\`printf %s KEY > ${file}\`. It is the property \`${name}\` of the handler. In a cluster\n` +
    'the Configuration takes it from a Secret of its namespace: ' +
    `\`kubectl create secret generic my-sensor --from-file=${name}=${file}\`.\n`
  )
}

function propertyYaml(property: ExampleProperty): string {
  if (property === undefined) return ''
  return `
    discoveryProperties:
      - name: ${property.name}
        valueFrom:
          secretKeyRef: { name: my-sensor, key: ${property.name} }`
}

async function becomeTypeScript(files: Map<string, string>, directory: string): Promise<void> {
  for (const [file, text] of [...files]) {
    const source = TYPESCRIPT[file]
    if (source === undefined) {
      const named = text.replace(/handler(\.test)?\.js\b/g, (name) => TYPESCRIPT[name] ?? name)
      files.set(file, named)
      continue
    }
    files.delete(file)
    files.set(source, file === 'handler.js' ? typed(text) : text)
  }
  for (const [file, text] of await filesBelow(directory)) {
    const others = file === '_package.json' ? files.get(file) : undefined
    files.set(file, others === undefined ? text : merged(others, text))
  }
}

function typed(javascript: string): string {
  return TYPES.reduce((text, [plain, withTypes]) => {
    if (!text.includes(plain)) throw new TypeError(`handler.js of the templates lacks ${plain}`)
    return text.replace(plain, withTypes)
  }, javascript)
}

/** A package.json whose other fields are those of the project in JavaScript. */
function merged(javascript: string, fields: string): string {
  return `${JSON.stringify({ ...JSON.parse(javascript), ...JSON.parse(fields) }, undefined, 2)}\n`
}

/** A text of a template with the names of a project. */
export function renamed(text: string, names: ProjectNames): string {
  // At once: the name of the package can contain what is replaced.
  return text.replace(/@example\/my-sensor|my-sensor|MY_SENSOR/g, (found) => {
    if (found === 'MY_SENSOR') return names.prefix
    return found === 'my-sensor' ? names.handler : names.package
  })
}

/** The templates in a clone name the version of some commit. */
function withVersion(text: string, version: string): string {
  return text
    .replace(/("@akrijs\/[a-z-]+": "\^)[^"]*/g, (_, start: string) => `${start}${version}`)
    .replace(/(\/akri-agent:)[0-9.]*/g, (_, start: string) => `${start}${version}`)
}

async function filesBelow(directory: string): Promise<[string, string][]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    // A template that was installed and built in a clone.
    .filter((file) => !/^(node_modules|dist)\//.test(file))
    .sort()
  return Promise.all(
    files.map(
      async (file): Promise<[string, string]> => [
        file,
        await readFile(path.join(directory, file), 'utf8'),
      ],
    ),
  )
}
