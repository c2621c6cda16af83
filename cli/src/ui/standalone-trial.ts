import { createHash } from 'node:crypto'
import { chmod, readFile, realpath, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import {
  API_VERSION,
  type Configuration,
  type ConfigurationManifest,
  maskObject,
  nameClashes,
  parseManifests,
} from '@akrijs/api'
import { keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
import { codeOf, type Logger, messageOf, replaceFile } from '@akrijs/runtime'
import type { StandaloneAgent } from '@akrijs/standalone'
import {
  type UiCheck,
  type UiDiscovery,
  type UiFile,
  type UiFiles,
  type UiOpenFile,
  type UiTrial,
  UiTrialError,
} from '@akrijs/ui'
import * as z from 'zod'
import { loadBuiltIn } from '../commands/configuration-details.js'
import { byPlace, fileFindings } from '../validate/file-findings.js'
import { DiscoveryProcess } from '../watch/discovery-process-run.js'

interface StandaloneTrialOptions {
  readonly standalone: Pick<StandaloneAgent, 'cluster' | 'handlers' | 'sourceOf'>
  /** The files and directories that the agent follows. */
  readonly manifests: readonly string[]
  /** Whether the page may write files. */
  readonly writes: boolean
  /** Whether each handler of the agent runs in a process of its own. */
  readonly isolated: boolean
  /** The variables that handlers get in processes of their own. */
  readonly handlerVariables: readonly string[]
  readonly log: Logger
}

/** What messages call the text. */
const TEXT = 'this text'
/** The most findings that the page gets. */
const MAX_FINDINGS = 100

const reported = z.array(
  z.object({ id: z.string(), reason: z.string(), detail: z.string().optional() }),
)
/** A line of `akri discover --json`. The code of the handler runs in the process that sends it. */
const discovery = z.object({
  devices: z.array(z.object({ id: z.string(), properties: z.record(z.string(), z.string()) })),
  leftOut: reported,
  problems: reported,
  remarks: z.array(z.string()),
})

/** Tries Configurations with the handlers of the agent of this machine. */
export class StandaloneTrial implements UiTrial {
  readonly files: UiFiles | undefined
  readonly #options: StandaloneTrialOptions

  constructor(options: StandaloneTrialOptions) {
    this.#options = options
    if (options.writes)
      this.files = {
        open: (configuration) => this.#open(configuration),
        write: (text, open) => this.#write(text, open),
      }
  }

  async check(text: string, open: UiOpenFile | undefined): Promise<UiCheck> {
    const { findings, configurations } = await this.#check(text, open)
    const shown = findings.slice(0, MAX_FINDINGS)
    return {
      findings: shown.map(({ level, path, place, message }) => ({ level, path, place, message })),
      more: findings.length - shown.length,
      configurations: configurations.map(({ name }) => name),
    }
  }

  async #check(text: string, open: UiOpenFile | undefined) {
    const { standalone, isolated } = this.#options
    const { handlers, cluster } = standalone
    const { findings, configurations } = await fileFindings(TEXT, text, {
      names: handlers.map(({ name }) => name),
      // The code of other handlers stays out of this process.
      load: async (name) =>
        isolated ? loadBuiltIn(name) : handlers.find((each) => each.name === name)?.load(),
    })
    const replaced = open && standalone.sourceOf(open.configuration as ObjectKey)?.file
    const others = cluster.configurations.list().flatMap(({ metadata }) => {
      const file = standalone.sourceOf(keyOf({ metadata }))?.file
      if (file === undefined || file === replaced) return []
      const { name, namespace } = metadata
      return [{ file, configuration: { name, namespace }, path: '', place: undefined }]
    })
    for (const { item, message } of nameClashes([...others, ...configurations]))
      if (item.file === TEXT) findings.push({ ...item, level: 'problem', file: TEXT, message })
    findings.sort(byPlace)
    return { findings, configurations: configurations.map((each) => each.configuration) }
  }

  async discover(text: string, name: string, signal: AbortSignal): Promise<UiDiscovery> {
    const configuration = manifestsIn(text).find((each) => each.name === name)
    if (configuration === undefined)
      throw new UiTrialError(`there is no valid Configuration ${name} in ${TEXT}`)
    const { standalone, isolated, handlerVariables } = this.#options
    const { discoveryHandler } = configuration.spec
    const handler = standalone.handlers.find((each) => each.name === discoveryHandler.name)
    if (handler === undefined)
      throw new UiTrialError(
        `the agent has not loaded a handler ${discoveryHandler.name}: name its package by ` +
          '--handler. A handler that registers itself cannot be tried here',
      )
    const properties = await standalone.cluster.resolveProperties(objectOf(configuration))
    let last: string | undefined
    const process = new DiscoveryProcess(
      {
        handler: handler.module,
        details: discoveryHandler.discoveryDetails ?? '',
        properties: [...properties.entries()],
        form: 'json',
        logLevel: 'error',
        logFormat: 'json',
        isColored: false,
        isOnce: true,
      },
      {
        onList: (list) => {
          last = list
        },
        onFile: () => {},
      },
      { output: 'ignore', ...(isolated && { variables: ['PATH', ...handlerVariables] }) },
    )
    const kill = () => process.kill()
    signal.addEventListener('abort', kill)
    if (signal.aborted) kill()
    const failure = await process.ended
    signal.removeEventListener('abort', kill)
    if (last === undefined) throw new UiTrialError(failure.replace(/^akri: /, ''))
    return discovery.parse(JSON.parse(last))
  }

  async #open(configuration: string): Promise<UiFile> {
    const { file, text } = await this.#fileOf(configuration)
    const { problems, manifests } = parseManifests(text, file)
    if (problems.length > 0)
      throw new UiTrialError(`${file} has a problem: correct the file itself first`)
    const hasSecret = manifests.some(({ content }) => {
      if (content.kind === 'Data') return content.data.kind === 'Secret'
      const object = objectOf(content.configuration)
      return !isDeepStrictEqual(maskObject(object), object)
    })
    if (hasSecret)
      throw new UiTrialError(`${file} has a secret, which no page shows: edit the file itself`)
    return { file, text, version: versionOf(text) }
  }

  async #write(text: string, open: UiOpenFile | undefined) {
    const { findings, configurations } = await this.#check(text, open)
    const problem = findings.find(({ level }) => level === 'problem')
    if (problem !== undefined)
      throw new UiTrialError(`${TEXT} has a problem: ${problem.path}: ${problem.message}`)
    const [first] = configurations
    if (first === undefined) throw new UiTrialError(`there is no Configuration in ${TEXT}`)
    const { name, namespace } = first
    const file = open === undefined ? await this.#newFile(name, text) : await this.#edit(open, text)
    this.#options.log.info({ file }, 'file of Configurations written by the page')
    const configuration = open?.configuration ?? objectKey(namespace, name)
    return { file, configuration, version: versionOf(text) }
  }

  async #newFile(name: string, text: string): Promise<string> {
    const directory = await this.#directory()
    const file = path.join(directory, `${name}.yaml`)
    try {
      await writeFile(file, text, { flag: 'wx' })
      return file
    } catch (error) {
      const why = codeOf(error) === 'EEXIST' ? 'there is such a file' : messageOf(error)
      throw new UiTrialError(`${file} cannot be written: ${why}`, { cause: error })
    }
  }

  /** The first directory that the agent follows. */
  async #directory(): Promise<string> {
    for (const manifest of this.#options.manifests) {
      const found = await stat(manifest).catch(() => undefined)
      if (found?.isDirectory()) return manifest
    }
    throw new UiTrialError(
      'there is no directory for a new file: start the agent with -f DIRECTORY, or edit a ' +
        'Configuration that it has',
    )
  }

  /** Replaces a file that nothing has changed since it was opened. */
  async #edit({ configuration, version }: UiOpenFile, text: string): Promise<string> {
    const { file, text: before } = await this.#fileOf(configuration)
    if (versionOf(before) !== version)
      throw new UiTrialError(`${file} has changed since you opened it: open it again`)
    try {
      const target = await realpath(file)
      const { mode } = await stat(target)
      await replaceFile(target, [text])
      await chmod(target, mode)
      return file
    } catch (error) {
      throw new UiTrialError(`${file} cannot be written: ${messageOf(error)}`, { cause: error })
    }
  }

  async #fileOf(configuration: string): Promise<{ readonly file: string; readonly text: string }> {
    const file = this.#options.standalone.sourceOf(configuration as ObjectKey)?.file
    if (file === undefined)
      throw new UiTrialError(`no file of the agent has the Configuration ${configuration}`)
    try {
      return { file, text: await readFile(file, 'utf8') }
    } catch (error) {
      throw new UiTrialError(`${file} cannot be read: ${messageOf(error)}`, { cause: error })
    }
  }
}

function manifestsIn(text: string): ConfigurationManifest[] {
  return parseManifests(text, TEXT).manifests.flatMap(({ content }) =>
    content.kind === 'Configuration' ? [content.configuration] : [],
  )
}

/** The object that a cluster would have. */
function objectOf({ spec, ...metadata }: ConfigurationManifest): Configuration {
  return {
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata: { ...metadata, uid: '', generation: 1, resourceVersion: '', creationTimestamp: '' },
    spec,
  }
}

function versionOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
