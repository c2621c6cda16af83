import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { nameClashes } from '@akrijs/api'
import { fieldOf, messageOf, printable, printableLines } from '@akrijs/runtime'
import { print as printTo } from '@akrijs/runtime/program'
import type { DiscoveryHandler } from '@akrijs/sdk/handler'
import { manifestFilesIn } from '@akrijs/standalone'
import { BUILT_IN_HANDLERS, HANDLERS_FROM } from '../built-in-handlers.js'
import type { ValidateOptions } from '../command-options.js'
import { InvalidManifestError } from '../errors.js'
import { findHandler } from '../handler-source.js'
import { projectHandlers } from '../project-handlers.js'
import {
  byPlace,
  type CheckedFile,
  type FileFinding,
  fileFindings,
  type KnownHandlers,
} from '../validate/file-findings.js'
import { readManifest } from '../validate/read-manifest.js'
import { loadBuiltIn } from './configuration-details.js'

interface Surroundings {
  /** @returns the built-in handler of this name, if any */
  readonly load: (name: string) => Promise<DiscoveryHandler | undefined>
  readonly print: (line: string) => void
  /** Its handlers are known too. @default the working directory */
  readonly project: string
}

/** The most findings of a file that are printed. */
const MAX_PRINTED = 100

/**
 * `akri validate`: checks the Configurations in files and directories, and their details by the
 * handlers, without an agent.
 * @throws InvalidManifestError if a file has a problem, and not only warnings
 */
export async function validate(
  paths: readonly string[],
  { json, handler }: Pick<ValidateOptions, 'json' | 'handler'>,
  { load = loadBuiltIn, print = printLine, project = process.cwd() }: Partial<Surroundings> = {},
): Promise<void> {
  const handlers = await handlersOf(handler, load, project)
  const checked = new Map<string, CheckedFile>()
  for (const path of paths) {
    for (const file of await filesIn(path)) {
      const key = file === '-' ? file : resolve(file)
      const read = file === path ? readManifest : readRegularFile
      if (!checked.has(key)) checked.set(key, await checkFile(file, read, handlers))
    }
  }
  const configurations = [...checked.values()].flatMap(({ configurations, findings }) =>
    configurations.map((each) => ({ ...each, findings })),
  )
  for (const { item, message } of nameClashes(configurations)) {
    const { file, place, path, findings } = item
    findings.push({ level: 'problem', file, place, path, message })
  }
  report([...checked.values()], configurations.length, json, print)
}

function report(
  checked: readonly CheckedFile[],
  configurations: number,
  json: boolean,
  print: Surroundings['print'],
): void {
  const findings = checked.flatMap((each) => each.findings)
  const problems = findings.filter(({ level }) => level === 'problem').length
  const warnings = findings.length - problems
  const shown = checked.flatMap((each) => each.findings.sort(byPlace).slice(0, MAX_PRINTED))
  const leftOut = findings.length - shown.length
  const counts = { files: checked.length, configurations, problems, warnings, leftOut }
  if (json) print(JSON.stringify({ ...counts, findings: shown.map(asJson) }))
  else {
    for (const finding of shown) print(lineOf(finding))
    if (leftOut > 0) print(`${counted(leftOut, 'finding')} more`)
    print(
      `${counted(configurations, 'Configuration')} in ${counted(checked.length, 'file')}: ` +
        `${counted(problems, 'problem')}, ${counted(warnings, 'warning')}`,
    )
  }
  if (problems > 0) throw new InvalidManifestError(`${counted(problems, 'problem')} found`)
}

/** @throws HandlerPackageError */
async function handlersOf(
  specifiers: readonly string[],
  load: Surroundings['load'],
  project: string,
): Promise<KnownHandlers> {
  const packages = await Promise.all(
    specifiers.map((specifier) => findHandler(specifier, HANDLERS_FROM)),
  )
  const byName = new Map(packages.map((each) => [each.name, each]))
  const ofProject = await projectHandlers(project)
  return {
    names: [...byName.keys(), ...Object.keys(BUILT_IN_HANDLERS), ...ofProject.keys()],
    load: async (name: string) =>
      byName.get(name)?.load() ?? (await load(name)) ?? ofProject.get(name)?.(),
  }
}

/** The files of a path. What cannot be read shows when it is read. */
async function filesIn(path: string): Promise<readonly string[]> {
  const files = path === '-' ? [] : await manifestFilesIn(path).catch(() => [])
  return files.length === 0 ? [path] : files
}

/** A read of a pipe in a directory waits for a writer. A person can name a pipe: `<(command)`. */
async function readRegularFile(file: string): Promise<string> {
  const found = await stat(file)
  if (found.isFile() || found.isDirectory()) return readManifest(file)
  throw new InvalidManifestError('it is not a regular file')
}

async function checkFile(
  file: string,
  read: (file: string) => Promise<string>,
  handlers: KnownHandlers,
): Promise<CheckedFile> {
  let text: string
  try {
    text = await read(file)
  } catch (error) {
    const isDirectory = fieldOf(error, 'code') === 'EISDIR'
    const message = isDirectory
      ? 'it is a directory without *.yaml, *.yml and *.json'
      : `it cannot be read: ${messageOf(error)}`
    return { configurations: [], findings: [{ level: 'problem', file, path: '', message }] }
  }
  return fileFindings(file, text, handlers)
}

function asJson({ level, file, place, path, message }: FileFinding) {
  return {
    level,
    file: printable(file),
    ...place,
    path: printable(path),
    message: printableLines(message),
  }
}

/** As compilers and linters write it, so that editors find the place. */
function lineOf({ level, file, place, path, message }: FileFinding): string {
  const where = place === undefined ? file : `${file}:${place.line}:${place.column}`
  const about = [where, level === 'warning' ? level : '', path].filter(Boolean).join(': ')
  // No line of a message can pass for a line of this program.
  return `${printable(about)}: ${printableLines(message).trimEnd().replaceAll('\n', '\n  | ')}`
}

function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

function printLine(line: string): void {
  printTo(process.stdout, `${line}\n`)
}
