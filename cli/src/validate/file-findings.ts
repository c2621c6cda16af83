import {
  BUNDLED_TYPES,
  type ConfigurationManifest,
  DETAILS_PATH,
  detailsFindings,
  type Finding,
  handlerOf,
  type InDetails,
  type ManifestObject,
  ManifestPlaces,
  type Place,
  parseManifests,
  specFindings,
} from '@akrijs/api'
import { fieldOf, messageOf, nearest, shorten } from '@akrijs/runtime'
import { type DiscoveryHandler, ruleHint } from '@akrijs/sdk/handler'
import { load, YAMLException } from 'js-yaml'

interface Located {
  /** Without a place, it is about the whole file. */
  readonly place?: Place | undefined
}

export interface FileFinding extends Located, Finding {
  readonly file: string
}

export interface KnownHandlers {
  /** @returns the handler of this name, if it is built in or one of `--handler` */
  readonly load: (name: string) => Promise<DiscoveryHandler | undefined>
  /** The names of these handlers. */
  readonly names: readonly string[]
}

/** A finding, with what its place is computed from. */
interface RawFinding extends Omit<FileFinding, 'file'> {
  readonly document: number
  readonly inDetails?: InDetails
}

/** A file with more findings is not checked to its end: each costs memory. */
const MAX_COLLECTED = 1000

/** A valid Configuration, with the place of its name. */
interface LocatedConfiguration extends Located {
  readonly file: string
  readonly path: string
  readonly configuration: ConfigurationManifest
}

export interface CheckedFile {
  readonly findings: FileFinding[]
  readonly configurations: readonly LocatedConfiguration[]
}

/** Checks a file. Throws only the errors of `load`. */
export async function fileFindings(
  file: string,
  text: string,
  handlers: KnownHandlers,
): Promise<CheckedFile> {
  const { problems, manifests, configurations, foreign = [] } = parseManifests(text, file)
  const found: RawFinding[] = problems
    .slice(0, MAX_COLLECTED)
    .map((problem) => ({ level: 'problem', ...problem }))
  for (const item of configurations) {
    if (found.length >= MAX_COLLECTED) break
    found.push(...(await configurationFindings(item, handlers)))
  }
  found.push(...foreignFindings(foreign))
  if (manifests.length === 0 && found.length === 0)
    found.push({ level: 'warning', document: 0, path: '', message: 'it has no Configuration' })
  const places = new ManifestPlaces(text)
  return {
    findings: found.map((finding) => {
      const { level, path, message } = finding
      return { level, file, place: places.placeOf(finding), path, message }
    }),
    configurations: manifests.flatMap(({ document, at, content }) => {
      if (content.kind !== 'Configuration') return []
      const path = `${at}metadata.name`
      const { configuration } = content
      return { file, place: places.placeOf({ document, path }), path, configuration }
    }),
  }
}

/** One warning for all objects that Akri does not read: files of a cluster can have many. */
function foreignFindings(foreign: readonly ManifestObject[]): RawFinding[] {
  const [first] = foreign
  if (first === undefined) return []
  const [kind, apiVersion] = ['kind', 'apiVersion'].map((key) =>
    shorten(fieldOf(first.object, key)),
  )
  const more = foreign.length === 1 ? '' : ` (the first of ${foreign.length} such objects)`
  const message = `it is ${kind} of ${apiVersion}, and is left out${more}`
  return [{ level: 'warning', document: first.document, path: `${first.at}kind`, message }]
}

async function configurationFindings(
  { document, at, object }: ManifestObject,
  handlers: KnownHandlers,
): Promise<RawFinding[]> {
  const found: Omit<RawFinding, 'document'>[] = [
    ...specFindings(object, { types: BUNDLED_TYPES, usedIn: 'cluster' }),
    ...(await handlerFindings(object, handlers)),
  ]
  return found.map((finding) => ({ ...finding, document, path: at + finding.path }))
}

async function handlerFindings(
  object: unknown,
  { load, names }: KnownHandlers,
): Promise<Omit<RawFinding, 'document'>[]> {
  const reference = handlerOf(object)
  if (reference === undefined) return []
  const { name, details } = reference
  const handler = await load(name)
  if (handler === undefined) {
    const similar = nearest(name, names, 2)
    const hint =
      similar === undefined ? 'give its package by --handler' : `did you mean ${similar}?`
    const found = `the handler ${shorten(name)} is not built in`
    const message = `${found}: its details are not checked; ${hint}`
    return [{ level: 'warning', path: 'spec.discoveryHandler.name', message }]
  }
  const syntaxError = syntaxErrorIn(details)
  if (syntaxError !== undefined) return [syntaxError]
  try {
    const found = await detailsFindings(details, handler)
    return found.map(({ pathInDetails, ...finding }) => ({
      ...finding,
      inDetails: { path: pathInDetails },
    }))
  } catch (error) {
    const message = `the handler ${name} cannot check it: ${messageOf(error)}`
    return [{ level: 'problem', path: DETAILS_PATH, message }]
  }
}

function syntaxErrorIn(details: string): Omit<RawFinding, 'document'> | undefined {
  if (details.trim() === '') return undefined
  try {
    load(details)
    return undefined
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    return {
      level: 'problem',
      path: DETAILS_PATH,
      message: `it is not YAML: ${error.reason}${ruleHint(details, error.mark?.line)}`,
      inDetails: { offset: error.mark?.position ?? 0 },
    }
  }
}

/** The order of findings of a file. */
export function byPlace({ place: a }: FileFinding, { place: b }: FileFinding): number {
  return (a?.line ?? 0) - (b?.line ?? 0) || (a?.column ?? 0) - (b?.column ?? 0)
}
