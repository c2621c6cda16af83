import { mkdtemp, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { AkriError, InvalidOptionError, messageOf, printableLines } from '@akrijs/runtime'
import manifest from '../package.json' with { type: 'json' }
import { type Arguments, HELP, readArguments, readLanguage } from './arguments.js'
import { cloneAround, lockOf, packClone, readLocalPackages, VENDOR } from './local-packages.js'
import { type ProjectNames, projectNames } from './names.js'
import { checkTarget, type DirectoryFiles, writeProject } from './project.js'
import { Questions } from './questions.js'
import { shellWord } from './shell-word.js'
import { type ExampleProperty, exampleFacts, type Language, readTemplate } from './template.js'

const VERSION = manifest.version
/** The directory of this package. */
const HERE = path.dirname(import.meta.dirname)
const TEMPLATES = path.join(HERE, 'templates')
/** Copies, by tsup.config.ts. */
const EXAMPLES = path.join(HERE, 'dist/examples')

/** What a project is made of. */
interface Plan {
  /** As the person wrote it. */
  readonly directory: string
  readonly target: string
  readonly names: ProjectNames
  readonly language: Language
}

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => stop.abort())

try {
  await main(process.argv.slice(2), stop.signal)
} catch (error) {
  const isStopped = stop.signal.aborted || (error instanceof Error && error.name === 'AbortError')
  const text = isStopped ? 'stopped; nothing was written' : messageOf(error)
  const stack = isStopped || AkriError.is(error) ? '' : `\n${(error as Error).stack}`
  process.stderr.write(`create-handler: ${printableLines(text + stack)}\n`)
  process.exitCode = isStopped ? 130 : InvalidOptionError.is(error) ? 2 : 1
}

async function main(argv: readonly string[], signal: AbortSignal): Promise<void> {
  const args = readArguments(argv)
  if (args.help || args.version) {
    process.stdout.write(args.help ? HELP : `${VERSION}\n`)
    return
  }
  const plan = await planOf(args, signal)
  const example = args.example && { name: args.example, directory: EXAMPLES }
  const template = await readTemplate(TEMPLATES, { ...plan, example, version: VERSION })
  const files = await withLocalPackages(template, args.packages, signal)
  await writeProject(plan.target, files, signal)
  const { property } = example === undefined ? {} : await exampleFacts(example)
  process.stdout.write(nextSteps(plan, property))
}

/** Asks for what the arguments lack, if there is a terminal. */
async function planOf(args: Arguments, signal: AbortSignal): Promise<Plan> {
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY
  using questions = isTerminal ? new Questions(signal) : undefined
  const directory =
    args.directory ??
    (await questions?.ask('Directory of the handler (my-sensor): ', (answer) => {
      const chosen = answer === '' ? 'my-sensor' : answer
      if (args.name === undefined) readNames(chosen, undefined)
      return chosen
    }))
  if (directory === undefined)
    throw new InvalidOptionError('name the directory of the handler, such as my-sensor')
  const names = readNames(directory, args.name)
  const target = await checkTarget(directory)
  const language =
    args.language ??
    (args.example && 'javascript') ??
    (await questions?.ask('javascript or typescript (javascript): ', (answer) =>
      readLanguage(answer === '' ? 'javascript' : answer),
    ))
  return { directory, target, names, language: language ?? 'javascript' }
}

function readNames(directory: string, name: string | undefined): ProjectNames {
  const names = projectNames(name ?? path.basename(path.resolve(directory)))
  if (typeof names !== 'string') return names
  throw new InvalidOptionError(name === undefined ? `${names}, or give --name` : names)
}

/** The files of a project that takes the packages of Akri from tarballs, if it should. */
async function withLocalPackages(
  files: ReadonlyMap<string, string>,
  directory: string | undefined,
  signal: AbortSignal,
): Promise<DirectoryFiles> {
  const clone = cloneAround(HERE)
  if (directory === undefined && clone === undefined) return files
  const packed = await mkdtemp(path.join(os.tmpdir(), 'akri-packages-'))
  try {
    if (directory === undefined && clone !== undefined) await packClone(clone, packed, signal)
    const project: unknown = JSON.parse(files.get('package.json') ?? 'null')
    const packages = await readLocalPackages(directory ?? packed, project)
    const about = (file: string) => readFile(path.join(TEMPLATES, VENDOR, file), 'utf8')
    return new Map<string, string | Uint8Array>([
      ...files,
      [path.join(VENDOR, 'README.md'), await about('README.md')],
      // npm publishes no file .npmrc.
      ['.npmrc', await about('_npmrc')],
      ['package-lock.json', lockOf(project, packages)],
      ...packages.map(({ file, bytes }) => [path.join(VENDOR, file), bytes] as const),
    ])
  } finally {
    await rm(packed, { recursive: true, force: true })
  }
}

function nextSteps({ directory, names, language }: Plan, property: ExampleProperty): string {
  const write = property && `  printf %s KEY > ${property.file}     ${property.meaning}\n`
  return `${names.package} is in ${directory}, in ${language}. Next:

  cd ${shellWord(directory)}
  npm install
${write ?? ''}  npm run discover     shows the devices that it finds
  npm test

README.md has the rest.
`
}
